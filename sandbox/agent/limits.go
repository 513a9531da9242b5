//go:build linux

package agent

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// limits are the limits of a process, by their RLIMIT numbers.
type limits [16]unix.Rlimit

var limitNames = strings.Fields("CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE RTPRIO RTTIME")

// initialLimits are the agent's limits at the first call, before any command.
var initialLimits = sync.OnceValue(readLimits)

func readLimits() (l limits) {
	for i := range l {
		unix.Prlimit(0, i, nil, &l[i])
	}
	return l
}

// lowered describes the first limit that is lower than before; "" if none is.
func (l limits) lowered(before limits) string {
	for i, is := range l {
		if was := before[i]; is.Cur < was.Cur || is.Max < was.Max {
			return fmt.Sprintf("RLIMIT_%s from %d to %d", limitNames[i], was.Cur, min(is.Cur, is.Max))
		}
	}
	return ""
}

// checkLimits ends the box if a command has lowered a limit of the agent. The kernel
// allows that to every process of the same user id; the box's own seccomp profile does
// not. With another profile the limits are checked before a start, since what starts
// inherits them, and before a scan for leftover processes, which needs descriptors. A
// lowered limit cannot be raised again. The caller must not hold the lock of a.procs.
func (a *Agent) checkLimits() {
	if a.domains.sealed {
		return
	}
	what := readLimits().lowered(initialLimits())
	if what == "" {
		return
	}
	reportLowered(what)
	if !initProcess() { // otherwise the kernel does it
		a.endAll()
	}
	os.Exit(1)
}

func reportLowered(what string) {
	fmt.Fprintf(os.Stderr, "warmbox agent: a command lowered %s for the agent, which cannot be undone, so the box ends; a seccomp profile that refuses prlimit64 for other processes prevents it\n", what)
}

// blindTime is how long the agent may be unable to scan its processes.
const blindTime = killTimeout

// openProc opens a file of /proc. An error means that the process is gone or denies
// access, never that the agent lacks a descriptor or memory. A scan that failed for that
// reason would find nothing, which would look as if an ended run had left nothing behind.
func openProc(path string) (fd int, err error) {
	for began := time.Now(); ; time.Sleep(rescanSoon) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EMFILE && err != unix.ENFILE && err != unix.ENOMEM && err != unix.EINTR {
			return fd, err
		}
		if what := readLimits().lowered(initialLimits()); what != "" {
			reportLowered(what)
			os.Exit(1)
		}
		if time.Since(began) > blindTime {
			fmt.Fprintf(os.Stderr, "warmbox agent: cannot scan the processes of the box for %v (open %s: %v), so the box ends\n", blindTime, path, err)
			os.Exit(1)
		}
	}
}
