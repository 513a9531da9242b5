//go:build linux

package agent

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles is how many descriptors a command may have. Some programs close
	// all that they could have, one by one, which takes minutes where an
	// engine's limit is a billion.
	maxFiles = 65536

	// warmThreads is what the Go runtime has needed at most, with room: at the
	// box's process limit it could get no new one, and would die.
	warmThreads = 10
)

// initProcess reports whether we are the first process of a pid name space, and
// may do what only that one may.
func initProcess() bool { return os.Getpid() == 1 }

// harden makes the process what its package says. It comes before everything else.
func harden() error {
	if initProcess() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("make myself non-dumpable: %w", err)
		}
		catchSignals()
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	if err := lowerLimits(); err != nil {
		return err
	}
	// What whoever started us left open or ignored is not for commands.
	unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	hearIgnored()
	runtime.GOMAXPROCS(min(runtime.NumCPU(), 4))
	debug.SetGCPercent(50)
	warmUp()
	return nil
}

// catchSignals drains every signal that a process of our own name space can
// send us. Those without a handler the kernel keeps from a PID 1 anyway.
func catchSignals() {
	c := make(chan os.Signal, 16)
	signal.Notify(c)
	go func() {
		for range c {
		}
	}()
}

// hearIgnored makes every signal that we inherited as ignored one that we catch:
// a child starts with the default for those, but goes on ignoring the others.
func hearIgnored() {
	c := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig < 65; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// lowerLimits sets what commands inherit. It only lowers, so it works whatever
// the engine's own limits are.
func lowerLimits() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("turn core dumps off: %w", err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	files.Max = min(files.Max, maxFiles)
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("lower the limit of open files to %d: %w", files.Max, err)
	}
	return nil
}

// warmUp makes the runtime start its threads now. They stay.
func warmUp() {
	var all sync.WaitGroup
	all.Add(warmThreads)
	var done sync.WaitGroup
	for range warmThreads {
		done.Go(func() {
			runtime.LockOSThread()
			all.Done()
			all.Wait()
			runtime.UnlockOSThread()
		})
	}
	done.Wait()
}
