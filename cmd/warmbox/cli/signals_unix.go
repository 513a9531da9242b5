//go:build unix

package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// passedSignals are the signals that run passes on to its program, by their names there.
var passedSignals = map[os.Signal]string{
	syscall.SIGINT: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT",
	syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2",
}

// catchSignals returns a channel that receives them. A signal that is ignored, as SIGHUP
// under nohup, stays ignored. A write to a closed pipe is an error from then on.
func catchSignals() (received chan os.Signal, stop func()) {
	received = make(chan os.Signal, 16)
	for s := range passedSignals {
		if !signal.Ignored(s) {
			signal.Notify(received, s)
		}
	}
	closedPipe := make(chan os.Signal, 1)
	signal.Notify(closedPipe, syscall.SIGPIPE)
	return received, func() { signal.Stop(received) }
}

// signalNumber returns the number of a signal.
func signalNumber(s os.Signal) int { return int(s.(syscall.Signal)) }

// detached gives a process a session of its own, so that no terminal's signal reaches it.
func detached(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
