// Package isolate makes tests independent of the process that started them. What a
// process inherits, it passes on: under nohup a test ignores SIGHUP, and so does
// every program that it starts.
//
// It resets ignored signals, open descriptors and the file mode mask. It does not
// touch the environment, the working directory, resource limits and the signal
// mask, which no Go program can change for its children.
package isolate

import (
	"os"
	"os/signal"
	"syscall"
)

// Process resets what this process inherited, for itself and for its children. A
// TestMain calls it before it runs the tests. A test binary that runs as another
// program, such as the agent, must not call it: what that program does with what it
// inherits is under test.
func Process() {
	catchIgnored()
	closeOnExec()
	resetMask()
}

// catchIgnored catches each signal that the process ignores since it started. A
// child gets the default action of a signal that its parent catches, and ignores
// what its parent ignores. signal.Reset does not help: it restores what was
// inherited. For the tests themselves nothing changes: nothing reads the channel.
func catchIgnored() {
	for sig := syscall.Signal(1); sig < 65; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
