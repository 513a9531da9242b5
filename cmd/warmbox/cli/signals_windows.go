package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// passedSignals are the signals that run passes on to its program, by their names there.
var passedSignals = map[os.Signal]string{os.Interrupt: "INT", syscall.SIGTERM: "TERM"}

// catchSignals returns a channel that receives them.
func catchSignals() (received chan os.Signal, stop func()) {
	received = make(chan os.Signal, 16)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	return received, func() { signal.Stop(received) }
}

// signalNumber returns the number of a signal.
func signalNumber(s os.Signal) int { return int(s.(syscall.Signal)) }

// detached gives a process a group of its own, so that no console's signal reaches it.
func detached(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
