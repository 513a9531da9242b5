//go:build linux

package agent

import (
	"io"
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

// drainTime is how long the end of a run waits for its pipes to close after its shell has
// ended. Output that comes shortly after the shell's end, as in `make > >(tee log)`,
// still belongs to the command. A process that holds the pipe for longer is left over.
const drainTime = 100 * time.Millisecond

// run is one command.
type run struct {
	agent      *Agent
	id         wire.ID
	pid        int // its shell's
	tree       *tree
	persistent *persistentRun // nil if the run ends with its host
	host       io.Writer      // of a run with a window: the stream that alone is sent its frames; else nil
	began      time.Time

	memoryKills int         // the box's count before the run began, see memoryEvents
	nth         int         // its number among all runs; like shared, set by register
	shared      bool        // other runs had processes when it began
	gone        atomic.Bool // it has no process left

	stdin  *stdin
	out    *pump
	tty    bool
	named  *named          // nil if it runs in no named shell
	spare  *spare          // nil if its shell was started for it
	status chan exitStatus // receives the shell's, once it is reaped

	mu       sync.Mutex // guards the next two
	exitSent bool
	killing  chan struct{} // nil until a kill begins; closed when it is done
}

// exitStatus is how a shell ended, according to the kernel.
type exitStatus struct {
	wait       syscall.WaitStatus
	memoryKill bool // meanwhile the kernel killed a process of the box because memory ran out
	shared     bool // other runs had processes meanwhile
}

// start carries out a Start: it starts the run or refuses it.
func (a *Agent) start(f wire.Frame) error {
	var body wire.StartBody
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	if a.procs.run(f.Run) != nil {
		return wire.Violation("%v with the id of a known run", wire.Start)
	}
	if err := body.Check(); err != nil {
		return err
	}
	if a.persistence != nil {
		if err := a.persistence.check(f.Run, body); err != nil {
			return err
		}
	} else if a.names.busy(body.Shell) {
		return wire.Violation("%v in a named shell that is busy", wire.Start)
	}
	body.Env = a.shims.inPath(body.Env)
	a.shims.mend()
	r := &run{agent: a, id: f.Run, tree: newTree(), stdin: &stdin{}, tty: body.TTY != nil, status: make(chan exitStatus, 1)}
	if body.Window > 0 {
		r.host = a.out.host()
	}
	step, err := r.spawn(body)
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return a.out.sendJSON(wire.Refused, f.Run, wire.RefusedBody{Step: step, Errno: int(errno)})
	}
	if a.persistence != nil && r.host == nil {
		a.persistence.begin(r, body.Tag)
	}
	err = r.reportStarted()
	go r.out.copy()
	go r.finish(body)
	return err
}

// reportStarted sends Started. Most commands on a spare shell end before a host could
// make use of the frame, so it is sent with the next frame or after slowRunDelay.
func (r *run) reportStarted() error {
	a, body := r.agent, wire.StartedBody{Pid: r.pid}
	if r.spare != nil {
		// Set the timer after queueing the frame. Otherwise the end of another run could
		// stop the timer before and flush nothing.
		defer a.spares.late.Reset(slowRunDelay)
	}
	if r.spare == nil || a.persistence != nil {
		return a.out.sendJSON(wire.Started, r.id, body)
	}
	frame, err := wire.AppendJSON(nil, wire.Started, r.id, body)
	if err == nil {
		a.out.sendLater(frame)
	}
	return err
}

// spawn gives the run a shell, a spare one if possible.
func (r *run) spawn(body wire.StartBody) (step string, err error) {
	if ps := r.agent.persistence; ps != nil && ps.full() {
		return wire.StepExec, syscall.EAGAIN
	}
	dir, err := r.agent.resolve(body.Dir)
	if err != nil {
		return wire.StepDir, err
	}
	r.memoryKills = r.agent.memory.kills() // before any process of the run can be killed
	if r.claimSpare(dir, body) {
		return "", nil
	}
	return r.spawnNew(dir, body)
}

// spawnNew opens the run's descriptors and starts a new shell for it.
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

// resolve checks that a command can run in dir. The error of the fork alone would not
// distinguish a bad directory from a missing shell.
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

// fds are a command's descriptors, in order. They are plain numbers because an os.File
// would cost a system call each.
type fds []uintptr

// close closes all of them once, except one.
func (f fds) close(but uintptr) {
	for i, fd := range f {
		if fd != but && !slices.Contains(f[:i], fd) {
			unix.Close(int(fd))
		}
	}
}

// pipes opens the pipes of a run without a terminal. Without input the command reads the
// agent's own /dev/null.
func (r *run) pipes(p *program, body wire.StartBody) error {
	if r.tty {
		return nil
	}
	if !body.Stdin {
		p.files = append(p.files, r.agent.null)
	} else if ours, err := p.files.pipe(true); err != nil {
		return err
	} else {
		window := wire.StdinWindow
		if body.Window > 0 {
			window = body.Window
		}
		r.stdin = newStdin(r, ours, window)
	}
	out, err := p.files.outputs()
	if err != nil {
		return err
	}
	if body.Window > 0 {
		out.limit(body.Window)
	}
	r.prints(out)
	return nil
}

// outputs appends the command's ends of two new pipes, and returns a pump of the agent's.
func (f *fds) outputs() (*pump, error) {
	p, err := newPump()
	if err != nil {
		return nil, err
	}
	for _, kind := range []wire.Kind{wire.Stdout, wire.Stderr} {
		ours, err := f.pipe(false)
		if err == nil {
			err = p.add(kind, ours, false)
		}
		if err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// prints sets the pump of the run's output.
func (r *run) prints(p *pump) { r.out, p.run = p, r }

// command sets the arguments that make the shell run the command.
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

// pipe appends the command's end of a new pipe, which blocks as programs expect. It
// returns the agent's end, which is non-blocking. One that the agent writes to uses the
// runtime's poller; the others have a pump's.
func (f *fds) pipe(theyRead bool) (ours *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if theyRead {
		fd[0], fd[1] = fd[1], fd[0]
	}
	*f = append(*f, uintptr(fd[1]))
	if theyRead {
		unix.SetNonblock(fd[0], true)
		return os.NewFile(uintptr(fd[0]), "pipe"), nil
	}
	ours = os.NewFile(uintptr(fd[0]), "pipe")
	unix.SetNonblock(fd[0], true) // later: NewFile gives non-blocking descriptors to the runtime's poller
	return ours, nil
}

// begin starts the shell and registers it before it can be reaped.
func (r *run) begin(p *program, _ wire.StartBody) (err error) {
	a := r.agent
	a.procs.do(func() {
		if !a.domains.apart() {
			a.discardSpares()
		}
		var pid int
		if pid, err = a.fork(p); err == nil {
			r.tree.forker = a.procs.forker
			r.register(pid, p.argv)
			preferForOOM(pid)
		}
	})
	return err
}

// register records the run's shell, which was given argv. The caller holds the lock.
func (r *run) register(pid int, argv []string) {
	a := r.agent
	r.pid, r.began = pid, time.Now()
	r.tree.sessions[pid] = true
	a.procs.runs[r.id], a.procs.pids[pid] = r, r
	a.procs.begun++
	r.nth, r.shared = a.procs.begun, a.others(r)
	if !slices.Contains(a.procs.trees, r.tree) {
		a.procs.trees = append(a.procs.trees, r.tree)
	}
	a.programs.begin(r, argv)
}

// preferForOOM makes the kernel kill a command rather than the agent when the box runs
// out of memory. Raising the value is always allowed.
func preferForOOM(pid int) {
	fd, err := unix.Open(procPath(pid, "oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	unix.Write(fd, []byte("1000"))
	unix.Close(fd)
}

// environ returns the command's environment: the host's variables for all runs, those of
// this run, and the mark by which the run's processes are recognized after they have left
// it.
func (r *run) environ(env []string) []string {
	return lastOfEach(slices.Concat([]string{r.tree.mark}, r.agent.env, env))
}

// lastOfEach keeps the last of the variables of each name.
func lastOfEach(all []string) []string {
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

// finish reports the run's end after its shell has ended and its output is sent.
func (r *run) finish(body wire.StartBody) {
	st := r.await()
	if r.spare != nil && r.restart(st, body) {
		st = <-r.status
	}
	open := r.end(st)
	r.agent.settle(r.tree)
	if open {
		r.agent.refillAfterRun()
		<-r.out.closed
		r.agent.awaitGone(r.tree)
		r.reportClosed()
	}
	r.agent.procs.remove(r)
	r.agent.programs.forget(r.id)
	if open {
		r.agent.refill()
	} else {
		r.agent.refillAfterRun()
	}
}

// await returns how the shell ended. Most shells end when the last process that holds
// their output does, and the end of the output is seen before SIGCHLD is.
func (r *run) await() exitStatus {
	select {
	case st := <-r.status:
		return st
	case <-r.out.closed:
	}
	r.agent.reapShell(r.pid)
	return <-r.status
}

// end sends Exit, and reports whether the run left anything behind.
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
	r.reportExit(body)
	return open
}

// drain waits until both pipes are closed or drainTime has passed. After that time it
// returns when all that was then in the pipes is sent.
func (r *run) drain() {
	if r.closed() {
		return
	}
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-r.out.closed:
	case <-timer.C:
		r.out.flush()
	}
}

// closed reports whether both pipes are closed.
func (r *run) closed() bool {
	select {
	case <-r.out.closed:
		return true
	default:
		return false
	}
}

// do calls f with the run's lock held: meanwhile no kill of the run begins and its Exit
// is not sent.
func (r *run) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// beginKill reports whether a kill of the run may begin, and suspends the spare shells
// then. Only the first kill may.
func (r *run) beginKill() (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killing != nil {
		return false
	}
	r.killing = make(chan struct{})
	r.agent.suspendSpares()
	return true
}

// awaitKill marks that Exit is sent now, so no kill can begin any more. It waits for a
// kill that is under way.
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

// reportExit sends Exit, or records it for the host of a persistent box.
func (r *run) reportExit(body wire.ExitBody) {
	r.agent.programs.settle() // whoever sees the end can see the programs
	if r.persistent == nil {
		frame, _ := wire.AppendJSON(nil, wire.Exit, r.id, body) // cannot fail: numbers and a few short names
		r.send(frame)
		return
	}
	body.TookMillis = max(1, time.Since(r.began).Milliseconds())
	frame, _ := wire.AppendJSON(nil, wire.Exit, r.id, body)
	r.agent.persistence.exited(r.persistent, frame, body.Open)
}

func (r *run) reportClosed() {
	r.agent.programs.settle()
	if r.persistent != nil {
		r.agent.persistence.closed(r.persistent)
		return
	}
	r.send(wire.Append(nil, wire.Closed, r.id, nil))
}

// send sends a frame of the run to the attached host, or of one with a window to the host
// that started it.
func (r *run) send(frame []byte) error {
	if r.host == nil {
		return r.agent.out.send(frame)
	}
	return r.agent.out.sendTo(r.host, frame)
}

// endHosted ends the runs with a window, whose host is gone.
func (a *Agent) endHosted() {
	for _, r := range a.procs.all() {
		if r.host != nil {
			r.out.release()
			a.kill(r, 0)
		}
	}
}

// release closes what a run that never started has opened.
func (r *run) release() {
	r.stdin.end()
	if r.out != nil {
		r.out.close()
	}
	if r.named != nil {
		r.named.settle(true)
	}
}
