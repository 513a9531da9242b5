package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A Box runs commands in one place, any number at once. It is safe for use by
// several goroutines. It is gone when it is closed or when its agent is lost;
// then every run of it ends. A persistent box is gone too when only the stream to it
// broke: its Manager reattaches to it, as another Box of the same id.
type Box struct {
	ID      string
	Name    string // what its owner calls it, may be empty
	Place   Place
	Started time.Time
	Shell   string   // what runs its commands
	Has     []string // which common programs it has, when it started
	Pid     int      // of the agent, in its own name space

	*shared         // with all boxes of its Manager
	owner           Owner
	reattachTimeout time.Duration // how long its agent waits for another server; 0: the box ends with this one

	conn    *conn
	logger  *slog.Logger
	limiter *limiter // of its runs
	shells  shells
	watcher *watcher   // of its workspace, may be nil
	disk    *diskWatch // may be nil

	programs programBook

	mu   sync.Mutex
	runs map[wire.ID]*Run
	used time.Time // when it was last used
	uses int       // commands that it was given

	done chan struct{} // closed when the box and all that it used are gone
}

// An identity is what a box is known by, and whose it is.
type identity struct {
	id, name string
	owner    Owner
	started  time.Time
}

// openBox returns the box of a new agent at the other end of a stream.
func openBox(ctx context.Context, s *shared, who identity, stream io.ReadWriteCloser, spec Spec) (*Box, error) {
	b := newBox(s, who, stream, spec)
	if _, err := b.greet(ctx, spec, false); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the agent of box %s: %w", b.ID, err), stream.Close())
	}
	b.begin()
	return b, nil
}

func newBox(s *shared, who identity, stream io.ReadWriteCloser, spec Spec) *Box {
	b := &Box{
		ID: who.id, Name: who.name, Started: who.started, owner: who.owner, shared: s,
		limiter: newLimiter(runsOf(spec.Pids)), runs: map[wire.ID]*Run{}, used: time.Now(),
		logger: s.log.With("box", who.id), done: make(chan struct{}),
	}
	if p, ok := stream.(Placed); ok {
		b.Place = p.Place()
	}
	if spec.Persistent != nil {
		b.reattachTimeout = spec.Persistent.ReattachTimeout
	}
	b.conn = &conn{box: b.ID, logger: b.logger, Link: link.New(stream, link.Config{
		Lease: spec.Lease, Heartbeat: b.Place.Heartbeat, Active: b.busy, Survives: b.survives,
		Failed: func(end link.End) { b.logger.Warn("box lost", "cause", end.Cause) },
	})}
	var notes []string
	b.watcher, notes = newWatcher(b, spec)
	b.Place.Notes = append(slices.Clip(b.Place.Notes), notes...)
	b.programs = newProgramBook(spec)
	b.disk = newDiskWatch(b, s.minFree, fillable(spec, b.Place))
	return b
}

// assign gives a spare box of the pool its owner. It is called once, before any other
// call can reach the box.
func (b *Box) assign(name string, owner Owner) { b.Name, b.owner = name, owner }

// greet exchanges the first frames, and returns the runs that the agent knows from
// before.
func (b *Box) greet(ctx context.Context, spec Spec, resume bool) (known []knownRun, err error) {
	look, err := b.lookFrame()
	if err != nil {
		return nil, err
	}
	answer, err := b.conn.Greet(ctx, link.Greeting{
		Hello: wire.HelloBody{
			Dir: b.Place.Dir, Env: slices.Concat(machineEnv, b.Place.Env, pairs(spec.Env)), Spares: spareShells(spec), Programs: commonPrograms,
			PersistMillis: b.reattachTimeout.Milliseconds(), Resume: resume, AuditPrograms: spec.AuditPrograms, Shims: spec.Shims,
		},
		Also: look,
		Rest: func(answer wire.HelloBody, r *wire.Reader) (err error) {
			if resume {
				known, err = readKnown(r, answer.Runs)
			}
			if err == nil {
				err = b.checkFiles(r)
			}
			if err == nil {
				err = checkShims(answer)
			}
			return err
		},
	})
	if err == nil {
		b.programs.answered(b, answer)
	}
	b.Shell, b.Pid, b.Has = answer.Shell, answer.Pid, among(commonPrograms, answer.Found)
	return known, err
}

const (
	// sparePids and spareMemory are what a box has at least that has spare shells: a
	// few of them are a small part of it.
	sparePids   = 64
	spareMemory = 128 << 20
)

// spareShells is how many spare shells a box has.
func spareShells(spec Spec) int {
	if spec.Pids > 0 && spec.Pids < sparePids || spec.Memory > 0 && spec.Memory < spareMemory {
		return 0
	}
	return spec.Spares
}

// begin begins to read what the agent sends.
func (b *Box) begin() {
	b.logs.Prepare(newExecID)
	go b.serve()
}

// Exec starts a command and returns at once, or where too many run, as soon as
// a slot is free within the command's WaitLimit. ctx bounds the start only; the Run
// says how it ends. An error means that nothing was started.
func (b *Box) Exec(ctx context.Context, c Command) (*Run, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := b.authorize(ctx, &c); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.disk.admit(c); err != nil {
		return nil, err
	}
	r, err := b.admit(ctx, c)
	if err != nil {
		return nil, err
	}
	b.audit.asked(b, c, r, nil)
	b.history.add(b.owner, r)
	// The log is made while the agent starts the shell: it costs no time.
	start := c.start()
	if b.reattachTimeout > 0 && r.bridge == nil {
		start.Tag = r.ID
	}
	err = b.conn.SendJSON(wire.Start, r.wireID, start)
	r.openLog(b.logs, b.logHead(r))
	if err != nil {
		err = b.conn.explain(err)
		<-r.done
		return nil, err
	}
	r.begin()
	return r, nil
}

// admit makes a run of a command when it has all its slots.
func (b *Box) admit(ctx context.Context, c Command) (*Run, error) {
	var held slots
	if err := b.acquireShell(ctx, c, &held); err != nil {
		return nil, err
	}
	s := runStart{time: time.Now(), trace: Trace(ctx)}
	if err := b.acquire(ctx, c.WaitLimit, &held); err != nil {
		held.releaseShell()
		return nil, err
	}
	s.slots = held
	s.id, s.log = b.newLog(c)
	rand.Read(s.wireID[:])
	r := newRun(b, c, s)
	if err := b.add(r); err != nil {
		if s.log != nil && r.bridge == nil {
			s.log.Discard()
		}
		r.bridge.end()
		held.releaseShell()
		held.release()
		return nil, err
	}
	b.activity.begin()
	b.conn.Activity()
	b.disk.wake()
	return r, nil
}

// newLog returns the id of a new run, and its log unless that is made when the command is
// sent.
func (b *Box) newLog(c Command) (id string, log *rawlog.Log) {
	if c.bridged() {
		id = newExecID()
		return id, rawlog.None(id, "the output was passed on and not stored")
	}
	if log = b.logs.Prepared(); log != nil {
		return log.Exec(), log
	}
	return newExecID(), nil
}

// add adds a run to those of the box. After the link has ended none is added: the
// reader goroutine ends all that are there.
func (b *Box) add(r *Run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Gone(); err != nil {
		return err
	}
	b.runs[r.wireID] = r
	b.uses++
	b.used = time.Now()
	return nil
}

// logHead is what the log of a run says of it.
func (b *Box) logHead(r *Run) rawlog.Meta {
	head := rawlog.Meta{Exec: r.ID, Box: b.ID, Owner: b.owner.mark(), Cmd: r.Command.Cmd, Dir: r.Command.Dir, Start: r.Started}
	if b.reattachTimeout > 0 {
		head.Note = r.Command.note()
	}
	return head
}

// Gone returns nil while the box is there, then the reason why it is not.
func (b *Box) Gone() error { return b.conn.gone() }

// Done is closed when the box is gone with all that it used.
func (b *Box) Done() <-chan struct{} { return b.done }

// Monitor has the agent pinged closely until done is called, which must be. silent is
// closed when the carrier of its stream does not answer; Unresponsive says why. It is
// nil of a stream that cannot die without a sign.
func (b *Box) Monitor() (silent <-chan struct{}, done func()) { return b.conn.Monitor() }

// Unresponsive says why the box is silent, nil where it is not or no call monitors it.
func (b *Box) Unresponsive() error { return b.conn.Unresponsive() }

// Close ends everything in the box and the box, and returns when both are
// gone. It is idempotent.
func (b *Box) Close() {
	b.conn.Close(nil)
	<-b.done
}

// end is Close as a task.
func (b *Box) end(context.Context) { b.Close() }

// serve reads until the stream ends. Nothing that it calls waits for anything
// but the disk: one run never holds up another.
func (b *Box) serve() {
	end := b.conn.Serve(b.dispatch)
	for _, r := range b.removeAll() {
		switch end.How {
		case link.Detached, link.Broken:
			if r.bridge != nil { // the agent ends it
				b.lose(r, Lost, end.Cause)
				continue
			}
			b.detachRun(r)
		case link.Closed:
			b.lose(r, Killed, end.Cause)
		default:
			b.lose(r, Lost, end.Cause)
		}
	}
	b.watcher.close()
	close(b.done)
}

// dispatch hands a frame to its run, and removes the run when it is over.
func (b *Box) dispatch(f wire.Frame) error {
	if f.Kind == wire.Programs {
		return b.receivePrograms(f)
	}
	r := b.run(f.Run)
	if r == nil {
		return b.toldGone(f)
	}
	over, err := r.receive(f)
	b.recordEnd(r)
	if over {
		b.remove(r)
		b.finish(r)
	}
	return err
}

// recordEnd records how a run ended, if that is not done: in its log, and in the audit
// record. A call that waits for the end does not wait for this.
func (b *Box) recordEnd(r *Run) {
	e, ok := r.claimEnd()
	if !ok {
		return
	}
	runtime.Gosched() // to waiting calls
	if len(e.Leftover)+e.More > 0 {
		b.activity.goOn()
	}
	b.watcher.wake(r.ID)
	b.audit.ended(r, e)
	b.logger.Info("run ended", "exec", r.ID, "status", e.Status, "code", e.Code, "took", e.Took, "trace", r.trace)
	r.log.Finish(rawlog.End{Status: string(e.Status), Code: e.Code, Signal: e.Signal, Took: e.Took})
}

// lose ends a run whose box is gone.
func (b *Box) lose(r *Run, status Status, cause error) {
	r.lose(status, cause)
	b.recordEnd(r)
	b.finish(r)
}

// finish closes the log of a run of which nothing more can come.
func (b *Box) finish(r *Run) {
	b.closePrograms(r)
	r.closeLog()
	b.logs.Prepare(newExecID)
	b.watcher.wake(r.ID)
	if r.bridge == nil {
		b.confirm(r.wireID)
	}
	b.history.settle(r)
	close(r.over) // a call that waited for it finds all of the above done
}

func (b *Box) run(id wire.ID) *Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[id]
}

// insert adds a run that the agent has from before.
func (b *Box) insert(r *Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[r.wireID] = r
}

func (b *Box) remove(r *Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.runs, r.wireID)
	b.used = time.Now()
}

func (b *Box) removeAll() []*Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs := slices.Collect(maps.Values(b.runs))
	clear(b.runs)
	return runs
}

// all returns the runs that are not over.
func (b *Box) all() []*Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.runs))
}

// runIDs names the runs that are not over, nil where nothing runs.
func (b *Box) runIDs() (list []string) {
	for _, r := range b.all() {
		list = append(list, r.ID)
	}
	return list
}

func (b *Box) records() (list []Record) {
	for _, r := range b.all() {
		list = append(list, r.record())
	}
	return list
}

// Live returns how many runs have not ended.
func (b *Box) Live() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, r := range b.runs {
		if !r.ended() {
			n++
		}
	}
	return n
}

// busy reports whether anything runs, left behind or not.
func (b *Box) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.runs) > 0
}

// touch records a use of the box.
func (b *Box) touch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = time.Now()
}

// idle returns since when the box is idle, false where it is not: while anything runs
// in it, also what a command left behind.
func (b *Box) idle() (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.runs) == 0 && b.conn.End().How == link.Open
}

// usedUp reports whether the box has run so many commands and none runs now.
func (b *Box) usedUp(uses int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.uses >= uses && len(b.runs) == 0
}

// describe names a box for a user who has to choose one to stop.
func (b *Box) describe() string {
	s := b.ID
	if b.Name != "" {
		s += fmt.Sprintf(" %q", b.Name)
	}
	since, idle := b.idle()
	if !idle {
		return s + fmt.Sprintf(" (started %v ago, busy)", age(b.Started))
	}
	return s + fmt.Sprintf(" (started %v ago, idle for %v)", age(b.Started), age(since))
}

func age(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
