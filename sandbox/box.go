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

	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// helloTimeout is how long a launched agent may take to answer. It has
	// been started already, so this is a round trip on a busy machine.
	helloTimeout = 10 * time.Second

	// writeTimeout is how long an agent may leave a frame of ours unread. Its
	// read loop never waits for a command, so only a broken one comes near.
	writeTimeout = 5 * time.Second

	// defaultLease is the silence after which an agent gives its host up, and
	// the host its agent.
	defaultLease = 15 * time.Second
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
	lease  time.Duration
	stream io.ReadWriteCloser

	spares int // shells that stand ready

	keepFor     time.Duration  // after this program; 0 where the box ends with it
	unconfirmed []byte         // frames for an agent that keeps it; guarded by mu
	confirms    bool           // they are being sent; likewise
	confirming  sync.WaitGroup // who sends them

	wmu sync.Mutex // held for one frame's write

	mu      sync.Mutex
	runs    map[wire.ID]*Run
	heard   time.Time     // when the agent last sent anything; kept by the heartbeat
	asked   bool          // a Ping went out since
	beat    *time.Timer   // nil while nobody needs it
	cause   error         // why the box is gone, nil while it is there
	caused  chan struct{} // closed when there is a cause
	stopped bool          // by us
	pong    chan struct{} // closed by the next Pong, nil where nobody waits for one

	attendants int                // who wait for something in it
	slow       bool               // the next beat counts on none of them
	silent     chan struct{}      // closed when they wait in vain; nil until there is one
	unheard    error              // why they do, nil where they do not
	endAsking  context.CancelFunc // ends a question to what carries the stream, nil where none is open
	asking     sync.WaitGroup     // who asks it

	touched time.Time // when it was last used
	uses    int       // commands that it was given

	owned chan struct{} // closed when a box that stood ready is given away

	done chan struct{} // closed when the box and all that it took are gone
}

// openBox takes over a stream with a new agent at its other end.
func openBox(ctx context.Context, id string, stream io.ReadWriteCloser, spec Spec, logs *rawlog.Store, logger *slog.Logger) (*Box, error) {
	b := newBox(id, stream, spec, logs, logger)
	r := wire.NewReader(stream, wire.FromAgent)
	if _, err := b.greet(ctx, r, spec.Env, false); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the agent of box %s: %w", id, err), stream.Close())
	}
	b.begin(r)
	return b, nil
}

func newBox(id string, stream io.ReadWriteCloser, spec Spec, logs *rawlog.Store, logger *slog.Logger) *Box {
	b := &Box{
		ID: id, Started: time.Now(), logs: logs, logger: logger.With("box", id), stream: stream,
		lease: spec.Lease, runs: map[wire.ID]*Run{}, done: make(chan struct{}), caused: make(chan struct{}),
		gate: crowdGate(runsOf(spec.Pids)), owned: make(chan struct{}), touched: time.Now(),
	}
	if b.lease <= 0 {
		b.lease = defaultLease
	}
	if p, ok := stream.(Placed); ok {
		b.Place = p.Place()
	}
	b.spares = sparesOf(spec)
	if spec.Persistent != nil {
		b.keepFor = spec.Persistent.ReattachTimeout
	}
	b.lookout = newLookout(b, spec)
	return b
}

// begin begins to take what the agent sends.
func (b *Box) begin(r *wire.Reader) {
	b.mu.Lock()
	b.heard = time.Now()
	b.armHeartbeat()
	b.mu.Unlock()
	b.logs.Prepare(newExecID)
	go b.serve(r)
}

// greet exchanges the first frames, and returns what the agent knows from before.
// A stream knows no deadline, so a silent agent is left by ending it.
func (b *Box) greet(ctx context.Context, r *wire.Reader, env map[string]string, again bool) (known []knownRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	hangUp := b.stream.Close
	if again {
		hangUp = b.letGo
	}
	stop := context.AfterFunc(ctx, func() { hangUp() })
	defer stop()

	hello := wire.HelloBody{
		Dir: b.Place.Dir, Env: slices.Concat(machineEnv, b.Place.Env, pairs(env)), Spares: b.spares,
		PersistMillis: b.keepFor.Milliseconds(), Resume: again,
	}
	if b.Place.Heartbeat {
		hello.LeaseMillis = b.lease.Milliseconds()
	}
	err = b.sendJSON(wire.Hello, wire.ID{}, hello)
	if err == nil {
		err = b.askFiles()
	}
	var f wire.Frame
	if err == nil {
		f, err = r.Read()
	}
	if err == nil && f.Kind != wire.Hello {
		err = wire.Violation("%v before Hello", f.Kind)
	}
	var answer wire.HelloBody
	if err == nil {
		err = wire.Decode(f, &answer)
	}
	if err == nil && again {
		known, err = readKnown(r, answer.Runs)
	}
	if err == nil {
		err = b.checkFiles(r)
	}
	if !stop() && ctx.Err() != nil {
		return nil, fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
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
	err = b.sendJSON(wire.Start, r.wireID, start)
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil {
		return b.goneError()
	}
	b.runs[r.wireID] = r
	b.uses++
	b.deeds.begin()
	b.touched = time.Now()
	b.armHeartbeat()
	b.disk.wake()
	return nil
}

// goneError says why nothing can be asked of the box any more. The caller
// holds b.mu.
func (b *Box) goneError() error {
	const hint = "Start another one, or leave containerId out."
	cause := b.cause
	broken, isBroken := errors.AsType[*brokenStream](cause)
	switch {
	case isBroken:
		return Errorf(DockerUnavailable, "It is dialled again, and what runs in it goes on. Try again in a few seconds.",
			"box %s cannot be reached just now: %w", b.ID, broken.cause)
	case cause == errStopped:
		return Errorf(BoxGone, hint, "box %s was stopped", b.ID)
	case b.stopped:
		return Errorf(BoxGone, hint, "box %s was stopped: %w", b.ID, cause)
	}
	return Errorf(BoxGone, hint, "box %s is gone: %w", b.ID, cause)
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause == nil {
		return nil
	}
	return b.goneError()
}

// isStopped reports whether Close has begun: what a signal ends then, we ended.
func (b *Box) isStopped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped
}

// Done is closed when the box is gone with all that it took.
func (b *Box) Done() <-chan struct{} { return b.done }

// Close ends everything in the box and the box, and returns when both are
// gone. It is idempotent.
func (b *Box) Close() {
	b.giveUp(errStopped, true)
	b.stream.Close()
	<-b.done
}

var errStopped = errors.New("somebody stopped it")

// giveUp notes why the box is to be gone, unless it is already.
func (b *Box) giveUp(cause error, stopped bool) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil {
		return false
	}
	b.cause, b.stopped = cause, stopped
	close(b.caused)
	if b.endAsking != nil {
		b.endAsking()
	}
	return true
}

// fail gives the box up for a reason; of one that is kept only the stream, where the
// box may still be there. It does not wait.
func (b *Box) fail(cause error) {
	if b.keepFor > 0 && !final(cause) {
		cause = &brokenStream{cause}
	}
	if b.giveUp(cause, false) {
		b.logger.Warn("box lost", "cause", cause)
		go b.end() // serve waits for it
	}
}

// end ends the stream, and the box with it unless that waits for somebody.
func (b *Box) end() {
	if b.left() {
		b.letGo()
	} else {
		b.stream.Close()
	}
}

// serve reads until the stream ends. Nothing that it calls waits for anything
// but the disk: one run never holds up another.
func (b *Box) serve(r *wire.Reader) {
	err := b.read(r)
	if err == io.EOF {
		err = errors.New("its agent hung up")
	}
	b.fail(err)
	b.end()
	left := b.left()
	b.mu.Lock()
	if b.beat != nil {
		b.beat.Stop()
	}
	status := Lost
	if b.stopped {
		status = Killed
	}
	runs := slices.Collect(maps.Values(b.runs))
	clear(b.runs)
	cause := b.cause
	b.mu.Unlock()
	for _, run := range runs {
		if left {
			run.leave()
		} else {
			run.lose(status, cause)
		}
	}
	b.confirming.Wait()
	b.asking.Wait()
	b.lookout.close()
	close(b.done)
}

// all returns the runs that are not over.
func (b *Box) all() []*Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.runs))
}

func (b *Box) read(r *wire.Reader) error {
	for {
		f, err := r.Read()
		if err != nil {
			return err
		}
		if r.Buffered() == 0 {
			b.hear()
		}
		if f.Kind == wire.Pong {
			b.ponged()
			continue
		}
		if err := b.dispatch(f); err != nil {
			return err
		}
	}
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

// send writes one frame. The stream has no deadline of its own, so an agent
// that does not read costs its box.
func (b *Box) send(frame []byte) error {
	b.wmu.Lock()
	defer b.wmu.Unlock()
	stuck := time.AfterFunc(writeTimeout, func() {
		b.fail(fmt.Errorf("its agent has not read for %v", writeTimeout))
	})
	defer stuck.Stop()
	_, err := b.stream.Write(frame)
	return err
}

func (b *Box) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return b.send(frame)
}
