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
	// maxFiles is how many descriptors a command may open. Some programs close every
	// possible descriptor one by one, which takes minutes if an engine's limit is a
	// billion.
	maxFiles = 65536

	// The kernel counts these per user and not per box, and commands mostly run as the
	// user who owns the workspace. A limit is compared with the user's total. So a limit
	// far below the user's own leaves the difference to the user, while the boxes of one
	// user share what is below it.
	//
	// Each timer of timer_create uses one of the signals that may be pending; a user has
	// about four times as many on a machine of 1 GB. A message queue uses 81,920 bytes
	// when it is created, of 819,200. Of locked memory the kernel counts for the user
	// only locked shared memory; 8 MB are usual.
	maxSignals = 1024
	maxQueues  = 256 << 10
	maxLocked  = 4 << 20

	// warmThreads is more threads than the Go runtime was ever seen to need: at the box's
	// process limit it could get no new one, and would crash.
	warmThreads = 10
)

// initProcess reports whether the agent is the first process of a pid name space, and may
// do what only that one may.
func initProcess() bool { return os.Getpid() == 1 }

// harden protects the agent from commands, as the package comment says. Call it before
// everything else.
func harden() error {
	if initProcess() {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("make the agent non-dumpable: %w", err)
		}
		catchSignals()
	} else if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	if err := lowerLimits(); err != nil {
		return err
	}
	// Commands inherit neither open descriptors nor ignored signals of the agent's parent.
	unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	catchIgnored()
	runtime.GOMAXPROCS(min(runtime.NumCPU(), 4))
	debug.SetGCPercent(50)
	warmUp()
	return nil
}

// catchSignals catches and drops every signal that a process of the same name space can
// send.
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

// sigaction is the kernel's struct, the same on all 64-bit Linux: handler, flags,
// restorer, mask.
type sigaction [4]uint64

// doNothingPC returns the address of a signal handler that does nothing.
func doNothingPC() uintptr

// faultsOnlyPC returns the address of a signal handler that calls runtimeHandler for real
// faults of the current thread, and drops signals that a process sent.
func faultsOnlyPC() uintptr

// runtimeHandler is the address of the Go runtime's handler, which is the same for all
// signals.
//
//lint:ignore U1000 faultsOnly reads it, which is assembly
var runtimeHandler uint64

// faults are the signals by which the kernel reports a fault of a thread. The runtime
// would also treat one that a process sent as a fault, and crash, unless kill or tgkill
// sent it. The kernel gives a real fault a positive code and lets no process send one to
// another. For these signals it also gives no positive code to what F_SETSIG requests.
var faults = []syscall.Signal{syscall.SIGILL, syscall.SIGTRAP, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS}

// dropSentFaults keeps faults that processes send from the runtime. Everything else that
// the runtime has set for the signal, such as its stack, stays.
func dropSentFaults() {
	for _, sig := range faults {
		var has sigaction
		rtSigaction(sig, nil, &has)
		runtimeHandler = has[0]
		has[0] = uint64(faultsOnlyPC())
		rtSigaction(sig, &has, nil)
	}
}

// catchRest installs a handler for the signals that the Go runtime leaves alone, 32 and
// 34. The kernel promises to keep signals without a handler from a PID 1, but it only
// checks whether the main thread would accept them: while that has them blocked, as in
// any other handler, the next thread gets them and the whole process dies. Ignoring them
// is no alternative, since commands would inherit that. Nor is the runtime's own handler:
// it ends the process, as is the default.
func catchRest() {
	var nothing sigaction
	rtSigaction(syscall.SIGUSR1, nil, &nothing) // to copy its flags: the signal stack, the restorer
	nothing[0] = uint64(doNothingPC())
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		var has sigaction
		rtSigaction(sig, nil, &has)
		byDefault := has[0] == 0 || sig == syscall.SIGSTKFLT // no kernel raises it, and the runtime crashes on it
		if byDefault && sig != syscall.SIGKILL && sig != syscall.SIGSTOP {
			rtSigaction(sig, &nothing, nil)
		}
	}
}

func rtSigaction(sig syscall.Signal, set, get *sigaction) {
	const setSize = 8 // bytes of a signal mask
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), setSize, 0, 0)
}

// catchIgnored catches every signal that the agent inherited as ignored: a child starts
// with the default for caught signals, but would inherit ignored ones.
func catchIgnored() {
	c := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig < 65; sig++ {
		if signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}

// lowerLimits sets the limits that commands inherit. It only lowers them, so it works
// whatever the engine's own limits are.
func lowerLimits() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("turn core dumps off: %w", err)
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit on open files: %w", err)
	}
	files.Max = min(files.Max, maxFiles)
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("lower the limit on open files to %d: %w", files.Max, err)
	}
	if !initProcess() {
		return nil // commands run as the user and share the user's quotas in any case
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
			return fmt.Errorf("lower the limit on %s to %d: %w", l.what, l.most, err)
		}
	}
	return nil
}

// lower lowers one limit, unless it is lower already.
func lower(which int, most uint64) error {
	var has unix.Rlimit
	if err := unix.Getrlimit(which, &has); err != nil {
		return err
	}
	return unix.Setrlimit(which, &unix.Rlimit{Cur: min(has.Cur, most), Max: min(has.Max, most)})
}

// warmUp makes the runtime start its threads now. They stay for the life of the agent.
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
