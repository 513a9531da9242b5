package cli

import (
	"os"
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
