package sandbox

import (
	"strings"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// Signal sends a signal to every process of the run, or of what it left behind:
// INT, TERM, HUP, QUIT, USR1, USR2, with or without "SIG" before it, or KILL,
// which no process survives.
func (r *Run) Signal(name string) error {
	n, ok := signalNumber(name)
	if !ok {
		return Errorf(InvalidArgument, "Use INT, TERM, KILL, HUP, QUIT, USR1 or USR2.", "signal %.40q cannot be sent", name)
	}
	if r.isOver() {
		return r.endedError()
	}
	if n == sigKill {
		r.kill(Killed, 0, nil)
		return nil
	}
	return r.conn.sendJSON(wire.Signal, r.wireID, wire.SignalBody{Signal: n}) // the agent ignores one that comes too late
}

// Resize gives the run's terminal another size, of which its programs are told.
func (r *Run) Resize(cols, rows int) error {
	size := Size{Cols: cols, Rows: rows}
	if err := checkSize(size); err != nil {
		return err
	}
	if r.Command.TTY == nil {
		return Errorf(InvalidArgument, "Start the command with tty: true.", "command %s has no terminal", r.ID)
	}
	if r.ended() {
		return r.endedError()
	}
	r.resizeScreen(size)
	return r.conn.sendJSON(wire.Resize, r.wireID, size)
}

// SignalName returns the name of a signal of Linux: "SIGTERM" for 15.
func SignalName(n int) string { return signalName(n) }

const sigKill = 9

// signalNumber returns the number of a signal that can be sent, by its name with or
// without "SIG".
func signalNumber(name string) (n int, ok bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for n, full := range signalNames {
		if name != "" && full == "SIG"+name {
			return n, n == sigKill || wire.Sendable(n)
		}
	}
	return 0, false
}
