package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// MaxCommand bounds the text of a command. Linux takes 128 KiB as one
	// argument; what is longer the agent feeds to the shell another way.
	MaxCommand = 1 << 20

	// killGrace is the time between SIGTERM and SIGKILL.
	killGrace = 2 * time.Second

	// killPatience is how long after a kill's grace the agent may take to say
	// that all is dead: 2 s until it takes the whole box, and the time of a
	// loaded machine. After it the host takes the box away itself.
	killPatience = 8 * time.Second
)

// Command is what to run.
type Command struct {
	Cmd            string
	Dir            string            // where; relative to the box's own directory
	Env            map[string]string // over the box's
	Stdin          io.Reader         // what it reads first; nil is nothing
	Approval       Approval          // of a user, given before the call; "": none
	Approve        ApproveFunc       // asks the user where the allowlist lacks the command; nil: such a command is denied
	Timeout        time.Duration     // after which its whole tree is killed; 0 is none
	ExcerptSize    int               // how many bytes of each stream's ends Output can show; 0 is DefaultExcerptSize
	SummarizeAbove int               // output of more bytes gets a Digest; 0: none does

	// Interactive keeps its input open after Stdin, for Run.Input. Else there is
	// none but Stdin.
	Interactive bool

	// TTY gives it a terminal of that size, and a TERM that says so. All that it
	// prints is then Stdout. Its input stays open, but after a Stdin ^D is typed
	// unless it is Interactive.
	TTY *Size

	// Shell names the shell of the box that it runs in: with the directory,
	// variables, functions and options that the last command there ended with. A
	// Dir and an Env that are given count more, and stay. "" is a new shell.
	Shell string

	// Patience is how long it may wait for the end of others: where too many run,
	// and of those that came before in its Shell.
	Patience time.Duration
}

// Size is a terminal's, in columns and rows.
type Size = wire.Size

// DefaultExcerptSize is how much of a run's output is at hand without its log.
const DefaultExcerptSize = 8000

// Check returns what is wrong with the command, whatever the box. Exec checks it too; a
// caller that has to start a box first checks before that.
func (c Command) Check() error {
	switch {
	case strings.TrimSpace(c.Cmd) == "":
		return Errorf(InvalidArgument, "Give a shell command such as \"ls -la\".", "cmd is empty")
	case len(c.Cmd) > MaxCommand:
		return Errorf(InvalidArgument, "Write it to a file, or give it as stdin, and run that.",
			"cmd has %d bytes, more than the %d allowed", len(c.Cmd), MaxCommand)
	case strings.ContainsRune(c.Cmd, 0):
		return Errorf(InvalidArgument, "Give binary data as stdin, or write it with printf '\\0'.", "cmd contains a NUL byte, which no shell can take")
	case strings.ContainsRune(c.Dir, 0):
		return Errorf(InvalidArgument, "", "workdir contains a NUL byte")
	case c.Timeout < 0:
		return Errorf(InvalidArgument, "Leave it out for the default.", "a timeout of %v is none", c.Timeout)
	}
	if c.TTY != nil {
		if err := checkSize(*c.TTY); err != nil {
			return err
		}
	}
	if err := checkShell(c.Shell); err != nil {
		return err
	}
	return checkEnv(c.Env, MaxEnv)
}

// start is the command as its agent is told.
func (c Command) start() wire.StartBody {
	env := pairs(c.Env)
	switch {
	case c.TTY != nil:
		env = append([]string{"TERM=xterm-256color"}, env...)
	case c.Shell != "":
		env = append([]string{"TERM=dumb"}, env...) // not what a terminal left in the shell
	}
	return wire.StartBody{Cmd: c.Cmd, Dir: c.Dir, Env: env, Stdin: c.hasInput(), TTY: c.TTY, Shell: c.Shell}
}

// Status says in one word where a run stands.
type Status string

// The statuses of a run.
const (
	Running  Status = "running"
	Exited   Status = "exited"
	Killed   Status = "killed"
	TimedOut Status = "timeout"
	OOM      Status = "oom"
	Lost     Status = "lost" // its box ended under it
)

// Exit says how a command ended. A command that failed is a value; Err is set
// only where we do not know what happened.
type Exit struct {
	Status   Status
	Code     int    // 0 to 255, from the kernel; -1 where there is none
	Signal   string // "SIGKILL"; empty where none ended it
	Took     time.Duration
	Leftover []Proc // what still runs, at most wire.MaxLeftover of it
	More     int    // what else still runs
	Shell    string // what became of its named shell: "saved", "kept" as it was before, or "lost" with all from before; "" where it had none
	Err      error  // of a Lost or never started run, and of one that was Killed though nobody asked for that

	// MemoryKill is not nil where the kernel killed a process of the box for want of
	// memory while the command ran. It was the command's own, and the status is OOM
	// if it failed, where no other ran meanwhile.
	MemoryKill *MemoryKill
}

// A MemoryKill tells of a process that the kernel killed for want of memory.
type MemoryKill struct {
	Limit  int64 // how much memory the box may have, in bytes; 0: unknown
	Shared bool  // other commands ran in the box meanwhile: it may have been theirs
}

// Proc is a process that a run left behind. Its name is the box's own text.
type Proc = wire.Proc

// A Run is a command under way or ended.
type Run struct {
	ID      string // for people; not the one on the wire
	Box     *Box
	Command Command
	Started time.Time

	wireID wire.ID
	log    *rawlog.Log
	opened chan struct{} // closed when log has begun
	done   chan struct{} // closed when exit is set
	over   chan struct{} // closed when nothing more can come
	room   chan struct{} // has a token when the agent took of our stdin
	shell  *gate         // of its named shell, nil where it has none
	trace  string        // the call that it was started by

	back *comeback // not nil where a program before this one started it

	mu        sync.Mutex
	phase     phase
	cause     Status // why we killed it: TimedOut or Killed, "" where we did not
	why       error  // in words, where nobody asked for it
	exit      Exit
	unwritten bool              // how it ended is not written down yet
	out       [2]excerpt.Keeper // stdout, stderr
	digest    *digester
	timeout   *time.Timer
	patience  *time.Timer
	closed    bool // nothing more can come
	unacked   int  // stdin bytes on their way
	in        input
}

// phase is where the protocol stands for a run.
type phase int

const (
	asked   phase = iota // Start is sent
	started              // Started has come
	exited               // Exit has come, output may follow
)

func newRun(b *Box, c Command) *Run {
	if c.ExcerptSize <= 0 {
		c.ExcerptSize = DefaultExcerptSize
	}
	r := &Run{
		ID: newExecID(), Box: b, Command: c, Started: time.Now(),
		opened: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), room: make(chan struct{}, 1),
		in: input{turn: make(chan struct{}, 1)},
	}
	r.digest = newDigester(r)
	mask := b.secrets.Within
	r.out = [2]excerpt.Keeper{{Limit: c.ExcerptSize, Mask: mask}, {Limit: c.ExcerptSize, Mask: mask}}
	return r
}

// NewID returns a name that nobody can guess and anybody can read aloud:
// "e-k7fq3m9x2d", 50 random bits behind a letter that tells what it names.
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

// takeLog takes a log whose files stand ready, if there is one, and its name.
func (r *Run) takeLog() {
	if r.log = r.Box.logs.Prepared(); r.log != nil {
		r.ID = r.log.Exec()
	}
}

// giveLogBack is what comes of that where the run does not begin.
func (r *Run) giveLogBack() {
	if r.log != nil {
		r.log.Discard()
	}
}

// open begins the log. Output that came before waits for it.
func (r *Run) open(logs *rawlog.Store) {
	meta := rawlog.Meta{Exec: r.ID, Box: r.Box.ID, Owner: r.Box.owner.mark(), Cmd: r.Command.Cmd, Dir: r.Command.Dir, Start: r.Started}
	if r.Box.keepFor > 0 {
		meta.Note = r.Command.note()
	}
	if r.log == nil {
		r.log = logs.Create(meta)
	} else {
		r.log.Begin(meta)
	}
	close(r.opened)
}

// arm starts what goes on beside the run: its time limit, its input.
func (r *Run) arm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended() {
		return
	}
	if r.Command.Timeout > 0 {
		r.timeout = time.AfterFunc(r.Command.Timeout, func() { r.kill(TimedOut, killGrace) })
	}
	if r.Command.Stdin != nil {
		r.in.turn <- struct{}{} // nobody else knows the run yet
		go r.feed()
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

// Exit says how the run ended, or that it runs.
func (r *Run) Exit() Exit {
	if !r.ended() {
		return Exit{Status: Running, Code: -1, Took: r.age()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exit
}

// Output returns what the run has printed so far, cut to fit limits, with its
// secrets masked. The log has them.
func (r *Run) Output(limits excerpt.Limits) (stdout, stderr excerpt.Excerpt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return excerpt.Cut(&r.out[0], &r.out[1], limits)
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

// Kill ends the whole tree of the run, or what it left behind: SIGTERM, a grace,
// SIGKILL. It does not wait; Over tells.
func (r *Run) Kill() { r.kill(Killed, killGrace) }

func (r *Run) kill(cause Status, grace time.Duration) {
	r.mu.Lock()
	if r.cause != "" || r.closed || cause == TimedOut && r.ended() {
		r.mu.Unlock()
		return
	}
	r.cause = cause
	// The promise that it ends is kept here, whatever the agent does.
	r.patience = time.AfterFunc(grace+killPatience, func() {
		r.Box.link.Fail(Errorf(BoxGone, "", "its agent did not end a killed command within %v", grace+killPatience))
	})
	r.mu.Unlock()
	r.Box.link.SendJSON(wire.Kill, r.wireID, wire.KillBody{GraceMillis: grace.Milliseconds()})
}

// take handles one frame of the agent's about this run, and tells whether the
// run is over. The payload is only valid during the call.
func (r *Run) take(f wire.Frame) (over bool, err error) {
	<-r.opened
	defer r.writeEnd()
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
	fresh := r.back != nil && r.back.fresh
	if fresh {
		r.back.fresh = false
	}
	switch f.Kind {
	case wire.Dropped:
		return false, r.dropped(f, fresh)
	case wire.Started:
		r.phase = started
	case wire.Refused:
		return true, r.refused(f)
	case wire.Stdout:
		r.print(rawlog.Stdout, 0, f.Payload)
	case wire.Stderr:
		r.print(rawlog.Stderr, 1, f.Payload)
	case wire.StdinTaken:
		return false, r.taken(f)
	case wire.Exit:
		return r.exitFrame(f)
	case wire.Closed:
		return true, nil
	}
	return false, nil
}

func (r *Run) print(stream rawlog.Stream, i int, p []byte) {
	r.log.Write(stream, p)
	r.out[i].Write(p)
	if r.phase == started { // what comes later is not the command's
		r.digest.write(i, p)
	}
}

func (r *Run) taken(f wire.Frame) error {
	if len(f.Payload) != 4 {
		return wire.Violation("%v of %d bytes", f.Kind, len(f.Payload))
	}
	n := binary.BigEndian.Uint32(f.Payload)
	if n == 0 || int64(n) > int64(r.unacked) {
		return wire.Violation("%v of %d bytes, where %d are on their way", f.Kind, n, r.unacked)
	}
	r.unacked -= int(n)
	select {
	case r.room <- struct{}{}:
	default:
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
	for i := range body.Leftover { // a process may be named for what it was given
		body.Leftover[i].Name = r.Box.secrets.Name(body.Leftover[i].Name)
	}
	e := Exit{Status: Exited, Code: body.Code, Signal: signalName(body.Signal), Leftover: body.Leftover, More: body.More, Shell: body.Shell}
	if len(e.Leftover)+e.More > 0 {
		r.Box.deeds.goOn()
	}
	switch {
	case r.cause != "" && body.Killed:
		e.Status = r.cause
	case body.Killed, e.Signal != "" && r.Box.isStopped():
		e.Status = Killed
	case body.MemoryKill && !body.Shared && body.Code != 0:
		e.Status = OOM
	}
	if body.MemoryKill {
		e.MemoryKill = &MemoryKill{Limit: r.Box.Place.Memory, Shared: body.Shared}
	}
	if r.back != nil {
		r.correct(&e, body.TookMillis)
	}
	r.finish(e)
	return !body.Open, nil
}

func checkExit(b wire.ExitBody, shell string) error {
	switch b.Shell {
	case "", wire.ShellSaved, wire.ShellKept, wire.ShellLost:
		if (b.Shell == "") == (shell == "") {
			break
		}
		fallthrough
	default:
		return wire.Violation("Exit from the shell %q, which is %.100q", shell, b.Shell)
	}
	if b.Code < 0 || b.Code > 255 || b.Signal < 0 || b.Signal > 64 || b.More < 0 || len(b.Leftover) > wire.MaxLeftover {
		return wire.Violation("Exit with code %d, signal %d, %d leftover", b.Code, b.Signal, len(b.Leftover))
	}
	for _, p := range b.Leftover {
		if p.Pid < 1 || len(p.Name) > 64 {
			return wire.Violation("Exit with a leftover process %d, name of %d bytes", p.Pid, len(p.Name))
		}
	}
	return nil
}

// finish makes the exit known. The caller holds r.mu.
func (r *Run) finish(e Exit) {
	if r.ended() {
		return
	}
	if e.Took == 0 {
		e.Took = r.age()
	}
	if e.Status == Killed {
		e.Err = r.why
	}
	r.settle(e)
	r.unwritten = true
}

// writeEnd writes down how the run ended, if that is not done. Whoever waits for the
// end does not wait for this.
func (r *Run) writeEnd() {
	r.mu.Lock()
	e, due := r.exit, r.unwritten
	r.unwritten = false
	r.mu.Unlock()
	if !due {
		return
	}
	runtime.Gosched() // to whoever waits
	r.Box.lookout.wake(r.ID)
	r.Box.audit.ended(r, e)
	r.Box.logger.Info("run ended", "exec", r.ID, "status", e.Status, "code", e.Code, "took", e.Took, "trace", r.trace)
	r.log.Finish(rawlog.End{Status: string(e.Status), Code: e.Code, Signal: e.Signal, Took: e.Took})
}

// settle makes the exit known and gives back the places that the run had. The
// caller holds r.mu.
func (r *Run) settle(e Exit) {
	r.exit = e
	if r.timeout != nil {
		r.timeout.Stop()
	}
	r.digest.end(e)
	r.leaveShell() // first: who waited for this one finds the shell free
	close(r.done)
	r.Box.dismiss()
}

// lose ends a run whose box is gone.
func (r *Run) lose(status Status, cause error) {
	<-r.opened
	r.mu.Lock()
	if r.cause != "" {
		status = r.cause
	}
	e := Exit{Status: status, Code: -1}
	if status == Lost {
		e.Err = Errorf(BoxGone, "The log has what the command printed until then. Start it again in another box.", "box %s ended while the command ran: %w", r.Box.ID, cause)
	}
	r.finish(e)
	r.mu.Unlock()
	r.writeEnd()
	r.close()
}

// close gives the log back when nothing more can come.
func (r *Run) close() {
	r.mu.Lock()
	r.closed = true
	if r.patience != nil {
		r.patience.Stop()
	}
	r.mu.Unlock()
	r.log.Close()
	r.Box.logs.Prepare(newExecID)
	r.Box.lookout.wake(r.ID)
	r.Box.confirm(r.wireID)
	r.Box.history.settle(r)
	close(r.over) // who waited for it finds all that was said above
}
