//go:build linux

package agent

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// program is a program to start.
type program struct {
	argv  []string
	env   []string
	dir   string
	files fds
	tty   bool // descriptor 0 becomes its controlling terminal
}

// fork starts a program as the leader of its own session, in its own Landlock domain,
// which separates it from other runs. It does what syscall.ForkExec does. That cannot
// enter a domain; entering one on a thread and forking there would use up the thread, and
// at the box's process limit the runtime gets no other.
//
// Until the program runs, the child shares the agent's memory, which commands cannot
// trace. The caller holds the lock, so that the reaper does not reap a child that fails.
func (a *Agent) fork(p *program) (pid int, err error) {
	c, err := newChild(p, a.domains)
	if err != nil {
		return 0, err
	}
	var upid uintptr
	var errno syscall.Errno
	start := func() {
		a.procs.forker = unix.Gettid()
		a.procs.forkers[a.procs.forker] = true
		upid, errno = c.start()
		runtimeAfterFork()
	}
	if a.programs.observer != nil {
		c.key = a.programs.observer.key
		a.programs.observer.onThread(start)
	} else {
		runtime.LockOSThread()
		start()
		runtime.UnlockOSThread()
	}
	switch {
	case errno != 0:
		return 0, errno
	case c.failed != 0:
		for err = syscall.EINTR; err == syscall.EINTR; {
			_, err = syscall.Wait4(int(upid), nil, 0, nil)
		}
		return 0, c.failed
	}
	return int(upid), nil
}

// child is what a new process needs between the clone and its program. It shares memory
// with the agent meanwhile.
type child struct {
	argv, env []*byte
	dir       *byte // nil: the agent's
	files     []int
	spare     int     // the next free descriptor above all that it needs
	tty       uintptr // 0 or 1
	domain    int     // a Landlock ruleset, or -1
	key       execKey // lets the execve pass the filter of an observer
	failed    syscall.Errno
}

func newChild(p *program, d domains) (*child, error) {
	c := &child{domain: d.ruleset}
	var err error
	if c.argv, err = syscall.SlicePtrFromStrings(p.argv); err != nil {
		return nil, err
	}
	if c.env, err = syscall.SlicePtrFromStrings(p.env); err != nil {
		return nil, err
	}
	if p.dir != "" {
		if c.dir, err = syscall.BytePtrFromString(p.dir); err != nil {
			return nil, err
		}
	}
	c.spare = max(len(p.files), c.domain)
	for _, fd := range p.files {
		c.files = append(c.files, int(fd))
		c.spare = max(c.spare, int(fd))
	}
	c.spare++
	if p.tty {
		c.tty = 1
	}
	return c, nil
}

// start creates the process, which never returns from here. As in package syscall, parent
// and child share the stack frame: the parent's thread stands still until the program
// runs. In between nothing may allocate, grow the stack or be instrumented, and no
// variable may be declared, so all calls are system calls.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) start() (pid uintptr, errno syscall.Errno) {
	var (
		i      int
		errno2 uintptr
	)
	runtimeBeforeFork()
	pid, errno2 = rawVfork(unix.SYS_CLONE, unix.CLONE_VFORK|unix.CLONE_VM|uintptr(unix.SIGCHLD), 0, 0)
	if errno2 != 0 || pid != 0 {
		return pid, syscall.Errno(errno2)
	}

	runtimeAfterForkInChild()
	if _, _, c.failed = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); c.failed != 0 {
		goto fail
	}
	if c.dir != nil {
		if _, _, c.failed = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); c.failed != 0 {
			goto fail
		}
	}
	// Use the ruleset before its descriptor can be overwritten by the next loops.
	if c.domain >= 0 {
		if _, _, c.failed = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(c.domain), 0, 0); c.failed != 0 {
			goto fail
		}
	}
	for i = 0; i < len(c.files); i++ {
		if c.files[i] < i {
			if _, _, c.failed = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(c.spare), unix.O_CLOEXEC); c.failed != 0 {
				goto fail
			}
			c.files[i] = c.spare
			c.spare++
		}
	}
	for i = 0; i < len(c.files); i++ {
		if c.files[i] == i { // dup3 refuses equal descriptors
			if _, _, c.failed = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0); c.failed != 0 {
				goto fail
			}
			continue
		}
		if _, _, c.failed = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.files[i]), uintptr(i), 0); c.failed != 0 {
			goto fail
		}
	}
	if c.tty != 0 {
		if _, _, c.failed = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); c.failed != 0 {
			goto fail
		}
	}
	_, _, c.failed = syscall.RawSyscall6(unix.SYS_EXECVE,
		uintptr(unsafe.Pointer(c.argv[0])), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])),
		uintptr(c.key[0]), uintptr(c.key[1]), 0)

fail:
	for {
		syscall.RawSyscall(unix.SYS_EXIT, 253, 0, 0)
	}
}

// rawVfork makes a system call from which two processes return on one stack: it keeps its
// return address where the child cannot overwrite it.
func rawVfork(trap, a1, a2, a3 uintptr) (r1, errno uintptr)

// The runtime's hooks around a fork, which block signals and stack growth. The runtime
// exports these names for programs that fork by themselves.

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()
