package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A persistent box outlives this program, and so do its runs. What the next server
// must know of a run is on disk at any moment, also when this one is killed: what to
// run and until when is in the head of its log, how much of its output is here the
// log's size tells, and the agent has the rest.

// DefaultReattachTimeout is how long a persistent box waits for a server to reattach.
const DefaultReattachTimeout = 24 * time.Hour

const (
	// reachTimeout is how long the server tries to reattach to a box whose stream
	// broke: what an engine takes to restart on a busy machine. A later call that
	// names the box may still find it.
	reachTimeout = 2 * time.Minute

	// reachPause is between two tries, at first and at last.
	reachPause    = 50 * time.Millisecond
	maxReachPause = 5 * time.Second

	// maxPrinted is more than any command prints, and small enough to add.
	maxPrinted = 1 << 50

	// maxAge is more than any run has, and small enough to count back.
	maxAge = 100 * 365 * 24 * time.Hour
)

// errDetached is why a box is gone that a later program finds again.
var errDetached = errors.New("it was detached, and the next server can reattach it")

// reattaching is the claim of the one caller at a time that reattaches to boxes.
var reattaching = claimKey{name: "\x00reattach"} // which no box is named

// persistence says of a request how its box outlives the server, nil where it does not.
func (m *Manager) persistence(owner Owner, req Request) (*Persistent, error) {
	if !req.Persistent {
		return nil, nil
	}
	if _, ok := m.Launcher.(Reattacher); !ok {
		return nil, Errorf(InvalidArgument, "Leave keep out.", "boxes of this backend cannot be persistent")
	}
	if req.Name == "" {
		return nil, Errorf(InvalidArgument, `Give a name, such as "dev".`, "a persistent box needs a name, by which a later server finds it")
	}
	return &Persistent{Name: req.Name, Principal: owner.Principal, ReattachTimeout: m.reattachTimeout()}, nil
}

func (m *Manager) reattachTimeout() time.Duration {
	if m.ReattachTimeout > 0 {
		return m.ReattachTimeout
	}
	return DefaultReattachTimeout
}

// notPersistent refuses to make a box persistent that runs. Whose it is, what it was
// started with and what its agent does at the end of its stream is fixed at its start.
func notPersistent(name string) error {
	return Errorf(InvalidArgument, "Stop that container and start it again with keep, or leave keep out, or choose another name.",
		"a container named %q is already running and is not persistent, and a running container cannot become persistent", name)
}

// reattachOnce reattaches to the boxes of an owner's principal in the background, on
// the first call for the principal.
func (m *Manager) reattachOnce(owner Owner) {
	m.tasks.runOnce(reattachTask(owner), func(ctx context.Context) { m.reattachAll(ctx, owner) })
}

func reattachTask(owner Owner) taskKey { return taskKey{"reattach", owner.Principal} }

// AwaitReattach waits until the server has reattached to the boxes of an owner's
// principal, at most so long, and reports whether it has tried all of them. Before Warm
// there is nothing to wait for.
func (m *Manager) AwaitReattach(ctx context.Context, owner Owner, wait time.Duration) bool {
	ended := m.tasks.ended(reattachTask(owner))
	if ended == nil {
		return true
	}
	select {
	case <-ended:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// reattachAll reattaches to the detached boxes of an owner's principal on this host,
// with what runs in them. One that cannot be reached is left to its agent, which ends it
// when its time is over. Those of other principals are left to their own servers, as an
// agent has one host. So no server ever attaches to a box of a principal that exists no
// more, as those are that an earlier version named, and it ends when its time is over.
func (m *Manager) reattachAll(ctx context.Context, owner Owner) error {
	return m.reattachEach(ctx, func(d Detached) bool { return d.Principal == owner.Principal })
}

// reattachEach reattaches to the detached boxes that are wanted.
func (m *Manager) reattachEach(ctx context.Context, wanted func(Detached) bool) error {
	re, ok := m.Launcher.(Reattacher)
	if !ok {
		return nil
	}
	release, err := m.boxes.claims.acquire(ctx, reattaching)
	if err != nil {
		return err
	}
	defer release()
	detached, err := re.Detached(ctx)
	for _, d := range detached {
		if !wanted(d) {
			continue
		}
		if err := m.reattach(ctx, re, d); err != nil {
			m.logger().Warn("cannot reattach to a persistent box", "box", d.ID, "name", d.Name, "err", err)
			if m.boxes.current(d.ID) == nil { // else reachAgain goes on trying
				m.history.lose(d.ID, err)
			}
		}
	}
	return err
}

// reattachNamed returns the detached box of a name, or nil. An error says that there is
// one which cannot be reached at the moment. A program that did not call Warm wants that
// box alone: other programs may take the other ones.
func (m *Manager) reattachNamed(ctx context.Context, owner Owner, name string) (*Box, error) {
	if name == "" {
		return nil, nil
	}
	warmed := m.tasks.ended(reattachTask(owner)) != nil
	err := m.reattachEach(ctx, func(d Detached) bool {
		return d.Principal == owner.Principal && (warmed || d.Name == name)
	})
	box, unreachable := m.boxes.named(owner, name)
	if err != nil {
		return nil, unreachable // no engine: the error of a start says that better
	}
	return box, unreachable
}

// reattach attaches to one box. There may then be one box more than may be started.
func (m *Manager) reattach(ctx context.Context, re Reattacher, d Detached) error {
	spec, err := m.spec(Request{})
	if err != nil {
		return err
	}
	stream, err := re.Reattach(ctx, d)
	if err != nil {
		return err
	}
	m.tendLogs()
	box, err := resumeBox(ctx, m.share(), d, stream, spec)
	if err != nil {
		return err
	}
	m.history.lose(box.ID, errors.New("its agent does not know it"))
	done, ok := m.tasks.begin()
	if !ok {
		return box.Detach()
	}
	defer done()
	if m.boxes.reattached(box) != nil {
		return box.Detach()
	}
	m.watch(box)
	m.logger().InfoContext(ctx, "box reattached", "box", box.ID, "name", box.Name, "runs", box.Live(), "path", box.Place.Path)
	return nil
}

// final reports whether a box is gone for good because of an error: it ended, its
// agent broke the protocol or did not obey, or it is another server's.
func final(err error) bool {
	if _, ended := errors.AsType[*EndedError](err); ended || errors.Is(err, wire.ErrViolation) {
		return true
	}
	told, ok := errors.AsType[*Error](err)
	return ok && told.Code != DockerUnavailable
}

// reachAgain reattaches to a box whose stream broke, as a later program would. It
// returns nil when the box runs again, and else why it does not.
func (m *Manager) reachAgain(ctx context.Context, box *Box) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for pause := reachPause; ; pause = min(2*pause, maxReachPause) {
		err := m.tryReattach(ctx, box)
		if err == nil {
			return nil
		}
		m.logger().Debug("persistent box not reattached yet", "box", box.ID, "err", err)
		if final(err) || !sleep(ctx, pause) {
			return Errorf(BoxGone, "Call start with the name of the box: if the box still runs, the server reattaches it, and otherwise it starts a new one.",
				"cannot reattach to box %s: %w", box.ID, err)
		}
	}
}

// sleep waits, and reports whether ctx lives on.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tryReattach tries once, unless another caller has reattached to the box meanwhile.
func (m *Manager) tryReattach(ctx context.Context, box *Box) error {
	release, err := m.boxes.claims.acquire(ctx, reattaching)
	if err != nil {
		return err
	}
	defer release()
	if m.boxes.current(box.ID) != box {
		return nil
	}
	d := Detached{ID: box.ID, Started: box.Started, Persistent: Persistent{Name: box.Name, Principal: box.owner.Principal, ReattachTimeout: box.reattachTimeout}}
	return m.reattach(ctx, m.Launcher.(Reattacher), d)
}

// ReattachTimeout is how long the box waits for a server after this one, and may be
// idle; 0 of a box that ends with its client.
func (b *Box) ReattachTimeout() time.Duration { return max(0, b.reattachTimeout) }

// Detach leaves a persistent box, and all that runs in it, to a later program. Its runs
// end here as Running, and their logs go on then. Close after it does nothing.
func (b *Box) Detach() error {
	_, err := b.conn.Detach(errDetached)
	<-b.done
	return err
}

// survives reports whether the agent may still be there after the stream to it failed.
func (b *Box) survives(cause error) bool { return b.reattachTimeout > 0 && !final(cause) }

// detached reports whether the box was left to a later program.
func (b *Box) detached() bool { return b.conn.End().How == link.Detached }

// confirm tells the agent of a persistent box that nothing more of a run is wanted: its
// log is whole.
func (b *Box) confirm(id wire.ID) {
	if b.reattachTimeout > 0 {
		b.conn.SendLater(wire.Append(nil, wire.Forget, id, nil))
	}
}

// detachRun ends a run for this program while it goes on in its box.
func (b *Box) detachRun(r *Run) {
	b.closePrograms(r)
	r.detach(b.conn.unreachable())
	b.history.detach(r)
	close(r.over)
}

// resumeBox returns the box of a detached agent at the other end of a stream, with the
// runs that are known to it. If it fails the box stays detached, or is ended where its
// agent broke the protocol.
//
// What an agent says is not believed: a run counts whose log says that it is one of
// this box and its owner's, and that more is to come. Any other is ended, and reported
// nowhere.
//
// A resumed run has no Digest, and its Output begins where it was resumed; its log has
// all.
func resumeBox(ctx context.Context, s *shared, d Detached, stream io.ReadWriteCloser, spec Spec) (*Box, error) {
	spec.Persistent = &d.Persistent
	b := newBox(s, identity{d.ID, d.Name, Owner{Principal: d.Principal}, d.Started}, stream, spec)
	b.activity.goOn() // what its commands have left is unknown
	known, err := b.greet(ctx, spec, true)
	if err == nil {
		err = b.answer(known)
	}
	if err != nil {
		b.abandon(err)
		return nil, fmt.Errorf("greet the agent of box %s again: %w", b.ID, err)
	}
	runs := b.all()
	b.begin()
	for _, run := range runs {
		run.resumeLimit()
	}
	return b, nil
}

// abandon ends the link to a box that was not resumed: the box stays detached, unless
// its agent broke the protocol or it has what is not meant for it.
func (b *Box) abandon(cause error) {
	if errors.Is(cause, wire.ErrViolation) || errors.Is(cause, errNotMeant) {
		b.conn.Close(cause)
	} else {
		b.conn.Detach(cause)
	}
	for _, r := range b.all() {
		b.detachRun(r) // a later try may resume it
	}
}

// A knownRun is one that the agent has from before.
type knownRun struct {
	id wire.ID
	wire.KnownBody
}

// readKnown reads the agent's list. No two runs of it are one.
func readKnown(r *wire.Reader, n int) ([]knownRun, error) {
	if n < 0 || n > wire.MaxRuns {
		return nil, wire.Violation("%d runs, of at most %d", n, wire.MaxRuns)
	}
	list := make([]knownRun, n)
	ids, tags := map[wire.ID]bool{}, map[string]bool{}
	for i := range list {
		f, err := r.Read()
		if err != nil {
			return nil, err
		}
		if f.Kind != wire.Known {
			return nil, wire.Violation("%v instead of %v", f.Kind, wire.Known)
		}
		k := &list[i]
		if err := wire.Decode(f, &k.KnownBody); err != nil {
			return nil, err
		}
		k.id = f.Run
		if !wire.TagName(k.Tag) || ids[k.id] || tags[k.Tag] || k.Bytes < 0 || k.Bytes > maxPrinted ||
			k.AgeMillis < 0 || k.AgeMillis > maxAge.Milliseconds() {
			return nil, wire.Violation("%v of a run that is named twice, or whose tag or numbers are invalid: a tag of %d bytes, %d bytes printed, %d ms old", f.Kind, len(k.Tag), k.Bytes, k.AgeMillis)
		}
		ids[k.id], tags[k.Tag] = true, true
	}
	return list, nil
}

// answer says of each run whether it goes on.
func (b *Box) answer(known []knownRun) error {
	for _, k := range known {
		r, err := b.revive(k)
		if errors.Is(err, wire.ErrViolation) {
			return err
		}
		frame := wire.Append(nil, wire.Forget, k.id, nil)
		switch {
		case err != nil:
			b.logger.Warn("cannot resume a command", "exec", k.Tag, "err", err)
		case r != nil:
			b.resume(r)
			frame = wire.AppendCounts(nil, wire.Resume, k.id, r.log.Stats().Bytes)
		}
		if err := b.conn.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// revive makes the run again that a log describes, nil where it is over: then only the
// confirmation did not reach the agent.
func (b *Box) revive(k knownRun) (*Run, error) {
	head, err := b.logs.Head(k.Tag)
	if err != nil {
		return nil, err
	}
	var n note
	switch {
	case head.Exec != k.Tag || head.Box != b.ID || head.Owner != b.owner.mark():
		return nil, errors.New("its log is of another box or owner")
	case head.Totals != nil:
		return nil, nil
	}
	if err := json.Unmarshal([]byte(head.Note), &n); err != nil {
		return nil, fmt.Errorf("its log does not say how it was started: %w", err)
	}
	log, err := b.logs.Reopen(k.Tag)
	if err != nil {
		return nil, err
	}
	if has := log.Stats().Bytes; has > k.Bytes {
		log.Detach()
		return nil, wire.Violation("%v of a run with %d bytes, and its log has %d", wire.Known, k.Bytes, has)
	}
	c := Command{
		Cmd: head.Cmd, Dir: head.Dir, Timeout: time.Duration(n.TimeoutMillis) * time.Millisecond,
		Interactive: n.Input, TTY: n.TTY, Shell: n.Shell,
	}
	began := time.Now().Add(-time.Duration(k.AgeMillis) * time.Millisecond)
	return newRun(b, c, runStart{
		id: k.Tag, wireID: k.id, log: log, time: head.Start, slots: b.slotsOf(c),
		resumed: &resumption{first: true, ended: k.Ended, inputClosed: !k.Input, end: head.End, began: began},
	}), nil
}

// slotsOf are the slots that a command of the box holds while it runs.
func (b *Box) slotsOf(c Command) slots {
	s := slots{box: b.limiter, all: b.allRuns}
	if c.Shell != "" {
		s.shell, _ = b.shells.limiter(c.Shell, -1)
	}
	return s
}

// resume adds a run that the agent has from before. It keeps its slots, even where no
// more are free.
func (b *Box) resume(r *Run) {
	r.slots.force()
	b.insert(r)
	b.history.reattach(r.ID)
	b.history.add(b.owner, r)
}

// A resumption is what is known of a run beyond what this program saw of it.
type resumption struct {
	first       bool // the agent has sent no frame of it yet; guarded by the run's mu
	ended       bool // as the agent says
	inputClosed bool
	end         *rawlog.End // that the last program recorded, nil for none
	began       time.Time   // by this program's clock, as the agent says; Started is of one that may have been set since
}

// firstFrame reports whether a frame is the first of a resumed run.
func (r *resumption) firstFrame() bool {
	if r == nil || !r.first {
		return false
	}
	r.first = false
	return true
}

// dropped records output that is lost. It comes before all other frames.
func (r *Run) dropped(f wire.Frame, first bool) error {
	var at, feeds int64
	if err := wire.Counts(f, &at, &feeds); err != nil {
		return err
	}
	const why = "more was printed while no server was there than its box keeps"
	if !first || at > maxPrinted || !r.log.Skip(at, feeds, why) {
		return wire.Violation("%v to byte %d, line %d", f.Kind, at, feeds)
	}
	return nil
}

// correct puts into an exit what this program cannot have seen: how long the
// command ran, why it was killed, and what the last program made of its end.
func (r *Run) correct(e *Exit, tookMillis int64) {
	e.Took = max(1, min(time.Duration(tookMillis)*time.Millisecond, r.age()))
	if limit := r.Command.Timeout; e.Status == Killed && r.killed.cause == "" && limit > 0 && e.Took >= limit {
		e.Status = TimedOut
	}
	if end := r.resumed.end; end != nil {
		e.Status, e.Code, e.Signal, e.Took = Status(end.Status), end.Code, end.Signal, max(1, end.Took)
	}
}
