//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// drainTime is how long the end of a run waits for its pipes to close after its
// shell has ended: what follows a shell by a moment, as in `make > >(tee log)`,
// is still output of the command; what holds the pipe for longer is left over.
const drainTime = 100 * time.Millisecond

// run is one command.
type run struct {
	agent *Agent
	id    wire.ID
	pid   int // of its shell
	tree  *tree
	kept  *kept // nil where the box ends with its host
	began time.Time

	memoryKills int  // that the box had before it began, see memoryEvents
	nth         int  // of all runs; like shared, set by note
	shared      bool // others had processes when it began
	gone        atomic.Bool

	stdin  *stdin
	out    []*pump
	tty    bool
	named  *named          // nil where it runs in no named shell
	spare  *spare          // nil where its shell was started for it
	status chan exitStatus // has the shell's, once it is reaped

	mu       sync.Mutex
	exitSent bool
	killing  chan struct{} // not nil once a kill is under way; closed when it is done
}

// exitStatus is what the kernel said of a shell.
type exitStatus struct {
	wait       syscall.WaitStatus
	memoryKill bool // the kernel killed a process of the box for want of memory meanwhile
	shared     bool // other runs had processes meanwhile
}

// start starts a run, or refuses it.
func (a *Agent) start(f wire.Frame) error {
	var body wire.StartBody
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	a.mu.Lock()
	_, known := a.runs[f.Run]
	a.mu.Unlock()
	if known {
		return wire.Violation("two runs of one id")
	}
	if err := body.Check(); err != nil {
		return err
	}
	if a.keeper != nil {
		if err := a.keeper.check(f.Run, body); err != nil {
			return err
		}
	} else if a.names.busy(body.Shell) {
		return wire.Violation("two runs at once in one named shell")
	}
	r := &run{agent: a, id: f.Run, tree: newTree(), stdin: &stdin{}, tty: body.TTY != nil, status: make(chan exitStatus, 1)}
	step, err := r.spawn(body)
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return a.sendJSON(wire.Refused, f.Run, wire.RefusedBody{Step: step, Errno: int(errno)})
	}
	if a.keeper != nil {
		a.keeper.begin(r, body.Tag)
	}
	err = r.tellStarted()
	for _, p := range r.out {
		go p.copy()
	}
	go r.finish(body)
	return err
}

// tellStarted says that the command runs. On a spare most have ended before a host
// could make anything of it, and so it goes with what comes next, or after
// spareWait.
func (r *run) tellStarted() error {
	a, body := r.agent, wire.StartedBody{Pid: r.pid}
	if r.spare != nil {
		// Behind what is held, or the end of another run stops the timer and lets
		// go of nothing.
		defer a.spares.late.Reset(spareWait)
	}
	if r.spare == nil || a.keeper != nil {
		return a.sendJSON(wire.Started, r.id, body)
	}
	frame, err := wire.AppendJSON(nil, wire.Started, r.id, body)
	if err == nil {
		a.hold(frame)
	}
	return err
}

// spawn gives the run a shell.
func (r *run) spawn(body wire.StartBody) (step string, err error) {
	if k := r.agent.keeper; k != nil && k.full() {
		return wire.StepExec, syscall.EAGAIN
	}
	dir, err := r.agent.resolve(body.Dir)
	if err != nil {
		return wire.StepDir, err
	}
	r.memoryKills = r.agent.memory.kills() // before anything of it can be killed
	if r.takeSpare(dir, body) {
		return "", nil
	}
	return r.spawnNew(dir, body)
}

// spawnNew makes what the run needs and starts a shell for it.
func (r *run) spawnNew(dir string, body wire.StartBody) (step string, err error) {
	r.agent.checkLimits()
	p := program{dir: dir, env: r.environ(body.Env), tty: r.tty}
	defer func() { p.files.close(r.agent.null) }()
	for _, s := range []struct {
		step string
		do   func(*program, wire.StartBody) error
	}{
		{wire.StepTTY, r.terminal},
		{wire.StepPipe, r.pipes},
		{wire.StepShell, r.enter},
		{wire.StepPipe, r.command},
		{wire.StepExec, r.begin},
	} {
		if err := s.do(&p, body); err != nil {
			r.release()
			return s.step, err
		}
	}
	return "", nil
}

// resolve finds out whether a command can run in dir, which the fork alone
// would not tell from a shell that is not there.
func (a *Agent) resolve(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.dir, dir)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return "", syscall.ENOTDIR
	}
	return dir, unix.Access(dir, unix.X_OK)
}

// fds are what a command gets, in the order of its descriptors. They are plain
// numbers: an os.File would ask the kernel about each of them.
type fds []uintptr

// close closes all but one, each once.
func (f fds) close(but uintptr) {
	for i, fd := range f {
		if fd != but && !slices.Contains(f[:i], fd) {
			unix.Close(int(fd))
		}
	}
}

// pipes makes the pipes of a run without a terminal. Without input the command
// reads the agent's own /dev/null.
func (r *run) pipes(p *program, body wire.StartBody) error {
	if r.tty {
		return nil
	}
	if !body.Stdin {
		p.files = append(p.files, r.agent.null)
	} else if ours, err := p.files.pipe(true); err != nil {
		return err
	} else {
		r.stdin = newStdin(r, ours)
	}
	for _, kind := range []wire.Kind{wire.Stdout, wire.Stderr} {
		ours, err := p.files.pipe(false)
		if err != nil {
			return err
		}
		r.out = append(r.out, newPump(r, kind, ours))
	}
	return nil
}

// command finds the arguments that make the shell run the command.
func (r *run) command(p *program, body wire.StartBody) error {
	cmd := body.Cmd
	if r.named != nil {
		cmd = r.named.wrap(cmd)
	}
	argv, script, err := r.agent.shell.command(cmd, len(p.files))
	if err != nil {
		return err
	}
	if script >= 0 {
		p.files = append(p.files, uintptr(script))
	}
	p.argv = argv
	return nil
}

// pipe appends the command's end of a new pipe, which blocks as programs expect,
// and returns the agent's, which waits in the poller.
func (f *fds) pipe(theyRead bool) (ours *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if theyRead {
		fd[0], fd[1] = fd[1], fd[0]
	}
	*f = append(*f, uintptr(fd[1]))
	unix.SetNonblock(fd[0], true)
	return os.NewFile(uintptr(fd[0]), "pipe"), nil
}

// begin starts the shell and notes it before anybody can reap it.
func (r *run) begin(p *program, _ wire.StartBody) error {
	a := r.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.domains.apart() {
		a.discardSpares()
	}
	pid, err := a.fork(p)
	if err != nil {
		return err
	}
	r.tree.forker = a.forker
	r.note(pid)
	preferForOOM(pid)
	return nil
}

// note notes the run's shell. The caller holds a.mu.
func (r *run) note(pid int) {
	a := r.agent
	r.pid, r.began = pid, time.Now()
	r.tree.sessions[pid] = true
	a.runs[r.id], a.pids[pid] = r, r
	a.begun++
	r.nth, r.shared = a.begun, a.others(r)
	if !slices.Contains(a.trees, r.tree) {
		a.trees = append(a.trees, r.tree)
	}
}

// preferForOOM makes the kernel take a command rather than the agent when the
// box has no memory left. Raising the value is always allowed.
func preferForOOM(pid int) {
	fd, err := unix.Open(procPath(pid, "oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Write(fd, []byte("1000"))
	unix.Close(fd)
}

// environ is the command's environment: the host's for all runs, that of this
// one, and the mark by which its processes are known when they have left it.
func (r *run) environ(env []string) []string {
	return latest(slices.Concat([]string{r.tree.mark}, r.agent.env, env))
}

// latest keeps of the variables of one name the last.
func latest(all []string) []string {
	last := make(map[string]int, len(all))
	for i, v := range all {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	kept := all[:0]
	for i, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if last[name] == i {
			kept = append(kept, v)
		}
	}
	return kept
}

// finish sends the run's end when its shell has ended and its output is sent.
func (r *run) finish(body wire.StartBody) {
	st := r.await()
	if r.spare != nil && r.restart(st, body) {
		st = <-r.status
	}
	open := r.end(st)
	r.agent.settle(r.tree)
	if open {
		r.agent.replaceSpare()
		r.awaitClosed()
		r.agent.awaitGone(r.tree)
		r.tellClosed()
	}
	r.agent.mu.Lock()
	delete(r.agent.runs, r.id)
	r.agent.mu.Unlock()
	if open {
		r.agent.refill()
	} else {
		r.agent.replaceSpare()
	}
}

// await returns how the shell ended. Most do when nobody holds their output any more,
// and that is heard of before the signal is.
func (r *run) await() exitStatus {
	for _, p := range r.out {
		select {
		case st := <-r.status:
			return st
		case <-p.closed:
		}
	}
	r.agent.look(r.pid)
	return <-r.status
}

// end tells how the shell ended, and reports whether it left anything behind.
func (r *run) end(st exitStatus) (open bool) {
	r.stdin.stop()
	r.drain()
	leftover := r.agent.leftover(r)
	killed := r.awaitKill()
	if killed {
		leftover = r.agent.leftover(r)
	}
	open = !r.closed() || len(leftover) > 0
	r.gone.Store(!open)
	body := exitBody(st)
	body.Killed, body.Open = killed || r.tree.collateral.Load(), open
	if r.named != nil {
		body.Shell = r.named.settle(body.Killed)
	}
	body.More = max(0, len(leftover)-wire.MaxLeftover)
	body.Leftover = leftover[:len(leftover)-body.More]
	r.tellExit(body)
	return open
}

// drain waits until both pipes are closed, or until all that was in them when
// the time was up is sent.
func (r *run) drain() {
	if r.closed() {
		return
	}
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for _, p := range r.out {
		select {
		case <-p.closed:
		case <-timer.C:
			timer.Reset(0) // for the other one as well
			p.flush()
		}
	}
}

func (r *run) closed() bool {
	for _, p := range r.out {
		select {
		case <-p.closed:
		default:
			return false
		}
	}
	return true
}

func (r *run) awaitClosed() {
	for _, p := range r.out {
		<-p.closed
	}
}

// awaitKill decides that the exit goes out now; a kill under way is waited for.
func (r *run) awaitKill() (killed bool) {
	r.mu.Lock()
	r.exitSent = true
	killing := r.killing
	r.mu.Unlock()
	if killing == nil {
		return false
	}
	<-killing
	r.drain()
	return true
}

func exitBody(st exitStatus) wire.ExitBody {
	body := wire.ExitBody{MemoryKill: st.memoryKill, Shared: st.memoryKill && st.shared}
	if st.wait.Signaled() {
		n := int(st.wait.Signal())
		body.Code, body.Signal = 128+n, n
		return body
	}
	body.Code = st.wait.ExitStatus()
	return body
}

// tellExit says how the run's shell ended.
func (r *run) tellExit(body wire.ExitBody) {
	if r.kept == nil {
		r.agent.sendJSON(wire.Exit, r.id, body)
		return
	}
	body.TookMillis = max(1, time.Since(r.began).Milliseconds())
	frame, _ := wire.AppendJSON(nil, wire.Exit, r.id, body) // it is numbers, and few short names
	r.agent.keeper.exited(r.kept, frame, body.Open)
}

func (r *run) tellClosed() {
	if r.kept != nil {
		r.agent.keeper.closed(r.kept)
		return
	}
	r.agent.send(wire.Append(nil, wire.Closed, r.id, nil))
}

// release gives back what a run took that never started.
func (r *run) release() {
	r.stdin.end()
	for _, p := range r.out {
		p.file.Close()
	}
	if r.named != nil {
		r.named.settle(true)
	}
}
