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

// limits are what setrlimit sets, by its numbers.
type limits [16]unix.Rlimit

var limitNames = strings.Fields("CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE RTPRIO RTTIME")

// initialLimits are those that we had when this was first called, before any command.
var initialLimits = sync.OnceValue(readLimits)

func readLimits() (l limits) {
	for i := range l {
		unix.Prlimit(0, i, nil, &l[i])
	}
	return l
}

// lowered names the first limit that is lower than before, "" where none is.
func (l limits) lowered(before limits) string {
	for i, is := range l {
		if was := before[i]; is.Cur < was.Cur || is.Max < was.Max {
			return fmt.Sprintf("RLIMIT_%s from %d to %d", limitNames[i], was.Cur, min(is.Cur, is.Max))
		}
	}
	return ""
}

// checkLimits ends the box where a command has lowered a limit of ours, which the
// kernel allows to whoever has our user id and our filter of system calls does not.
// With another filter it is asked before something is started, which has our limits,
// and before we look for what is left over, for which we need descriptors. What was
// lowered cannot be raised again. The caller does not hold a.mu.
func (a *Agent) checkLimits() {
	if a.domains.sealed {
		return
	}
	what := readLimits().lowered(initialLimits())
	if what == "" {
		return
	}
	sayLowered(what)
	if !initProcess() { // else the kernel does it
		a.endAll()
	}
	os.Exit(1)
}

func sayLowered(what string) {
	fmt.Fprintf(os.Stderr, "warmbox agent: a command lowered %s for the agent, which cannot be undone, so the box ends; a seccomp profile that refuses prlimit64 for other processes prevents it\n", what)
}

// blindTime is how long an agent may be unable to look at its processes.
const blindTime = giveUpTime

// openToLook opens a file of /proc. An error says that the process is gone, or lets
// nobody look, and never that we lack a descriptor or memory: a look that fails for
// want of those would find nothing, and nothing is what an ended run leaves behind.
func openToLook(path string) (fd int, err error) {
	for began := time.Now(); ; time.Sleep(lookSoon) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EMFILE && err != unix.ENFILE && err != unix.ENOMEM && err != unix.EINTR {
			return fd, err
		}
		if what := readLimits().lowered(initialLimits()); what != "" {
			sayLowered(what)
			os.Exit(1)
		}
		if time.Since(began) > blindTime {
			fmt.Fprintf(os.Stderr, "warmbox agent: cannot look at what runs here for %v (open %s: %v), so the box ends\n", blindTime, path, err)
			os.Exit(1)
		}
	}
}
