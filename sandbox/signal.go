package sandbox

import (
	"errors"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// Signal sends a signal to every process of the run, or of what it left behind:
// INT, TERM, HUP, QUIT, USR1, USR2, with or without "SIG" before it, or KILL,
// which none survives.
func (r *Run) Signal(name string) error {
	n, ok := signalNumber(name)
	if !ok {
		return Errorf(InvalidArgument, "Use INT, TERM, KILL, HUP, QUIT, USR1 or USR2.", "no signal %.40q can be sent", name)
	}
	if r.isOver() {
		return r.overError()
	}
	if n == sigKill {
		r.kill(Killed, 0)
		return nil
	}
	return r.tell(wire.Signal, wire.SignalBody{Signal: n})
}

// isOver reports whether nothing of the run is left.
func (r *Run) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Resize gives the run's terminal another size, of which its programs are told.
func (r *Run) Resize(cols, rows int) error {
	size := Size{Cols: cols, Rows: rows}
	if err := checkSize(size); err != nil {
		return err
	}
	if r.Command.TTY == nil {
		return Errorf(InvalidArgument, "Start it with tty: true.", "command %s has no terminal", r.ID)
	}
	if r.ended() {
		return r.overError()
	}
	return r.tell(wire.Resize, size)
}

// tell sends a frame about the run. What comes too late the agent ignores.
func (r *Run) tell(kind wire.Kind, body any) error {
	return r.Box.sent(r.Box.link.SendJSON(kind, r.wireID, body))
}

// sent makes of a frame that did not leave the end of the box. The reason is told by
// who reads, who learns how the box ended; a write that failed knows only that nobody
// is there, and the names of sockets.
func (b *Box) sent(err error) error {
	if err == nil {
		return nil
	}
	b.logger.Debug("a frame did not leave", "err", err)
	select {
	case <-b.link.Ending():
	case <-time.After(causeTime):
		b.link.Fail(errors.New("its agent takes no more"))
	}
	return b.Gone()
}

// causeTime is how long who reads has to tell how the box ended: longer than a backend
// waits for that.
const causeTime = 3 * time.Second

const sigKill = 9

// signalNumber knows those that a run can be sent, by their names without "SIG".
func signalNumber(name string) (n int, ok bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	for n, full := range signalNames {
		if name != "" && full == "SIG"+name {
			return n, n == sigKill || wire.Sendable(n)
		}
	}
	return 0, false
}

func checkSize(s Size) error {
	if !s.Valid() {
		return Errorf(InvalidArgument, "80 by 24 is usual.", "a terminal cannot have %d columns and %d rows", s.Cols, s.Rows)
	}
	return nil
}
