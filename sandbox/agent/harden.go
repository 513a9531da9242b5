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
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxFiles is how many descriptors a command may have. Some programs close
	// all that they could have, one by one, which takes minutes where an
	// engine's limit is a billion.
	maxFiles = 65536

	// The kernel counts these for a user and not for a box, and commands are mostly
	// the user whose workspace it is. A limit is compared with the count of all that
	// the user has: so one far below the user's own leaves the difference to the user,
	// while boxes of one user still share what is below it.
	//
	// Each timer of timer_create takes one of the signals that may be pending, and a
	// user has some four times as many on a machine of 1 GB. Message queues take
	// 81,920 bytes each as they are made, of 819,200. Of locked memory the kernel
	// counts for the user what is locked as shared memory; 8 MB are usual.
	maxSignals = 1024
	maxQueues  = 256 << 10
	maxLocked  = 4 << 20

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
// send us.
func catchSignals() {
	c := make(chan os.Signal, 16)
	signal.Notify(c)
	catchRest()
	dropSentFaults()
	go func() {
		for range c {
		}
	}()
}

// sigaction is the kernel's, the same on all 64-bit Linux: handler, flags,
// restorer, mask.
type sigaction [4]uint64

// doNothingPC returns the address of a signal handler that does nothing.
func doNothingPC() uintptr

// faultsOnlyPC returns the address of a signal handler that calls runtimeHandler for
// what the kernel says is a fault of this very thread, and drops what was sent.
func faultsOnlyPC() uintptr

// runtimeHandler is the address of the Go runtime's handler, which is the same for
// all signals.
//
//lint:ignore U1000 faultsOnly reads it, which is assembly
var runtimeHandler uint64

// faults are the signals by which the kernel tells a thread of its own mistake. The
// runtime takes one that was sent for that too, and dies, unless kill or tgkill sent
// it. The kernel gives a mistake a positive code, lets no other process send one, and for
// these signals also says of those that F_SETSIG asks for that they are none.
var faults = []syscall.Signal{syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS}

// dropSentFaults keeps the runtime from hearing of faults that are none. What it has
// said of the signal otherwise, such as the stack to take it on, holds on.
func dropSentFaults() {
	for _, sig := range faults {
		var has sigaction
		rtSigaction(sig, nil, &has)
		runtimeHandler = has[0]
		has[0] = uint64(faultsOnlyPC())
		rtSigaction(sig, &has, nil)
	}
}

// catchRest gives a handler to the signals that the Go runtime leaves alone, 32
// and 34. The kernel promises to keep signals without a handler from a PID 1, but
// it only looks whether the main thread would take them: where that has them
// blocked for a moment, as in any other handler, the next thread gets them and the
// whole process dies. Ignoring them would not do: commands would inherit that. The
// runtime's own handler would not either: it ends the process, as is the default.
func catchRest() {
	var nothing sigaction
	rtSigaction(syscall.SIGUSR1, nil, &nothing) // for its flags: the signal stack, the restorer
	nothing[0] = uint64(doNothingPC())
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		var has sigaction
		rtSigaction(sig, nil, &has)
		byDefault := has[0] == 0 || sig == syscall.SIGSTKFLT // which no kernel raises, and the runtime dies of
		if byDefault && sig != syscall.SIGKILL && sig != syscall.SIGSTOP {
			rtSigaction(sig, &nothing, nil)
		}
	}
}

func rtSigaction(sig syscall.Signal, set, get *sigaction) {
	const setSize = 8 // bytes of a signal mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), setSize, 0, 0)
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
	if !initProcess() {
		return nil // commands are the user's own, and share the user's quotas in any case
	}
	for _, l := range []struct {
		which int
		what  string
		most  uint64
	}{
		{unix.RLIMIT_SIGPENDING, "pending signals", maxSignals},
		{unix.RLIMIT_MSGQUEUE, "bytes in message queues", maxQueues},
		{unix.RLIMIT_MEMLOCK, "bytes of locked memory", maxLocked},
	} {
		if err := lower(l.which, l.most); err != nil {
			return fmt.Errorf("lower the limit of %s to %d: %w", l.what, l.most, err)
		}
	}
	return nil
}

// lower lowers one limit, where it is not lower already.
func lower(which int, most uint64) error {
	var has unix.Rlimit
	if err := unix.Getrlimit(which, &has); err != nil {
		return err
	}
	return unix.Setrlimit(which, &unix.Rlimit{Cur: min(has.Cur, most), Max: min(has.Max, most)})
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
