//go:build linux

package agent

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// domains says how well processes are isolated from each other. Each spare shell, and
// each run with a new shell, starts in a Landlock domain of its own. The kernel forbids a
// process in a domain to trace processes outside of it or to open their memory. The
// processes that a run starts are inside its domain, so it can trace those.
//
// A domain has no other purpose here. It must handle at least one right, and handles one
// that it can grant again everywhere: to move files between directories. A domain also
// forbids mounting, which no box can do anyway.
//
// Without domains, because the kernel has none or the engine's seccomp profile refuses
// them, no spare shell runs while a process of a run lives: see occupied. The same holds
// for programs that may still gain privileges, as on the process backend: a domain would
// take sudo from them.
type domains struct {
	ruleset int  // the ruleset of each run's domain; -1: no domains
	sealed  bool // commands cannot set the limits of other processes
}

// referVersion is the first version of Landlock whose domains can allow moving files
// between directories.
const referVersion = 2

// apart reports whether a spare shell may run beside the processes of runs.
func (d domains) apart() bool { return d.ruleset >= 0 && d.sealed }

// findDomains detects what the kernel and the filter allow. It changes nothing.
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
	// An invalid ruleset: EBADF means that the filter allows the call.
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
	// Only the first attribute, which every version knows.
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

// limitsSealed reports whether the seccomp filter keeps programs from setting limits of
// other processes. The kernel itself allows that to every process of the same user id.
func limitsSealed() bool {
	var core unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_CORE, nil, &core); err != nil {
		return false
	}
	return unix.Prlimit(unix.Getpid(), unix.RLIMIT_CORE, &core, nil) == unix.EPERM
}

// occupied reports whether any run has a living process. The caller holds the lock.
func (a *Agent) occupied() bool {
	return len(a.procs.pids) > 0 || len(a.procs.trees) > 0 || a.adopted(a.procs.forkers)
}
