//go:build linux

package agent

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// maxLook is how long a call may wait while the agent looks at it, and lookCheck how often
	// that is checked. A process can arrange its memory so that reading it blocks.
	maxLook   = 75 * time.Millisecond
	lookCheck = 25 * time.Millisecond

	// calmChecks is how many checks without a call end the checks, until the next call.
	calmChecks = 40

	// maxBlocked bounds the threads that block so. With as many, calls proceed unread.
	maxBlocked = 4
)

// An observer sees the programs that processes execute. A seccomp filter reports execve,
// execveat and exit_group. The process waits while the observer looks, and then proceeds: no
// call is ever refused.
//
// Only one thread has the filter, the one that starts all shells, whose children inherit it.
// So neither a call of the agent nor its end waits for the agent. The agent's own execve
// passes by its key, so the observer may wait for the lock of processes.
type observer struct {
	agent    *Agent
	programs *programs
	calls    []auditCalls
	key      execKey
	listener int
	starts   chan func() // carried out by the thread with the filter

	current  atomic.Pointer[looker]
	blocked  atomic.Int32 // lookers that were given up and have not returned
	seen     atomic.Int64 // number of calls
	watching atomic.Bool
	watch    chan struct{}

	table processTable
}

// observe makes an observer. It returns the step that failed.
func (a *Agent) observe(p *programs) (o *observer, step string, err error) {
	o = &observer{
		agent: a, programs: p, calls: auditedCalls(), key: newExecKey(),
		starts: make(chan func()), watch: make(chan struct{}, 1), table: newProcessTable(),
	}
	if o.calls == nil {
		return nil, wire.AuditPlatform, unix.ENOSYS
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil || !letsProceed(unix.ByteSliceToString(name.Release[:])) {
		return nil, wire.AuditFilter, unix.ENOSYS
	}
	if _, err := peek(unix.Getpid(), o.key.address(), make([]byte, 1)); err != nil {
		return nil, wire.AuditMemory, err
	}
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		step, err = o.install()
		close(done)
		for f := range o.starts {
			f()
		}
	}()
	if <-done; err != nil {
		close(o.starts)
		return nil, step, err
	}
	o.serveNew()
	go o.watchLooks()
	return o, "", nil
}

// letsProceed reports whether a kernel of this release can let a reported call proceed, which
// Linux 5.5 is the first to do. Older ones have the filter, and would leave the process waiting.
func letsProceed(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 5)
}

// install installs the filter on the calling thread.
func (o *observer) install() (step string, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return wire.AuditPrivs, err
	}
	if o.listener, err = installFilter(execFilter(o.calls, o.key)); err != nil {
		return wire.AuditFilter, err
	}
	// Since Linux 6.6 the two threads can take turns on one processor.
	unix.Syscall(unix.SYS_IOCTL, uintptr(o.listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return "", nil
}

// onThread calls f on the thread whose children are observed.
func (o *observer) onThread(f func()) {
	done := make(chan struct{})
	o.starts <- func() {
		f()
		close(done)
	}
	<-done
}

// A looker looks at one call after the other.
type looker struct {
	id     atomic.Uint64 // of the call; 0: none, or the call was let go meanwhile
	since  atomic.Int64  // when the look began, as time.Since(lookEpoch)
	tid    atomic.Int64
	exit   atomic.Bool // the call is exit_group
	memory memory
	buf    [1024]byte
}

var lookEpoch = time.Now()

// serveNew makes a new looker the one that looks.
func (o *observer) serveNew() {
	l := &looker{}
	o.current.Store(l)
	go o.serve(l)
}

// serve answers calls until the process ends, or until the looker was given up.
func (o *observer) serve(l *looker) {
	var n notification
	for {
		switch err := n.receive(o.listener); err {
		case nil:
		case unix.EINTR, unix.ENOENT: // the process was killed before its call was received
			continue
		default:
			time.Sleep(lookCheck) // the kernel has no other error: do not use up a processor for one
			continue
		}
		kind, pointer := o.kind(&n)
		l.begin(&n, kind == exitCall)
		o.seen.Add(1)
		o.wakeWatch()
		given := kind == exitCall && !o.lookAtExit(l, &n) || kind != exitCall && !o.lookAtExec(l, &n, kind, pointer)
		if given {
			o.blocked.Add(-1)
			return // another looker has taken the place
		}
	}
}

func (l *looker) begin(n *notification, exit bool) {
	l.since.Store(int64(time.Since(lookEpoch)))
	l.tid.Store(int64(n.tid))
	l.exit.Store(exit)
	l.id.Store(n.id)
}

// end ends a look. It reports false if the call was let go meanwhile.
func (l *looker) end(n *notification) bool { return l.id.CompareAndSwap(n.id, 0) }

// The kinds of calls.
type callKind int

const (
	execCall callKind = iota
	execAtCall
	exitCall
)

// kind returns which call is reported, and the size of its pointers.
func (o *observer) kind(n *notification) (kind callKind, pointer uint64) {
	for _, c := range o.calls {
		if c.arch != n.arch {
			continue
		}
		pointer = uint64(c.pointer)
		if n.nr >= c.smallFrom {
			pointer = 4
		}
		switch {
		case slices.Contains(c.execveat, n.nr):
			return execAtCall, pointer
		case slices.Contains(c.exitGroup, n.nr):
			return exitCall, pointer
		}
	}
	return execCall, cmp.Or(pointer, 8)
}

// lookAtExec records a program and lets its call proceed. It reports false if the call was
// let go meanwhile.
func (o *observer) lookAtExec(l *looker, n *notification, kind callKind, pointer uint64) bool {
	who := o.identify(int(n.tid), &l.buf)
	var body wire.Program
	if o.blocked.Load() >= maxBlocked {
		body.Unread = true
	} else {
		body = l.read(n, kind, pointer)
		who.run = o.runOf(who, &l.buf)
	}
	body.Pid, body.Parent = who.pid, who.parent
	if !l.end(n) {
		return false
	}
	var r *programRecord
	o.programs.do(func() { r = o.table.exec(o.programs, who, body) })
	if !proceed(o.listener, n.id) {
		o.programs.do(func() { o.table.fail(o.programs, r) })
	}
	return true
}

// read reads the path and arguments of a call from the memory of its process.
func (l *looker) read(n *notification, kind callKind, pointer uint64) (body wire.Program) {
	m := &l.memory
	m.pid, m.pointer = int(n.tid), pointer
	if kind == execAtCall {
		m.target(int32(n.args[0]), n.args[1], n.args[4], &body)
		m.arguments(n.args[2], &body)
		return body
	}
	var ok bool
	body.Path, body.Cut, ok = m.text(n.args[0], wire.MaxProgramText)
	body.Unread = !ok
	m.arguments(n.args[1], &body)
	return body
}

// lookAtExit records the exit code of a process and lets it end. It reports false if the
// call was let go meanwhile.
func (o *observer) lookAtExit(l *looker, n *notification) bool {
	pid := int(n.tid)
	known, open := o.lookup(pid)
	var s state
	ok := false
	if !known { // it executed nothing, or another thread than the first one ends it
		if s, ok = readState(pid, &l.buf); ok && s.threads > 1 {
			if pid, ok = processOf(pid); ok {
				known, open = o.lookup(pid)
			}
		}
	}
	if known && open {
		s, ok = readState(pid, &l.buf)
	}
	if !l.end(n) {
		return false
	}
	undo := func() {}
	if known {
		o.programs.do(func() { undo = o.table.exit(o.programs, pid, s, ok, int(n.args[0]&0xff)) })
	}
	if !proceed(o.listener, n.id) {
		o.programs.do(undo) // a signal ends it
	}
	return true
}

func (o *observer) lookup(pid int) (known, open bool) {
	o.programs.do(func() {
		p := o.table.processes[pid]
		known, open = p != nil, p != nil && p.try != nil
	})
	return known, open
}

// A caller is a process that executes a program.
type caller struct {
	pid   int
	known bool // the state is known
	state
	run wire.ID
}

// identify returns the process of a thread.
func (o *observer) identify(tid int, buf *[1024]byte) (who caller) {
	who.pid = tid
	who.state, who.known = readState(tid, buf)
	if who.known && who.threads > 1 {
		if pid, ok := processOf(tid); ok && pid != tid {
			who.pid = pid
			who.state, who.known = readState(pid, buf)
		}
	}
	return who
}

// maxAncestors bounds the ancestors that are asked for the run of a process.
const maxAncestors = 64

// runOf returns the run of a process, by the signs by which a tree knows its processes. The
// zero id means that there are none.
func (o *observer) runOf(who caller, buf *[1024]byte) (run wire.ID) {
	if run, ok := o.recall(who.pid, who.state); ok {
		return run
	}
	self := unix.Getpid()
	parent := who.parent
	for range maxAncestors {
		if parent <= 1 || parent == self {
			break
		}
		s, ok := readState(parent, buf)
		if !ok {
			break
		}
		if run, ok := o.recall(parent, s); ok {
			return run
		}
		parent = s.parent
	}
	// Its shell may have started just now, and not be registered yet.
	o.agent.procs.do(func() {})
	if run, ok := o.recall(who.pid, who.state); ok {
		return run
	}
	mark := findMark(readEnviron(procPath(who.pid, "environ")))
	o.programs.do(func() { run = o.table.marked(mark) })
	return run
}

func (o *observer) recall(pid int, s state) (run wire.ID, ok bool) {
	o.programs.do(func() { run, ok = o.table.runOf(pid, s) })
	return run, ok
}

// resolve finds out what can be known of records that are pending.
func (o *observer) resolve() {
	if o == nil {
		return
	}
	var list []*programmed
	var all bool
	o.programs.do(func() { list, all = o.table.open() })
	var buf [1024]byte
	for _, p := range list {
		s, ok := readState(p.pid, &buf)
		o.programs.do(func() {
			alive := ok && !s.ended && s.start == p.start
			if p.try != nil && p.start != 0 {
				o.table.check(o.programs, p, s, alive)
			} else if all && !alive {
				o.table.prune(p)
			}
		})
	}
	if all {
		o.programs.do(func() { o.table.pruneAt = max(maxProcesses, 2*len(o.table.processes)) })
	}
}

// wakeWatch starts the checks of looks, if they rest.
func (o *observer) wakeWatch() {
	if !o.watching.Load() && o.watching.CompareAndSwap(false, true) {
		o.watch <- struct{}{}
	}
}

// watchLooks lets calls proceed whose look takes too long. It rests while there are no calls.
func (o *observer) watchLooks() {
	for range o.watch {
		ticker := time.NewTicker(lookCheck)
		calm, last := 0, o.seen.Load()
		for calm < calmChecks || o.looking() {
			<-ticker.C
			o.giveUpLate()
			calm++
			if seen := o.seen.Load(); seen != last {
				calm, last = 0, seen
			}
		}
		ticker.Stop()
		o.watching.Store(false)
		if o.looking() { // a look began meanwhile and found the checks on
			o.wakeWatch()
		}
	}
}

// looking reports whether a look is under way.
func (o *observer) looking() bool { return o.current.Load().id.Load() != 0 }

// giveUpLate lets the current call proceed if its look takes too long, and has another looker
// take the place.
func (o *observer) giveUpLate() {
	l := o.current.Load()
	id, tid, exit := l.id.Load(), int(l.tid.Load()), l.exit.Load()
	if id == 0 || time.Since(lookEpoch)-time.Duration(l.since.Load()) < maxLook || !l.id.CompareAndSwap(id, 0) {
		return
	}
	o.blocked.Add(1)
	if !exit {
		var buf [1024]byte
		who := o.identify(tid, &buf)
		who.run, _ = o.recall(who.pid, who.state)
		body := wire.Program{Pid: who.pid, Parent: who.parent, Unread: true}
		o.programs.do(func() { o.table.exec(o.programs, who, body) })
	}
	proceed(o.listener, id)
	o.serveNew()
}
