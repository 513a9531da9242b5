package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// machineEnv makes programs speak to a program: no colours, no pagers, no
// questions, and the same language everywhere.
var machineEnv = []string{
	"NO_COLOR=1", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0",
	"DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
}

// A Box runs commands in one place, any number at once. It is safe for use by
// several goroutines. It is gone when it is closed or when its agent is lost;
// then every run of it ends. One that is kept is gone too when only the stream to it
// broke: its Manager has it come back as another Box of the same id.
type Box struct {
	ID      string
	Name    string // what its owner calls it, may be empty
	Place   Place
	Started time.Time
	Shell   string // what runs its commands
	Pid     int    // of the agent, in its own name space

	owner    Owner
	history  *history         // may be nil
	audit    *audit           // may be nil
	disk     *diskWatch       // may be nil
	secrets  *redact.Redactor // nil knows the well-known forms
	commands policy.Commands  // that may run
	allowed  *approvals       // may be nil
	gate     *gate            // of its runs
	shells   map[string]*gate // its named shells; guarded by mu
	common   *gate            // of those of all boxes, may be nil
	lookout  *lookout         // may be nil
	deeds    *deeds           // of all boxes, may be nil

	logs   *rawlog.Store
	logger *slog.Logger
	link   *link.Link

	spares  int           // spare shells
	keepFor time.Duration // how long its agent waits for another server; 0: the box ends with this one

	mu      sync.Mutex
	runs    map[wire.ID]*Run
	touched time.Time // when it was last used
	uses    int       // commands that it was given

	owned chan struct{} // closed when a box that stood ready is given away

	done chan struct{} // closed when the box and all that it took are gone
}

// openBox takes over a stream with a new agent at its other end.
func openBox(ctx context.Context, id string, stream io.ReadWriteCloser, spec Spec, logs *rawlog.Store, logger *slog.Logger) (*Box, error) {
	b := newBox(id, stream, spec, logs, logger)
	if _, err := b.greet(ctx, spec.Env, false); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the agent of box %s: %w", id, err), stream.Close())
	}
	b.begin()
	return b, nil
}

func newBox(id string, stream io.ReadWriteCloser, spec Spec, logs *rawlog.Store, logger *slog.Logger) *Box {
	b := &Box{
		ID: id, Started: time.Now(), logs: logs, logger: logger.With("box", id),
		runs: map[wire.ID]*Run{}, done: make(chan struct{}),
		gate: crowdGate(runsOf(spec.Pids)), owned: make(chan struct{}), touched: time.Now(),
	}
	if p, ok := stream.(Placed); ok {
		b.Place = p.Place()
	}
	b.spares = sparesOf(spec)
	if spec.Persistent != nil {
		b.keepFor = spec.Persistent.ReattachTimeout
	}
	b.link = link.New(stream, link.Config{
		Lease: spec.Lease, Heartbeat: b.Place.Heartbeat, Active: b.busy, Survives: b.survives,
		Failed: func(end link.End) { b.logger.Warn("box lost", "cause", end.Cause) },
	})
	b.lookout = newLookout(b, spec)
	return b
}

// begin begins to read what the agent sends.
func (b *Box) begin() {
	b.logs.Prepare(newExecID)
	go b.serve()
}

// greet exchanges the first frames, and returns the runs that the agent knows from
// before.
func (b *Box) greet(ctx context.Context, env map[string]string, again bool) (known []knownRun, err error) {
	look, err := b.lookFrame()
	if err != nil {
		return nil, err
	}
	answer, err := b.link.Greet(ctx, link.Greeting{
		Hello: wire.HelloBody{
			Dir: b.Place.Dir, Env: slices.Concat(machineEnv, b.Place.Env, pairs(env)), Spares: b.spares,
			PersistMillis: b.keepFor.Milliseconds(), Resume: again,
		},
		Also: look,
		Rest: func(answer wire.HelloBody, r *wire.Reader) (err error) {
			if again {
				known, err = readKnown(r, answer.Runs)
			}
			if err == nil {
				err = b.checkFiles(r)
			}
			return err
		},
	})
	b.Shell, b.Pid = answer.Shell, answer.Pid
	return known, err
}

// Exec starts a command and returns at once, or where too many run, as soon as
// it can within the command's Patience. ctx bounds the start only; how the run
// ends is told by the Run. An error means that nothing was started.
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
	r, err := b.place(ctx, c)
	if err != nil {
		return nil, err
	}
	b.audit.asked(b, c, r, nil)
	b.history.add(b.owner, r)
	// The log is made while the agent starts the shell: it costs no time.
	start := c.start()
	if b.keepFor > 0 {
		start.Tag = r.ID
	}
	err = b.link.SendJSON(wire.Start, r.wireID, start)
	r.open(b.logs)
	if err != nil {
		err = b.sent(err)
		<-r.done
		return nil, err
	}
	r.arm()
	return r, nil
}

// place finds a run its place: in its shell, among all others, in the box.
func (b *Box) place(ctx context.Context, c Command) (*Run, error) {
	shell, err := b.enterShell(ctx, c)
	if err != nil {
		return nil, err
	}
	r := newRun(b, c)
	r.shell, r.trace = shell, Trace(ctx)
	if err := b.admit(ctx, c.Patience); err != nil {
		r.leaveShell()
		return nil, err
	}
	r.takeLog()
	if err := b.add(r); err != nil {
		r.giveLogBack()
		r.leaveShell()
		b.dismiss()
		return nil, err
	}
	return r, nil
}

func (b *Box) add(r *Run) error {
	rand.Read(r.wireID[:])
	if err := b.enlist(r); err != nil {
		return err
	}
	b.deeds.begin()
	b.link.Activity()
	b.disk.wake()
	return nil
}

// enlist adds a run to those of the box. What serve finds in runs after the link has
// ended is all that will ever be there.
func (b *Box) enlist(r *Run) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Gone(); err != nil {
		return err
	}
	b.runs[r.wireID] = r
	b.uses++
	b.touched = time.Now()
	return nil
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

// Gone returns nil while the box is there, then the reason why it is not.
func (b *Box) Gone() error {
	const hint = "Start another one, or leave containerId out."
	end := b.link.End()
	switch {
	case end.How == link.Open:
		return nil
	case end.How == link.Broken:
		return Errorf(DockerUnavailable, "It is dialled again, and what runs in it goes on. Try again in a few seconds.",
			"box %s cannot be reached just now: %w", b.ID, end.Cause)
	case end.How == link.Closed && end.Cause == nil:
		return Errorf(BoxGone, hint, "box %s was stopped", b.ID)
	case end.How == link.Closed:
		return Errorf(BoxGone, hint, "box %s was stopped: %w", b.ID, end.Cause)
	}
	return Errorf(BoxGone, hint, "box %s is gone: %w", b.ID, end.Cause)
}

// isStopped reports whether Close has begun: what a signal ends then, we ended.
func (b *Box) isStopped() bool { return b.link.End().How == link.Closed }

// Monitor has the box asked after closely until done is called, which must be.
// silent is closed when what carries its stream does not answer; Unresponsive says why. It
// is nil of a stream that cannot die without a sign.
func (b *Box) Monitor() (silent <-chan struct{}, done func()) { return b.link.Monitor() }

// Unresponsive says why nothing is heard of the box, nil where something is or no call
// monitors it.
func (b *Box) Unresponsive() error { return b.link.Unresponsive() }

// Done is closed when the box is gone with all that it took.
func (b *Box) Done() <-chan struct{} { return b.done }

// Close ends everything in the box and the box, and returns when both are
// gone. It is idempotent.
func (b *Box) Close() {
	b.link.Close(nil)
	<-b.done
}

// serve reads until the stream ends. Nothing that it calls waits for anything
// but the disk: one run never holds up another.
func (b *Box) serve() {
	end := b.link.Serve(b.dispatch)
	status := Lost
	if end.How == link.Closed {
		status = Killed
	}
	for _, run := range b.takeAll() {
		if b.left() {
			run.leave()
		} else {
			run.lose(status, end.Cause)
		}
	}
	b.lookout.close()
	close(b.done)
}

func (b *Box) takeAll() []*Run {
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

// dispatch gives a frame to its run, and forgets the run when it is over.
func (b *Box) dispatch(f wire.Frame) error {
	b.mu.Lock()
	r := b.runs[f.Run]
	b.mu.Unlock()
	if r == nil {
		return wire.Violation("%v for a run that is not", f.Kind)
	}
	over, err := r.take(f)
	if over {
		b.mu.Lock()
		delete(b.runs, f.Run)
		b.touched = time.Now()
		b.mu.Unlock()
		r.close()
	}
	return err
}
