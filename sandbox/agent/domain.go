//go:build linux

package agent

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// domains tells whether what runs here is kept apart: each spare, and each run that
// has a new shell, starts in a Landlock domain of its own. The kernel keeps a
// process in a domain from tracing, and from opening the memory of, processes outside
// of it. What a run starts is inside, so the run can trace that.
//
// That is all that a domain is for here. It must handle something, and handles the
// right that costs nothing to give back: to move files between directories, which is
// granted everywhere. What a domain takes besides is mounting, which no box can.
//
// Without a domain, as where the kernel has none or an engine's own profile of system
// calls refuses them, no spare stands while a process of a run lives: see occupied.
// The same goes for programs that may still gain privileges, as on the process
// backend: a domain would take sudo from them.
type domains struct {
	ruleset int  // each run's domain is made of it; -1: none
	sealed  bool // no command can set the limits of another process
}

// referVersion is the first version of Landlock that lets a domain move files
// between directories at all.
const referVersion = 2

// apart reports whether a spare may stand beside what runs.
func (d domains) apart() bool { return d.ruleset >= 0 && d.sealed }

// findDomains finds out what there is. It changes nothing.
func findDomains() domains {
	d := domains{ruleset: -1, sealed: limitsSealed()}
	privs, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || privs != 1 {
		return d
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < referVersion {
		return d
	}
	// Of no ruleset: where the call is allowed, it says so.
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ^uintptr(0), 0, 0); errno != unix.EBADF {
		return d
	}
	ruleset, err := newRuleset()
	if err != nil {
		return d
	}
	d.ruleset = ruleset
	return d
}

// newRuleset returns a ruleset that forbids nothing.
func newRuleset() (fd int, err error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
	// Of the attributes only the first, which every version knows.
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return -1, errno
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(int(n))
		return -1, err
	}
	defer unix.Close(root)
	below := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_REFER, Parent_fd: int32(root)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, n, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&below)), 0, 0, 0); errno != 0 {
		unix.Close(int(n))
		return -1, errno
	}
	return int(n), nil
}

// limitsSealed reports whether the filter of system calls keeps programs from setting
// limits of others, for which the kernel asks no more than the same user id.
func limitsSealed() bool {
	var core unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &core); err != nil {
		return false
	}
	return unix.Prlimit(unix.Getpid(), unix.RLIMIT_CORE, &core, nil) == unix.EPERM
}

// occupied reports whether a process of some run lives. The caller holds a.mu.
func (a *Agent) occupied() bool { return len(a.pids) > 0 || len(a.trees) > 0 || a.adopted(a.forkers) }
