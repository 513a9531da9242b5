package sandbox

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/summary"
	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// killGrace is the time between SIGTERM and SIGKILL.
	killGrace = 2 * time.Second

	// killTimeout is how long after a kill's grace the agent may take to report that
	// all is dead: 4 s until it kills the whole box, and the time of a loaded machine.
	// After it the host ends the box itself.
	killTimeout = 8 * time.Second
)

// A Run is a command that runs or has ended. It follows the frames of its agent and
// sends input, signals and kills; its Box records what comes of it.
type Run struct {
	ID      string // for people; not the one on the wire
	Box     *Box   // where it runs: callers need it; here only its id and place are read
	Command Command
	Started time.Time

	wireID  wire.ID
	conn    *conn
	secrets *redact.Redactor // of the names of left-over processes
	slots   slots            // that it holds until it has ended
	in      *input           // nil where the command reads /dev/null
	trace   string           // the call that it was started by
	resumed *resumption      // nil where this program started it
	bridge  *bridge          // nil where the output has no writers
	limited atomic.Int64     // calls of shims whose output was cut

	log    *rawlog.Log
	opened chan struct{} // closed when log has begun
	done   chan struct{} // closed when the exit is set
	over   chan struct{} // closed when nothing more can come

	mu     sync.Mutex
	phase  phase
	killed killState
	end    runEnd
	output
}

// A killState is how this side ends a run before its command does.
type killState struct {
	cause    Status // why this side killed it: TimedOut or Killed, "" where it did not
	why      error  // of a kill that no caller asked for
	limit    *time.Timer
	deadline *time.Timer // of the agent, to report the end of a killed run
}

// A runEnd is how a run ended.
type runEnd struct {
	exit       Exit
	unrecorded bool // not written to the log and the audit record yet
}

// output is what is at hand of what a run printed.
type output struct {
	ends   [2]excerpt.Keeper // stdout, stderr
	digest *digester
	screen *maskedScreen // nil without a terminal
}

// phase is where the protocol stands for a run.
type phase int

const (
	asked   phase = iota // Start is sent
	started              // Started has come
	exited               // Exit has come, output may follow
	closed               // nothing more can come
)

// A runStart is what a Run has from its start, besides its box and command.
type runStart struct {
	id      string
	wireID  wire.ID
	log     *rawlog.Log // nil where it is made when the command is sent
	time    time.Time
	slots   slots
	trace   string
	resumed *resumption
}

func newRun(b *Box, c Command, s runStart) *Run {
	if c.ExcerptSize <= 0 {
		c.ExcerptSize = DefaultExcerptSize
	}
	r := &Run{
		ID: s.id, Box: b, Command: c, Started: s.time,
		wireID: s.wireID, conn: b.conn, secrets: b.secrets, slots: s.slots, trace: s.trace, resumed: s.resumed, log: s.log,
		opened: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}),
	}
	if c.hasInput() {
		r.in = newInput(b.conn, s.wireID, s.id, c.TTY != nil, c.inputWindow(), r.done)
	}
	if r.resumed != nil {
		r.phase = started
		close(r.opened)
		if r.in != nil {
			r.in.closed = r.resumed.inputClosed
		}
	}
	if c.TTY != nil {
		r.screen = newScreen(r)
	}
	if c.bridged() {
		r.bridge = newBridge(b.conn, s.wireID, c.Stdout, c.Stderr)
	}
	r.digest = newDigester(r)
	mask := b.secrets.Within
	r.ends = [2]excerpt.Keeper{{Limit: c.ExcerptSize, Mask: mask}, {Limit: c.ExcerptSize, Mask: mask}}
	return r
}

// NewID returns a name that cannot be guessed and can be read aloud:
// "e-k7fq3m9x2d", 50 random bits behind a letter for what it names.
func NewID(kind string) string {
	var bits [10]byte
	rand.Read(bits[:])
	const letters = "0123456789abcdefghjkmnpqrstvwxyz"
	for i, b := range bits {
		bits[i] = letters[b%32]
	}
	return kind + "-" + string(bits[:])
}

func newExecID() string { return NewID("e") }

// openLog begins the log. Output that came before waits for it.
func (r *Run) openLog(logs *rawlog.Store, meta rawlog.Meta) {
	switch {
	case r.bridge != nil:
	case r.log == nil:
		r.log = logs.Create(meta)
	default:
		r.log.Begin(meta)
	}
	close(r.opened)
}

// begin starts what goes on beside the run: its time limit, its input.
func (r *Run) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended() {
		return
	}
	if r.Command.Timeout > 0 {
		r.killed.limit = time.AfterFunc(r.Command.Timeout, r.timeOut)
	}
	if r.Command.Stdin != nil {
		r.in.turn <- struct{}{} // no other call knows the run yet
		go r.in.feed(r.Command.Stdin, !r.Command.Interactive)
	}
}

// resumeLimit goes on counting the time of a resumed run. One that ended in time is not
// too late because no server saw it.
func (r *Run) resumeLimit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Command.Timeout > 0 && !r.resumed.ended && !r.ended() {
		r.killed.limit = time.AfterFunc(r.Command.Timeout-r.age(), r.timeOut)
	}
}

// Done is closed when the run has ended: its shell has, or its box.
func (r *Run) Done() <-chan struct{} { return r.done }

// Over is closed when nothing of the run is left: what it left behind has ended
// too.
func (r *Run) Over() <-chan struct{} { return r.over }

func (r *Run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// isOver reports whether nothing of the run is left.
func (r *Run) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == closed
}

// age returns for how long a run has run.
func (r *Run) age() time.Duration {
	if r.resumed != nil {
		return time.Since(r.resumed.began)
	}
	return time.Since(r.Started)
}

// Exit says how the run ended, or that it runs.
func (r *Run) Exit() Exit {
	if !r.ended() {
		return Exit{Status: Running, Code: -1, Took: r.age()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end.exit
}

// Output returns what the run has printed so far, cut to fit limits, with its
// secrets masked. The log has them. Of binary data it returns only the kind.
func (r *Run) Output(limits excerpt.Limits) (stdout, stderr excerpt.Excerpt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stdout, stderr = excerpt.Cut(&r.ends[0], &r.ends[1], limits)
	if r.screen == nil { // a terminal shows whatever it is given
		stdout = withoutBinary(stdout, &r.ends[0])
		stderr = withoutBinary(stderr, &r.ends[1])
	}
	return stdout, stderr
}

// withoutBinary returns an excerpt that has no binary data: control pictures would tell nothing.
func withoutBinary(e excerpt.Excerpt, k *excerpt.Keeper) excerpt.Excerpt {
	if e.Text == "" {
		return e
	}
	if kind := summary.BinaryKind(k.Head()); kind != "" {
		return k.Binary(kind, kind == summary.UnknownBinary)
	}
	return e
}

// LogPath names the file with all that the run printed, "" where none could be made.
func (r *Run) LogPath() string {
	<-r.opened
	return r.log.Path()
}

// LogStats says how much that is, and whether all of it is there.
func (r *Run) LogStats() rawlog.Stats {
	<-r.opened
	return r.log.Stats()
}

// Input gives the command more to read, and returns when all of it is on its way.
// A command that does not read takes 256 KiB; beyond that Input waits for it, as
// long as ctx allows.
func (r *Run) Input(ctx context.Context, p []byte) error {
	if r.in == nil {
		return r.noInput()
	}
	return r.explain(r.in.write(ctx, p))
}

// CloseInput says that no more input comes. At a terminal it types what a person
// would, ^D, which the program there takes for the end or not; more can follow.
func (r *Run) CloseInput() error {
	if r.in == nil {
		return r.noInput()
	}
	return r.explain(r.in.close())
}

func (r *Run) noInput() error {
	return Errorf(InvalidArgument, "To send input, start the command with background: true, tty: true or stdin.", "the input of command %s is /dev/null", r.ID)
}

// explain says how the run ended, of input that came too late.
func (r *Run) explain(err error) error {
	if err == errRunEnded {
		return r.endedError()
	}
	return err
}

func (r *Run) endedError() error {
	return endedError(r.ID, r.Exit())
}

// Kill ends the whole tree of the run, or what it left behind: SIGTERM, a grace,
// SIGKILL. It does not wait; Over tells.
func (r *Run) Kill() { r.kill(Killed, killGrace, nil) }

func (r *Run) timeOut() { r.kill(TimedOut, killGrace, nil) }

// evict ends a run that no caller asked to end, without a grace: that of other kills
// is long enough to write several GB.
func (r *Run) evict(why error) { r.kill(Killed, 0, why) }

func (r *Run) kill(cause Status, grace time.Duration, why error) {
	if !r.killing(cause, grace, why) {
		return
	}
	r.conn.SendJSON(wire.Kill, r.wireID, wire.KillBody{GraceMillis: grace.Milliseconds()})
}

// killing records a kill, and reports whether it is the first. A run that is killed
// ends whatever the agent does: after the deadline its box is ended.
func (r *Run) killing(cause Status, grace time.Duration, why error) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed.cause != "" || r.phase == closed || cause == TimedOut && r.ended() {
		return false
	}
	r.killed.cause, r.killed.why = cause, why
	r.killed.deadline = time.AfterFunc(grace+killTimeout, func() {
		r.conn.Fail(Errorf(BoxGone, "", "its agent did not end a killed command within %v", grace+killTimeout))
	})
	return true
}

// receive handles one frame of the agent's about this run, and reports whether the
// run is over. The payload is only valid during the call.
func (r *Run) receive(f wire.Frame) (over bool, err error) {
	<-r.opened
	r.mu.Lock()
	defer r.mu.Unlock()
	want := started
	switch {
	case f.Kind == wire.Started || f.Kind == wire.Refused:
		want = asked
	case f.Kind == wire.Closed, (f.Kind == wire.Stdout || f.Kind == wire.Stderr) && r.phase == exited:
		want = exited
	}
	if r.phase != want {
		return false, wire.Violation("%v at the wrong time", f.Kind)
	}
	first := r.resumed.firstFrame()
	switch f.Kind {
	case wire.Dropped:
		return false, r.dropped(f, first)
	case wire.Started:
		r.phase = started
	case wire.Refused:
		err := r.refused(f)
		return err == nil, err // a run with an invalid refusal is lost with its box
	case wire.Stdout:
		return false, r.print(rawlog.Stdout, 0, f.Payload)
	case wire.Stderr:
		return false, r.print(rawlog.Stderr, 1, f.Payload)
	case wire.StdinTaken:
		return false, r.in.consumed(f)
	case wire.Exit:
		return r.exitFrame(f)
	case wire.Closed:
		return true, nil
	}
	return false, nil
}

func (r *Run) print(stream rawlog.Stream, i int, p []byte) error {
	if r.bridge != nil {
		return r.bridge.accept(i, p)
	}
	r.log.Write(stream, p)
	r.ends[i].Write(p)
	if r.screen != nil {
		r.screen.Write(p)
	}
	if r.phase == started { // what comes later is not the command's
		r.digest.write(i, p)
	}
	return nil
}

func (r *Run) refused(f wire.Frame) error {
	var body wire.RefusedBody
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	r.finish(Exit{Status: Exited, Code: -1, Err: refusal(r, body)})
	return nil
}

func (r *Run) exitFrame(f wire.Frame) (over bool, err error) {
	var body wire.ExitBody
	if err := wire.Decode(f, &body); err != nil {
		return false, err
	}
	if err := checkExit(body, r.Command.Shell); err != nil {
		return false, err
	}
	r.phase = exited
	r.finish(r.exitOf(body))
	return !body.Open, nil
}

// exitOf is what an agent's report says, with what this side knows. The caller holds
// r.mu.
func (r *Run) exitOf(body wire.ExitBody) Exit {
	for i := range body.Leftover { // a process may be named for what it was given
		body.Leftover[i].Name = r.secrets.Name(body.Leftover[i].Name)
	}
	e := Exit{Status: Exited, Code: body.Code, Signal: signalName(body.Signal), Leftover: body.Leftover, More: body.More, Shell: body.Shell}
	switch {
	case r.killed.cause != "" && body.Killed:
		e.Status = r.killed.cause
	case body.Killed, e.Signal != "" && r.conn.stopped():
		e.Status = Killed
	case body.MemoryKill && !body.Shared && body.Code != 0:
		e.Status = OOM
	}
	if body.MemoryKill {
		e.MemoryKill = &MemoryKill{Limit: r.Box.Place.Memory, Shared: body.Shared}
	}
	if r.resumed != nil {
		r.correct(&e, body.TookMillis)
	}
	return e
}

// finish sets the exit. The caller holds r.mu.
func (r *Run) finish(e Exit) {
	if r.ended() {
		return
	}
	if e.Took == 0 {
		e.Took = r.age()
	}
	if e.Status == Killed {
		e.Err = r.killed.why
	}
	r.settle(e)
	r.end.unrecorded = true
}

// settle sets the exit and frees the slots that the run held. The caller holds r.mu.
func (r *Run) settle(e Exit) {
	r.end.exit = e
	if r.killed.limit != nil {
		r.killed.limit.Stop()
	}
	r.digest.end(e)
	r.slots.releaseShell() // first: a call that waited for this run finds the shell free
	close(r.done)
	r.slots.release()
}

// claimEnd returns how the run ended if that is not recorded yet, once.
func (r *Run) claimEnd() (e Exit, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok = r.end.exit, r.end.unrecorded
	r.end.unrecorded = false
	return e, ok
}

// lose ends a run whose box is gone.
func (r *Run) lose(status Status, cause error) {
	<-r.opened
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed.cause != "" {
		status = r.killed.cause
	}
	e := Exit{Status: status, Code: -1}
	if status == Lost {
		hint := "The log has what the command printed before. Run it again in another box."
		if r.bridge != nil {
			hint = "Run it again in another box."
		}
		e.Err = r.lost(hint, cause)
	}
	r.finish(e)
}

// detach ends a run for this program while it goes on.
func (r *Run) detach(why error) {
	<-r.opened
	r.mu.Lock()
	if !r.ended() {
		r.settle(Exit{Status: Running, Code: -1, Took: r.age(), Err: why})
	}
	r.close()
	r.mu.Unlock()
	r.log.Detach()
}

// closeLog closes the log when nothing more can come.
func (r *Run) closeLog() {
	r.mu.Lock()
	r.close()
	r.mu.Unlock()
	r.log.Close()
}

// close ends the run's part in the protocol. The caller holds r.mu.
func (r *Run) close() {
	r.phase = closed
	r.bridge.end()
	if r.killed.deadline != nil {
		r.killed.deadline.Stop()
	}
}
