package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A box that is kept outlives this program, and so do its runs. What the next one
// must know of a run is where this one leaves it even when it is killed: what to
// run and until when is in the head of its log, how much of its output is here the
// log's size tells, and the rest the agent has.

// maxPrinted is more than any command prints, and small enough to add.
const maxPrinted = 1 << 50

// maxAge is more than any run has, and small enough to count back.
const maxAge = 100 * 365 * 24 * time.Hour

// resumeBox takes over a stream with the agent of a box that was kept, and the runs
// that are known to it. Before these come back it calls furnish with the box, for
// all that its runs use of it. Where it fails the box goes on waiting, or is gone
// if its agent lied.
//
// What an agent says is not believed: a run counts whose log says that it is one of
// this box and its owner's, and that more is to come. Any other is ended, and told
// of nowhere.
//
// A run that came back has no Digest, and its Output begins where it came back; its
// log has all.
func resumeBox(ctx context.Context, k Detached, stream io.ReadWriteCloser, spec Spec, logs *rawlog.Store, logger *slog.Logger, furnish func(*Box)) (*Box, error) {
	spec.Persistent = &k.Persistent
	b := newBox(k.ID, stream, spec, logs, logger)
	b.Name, b.Started, b.owner = k.Name, k.Started, Owner{Principal: k.Principal}
	furnish(b)
	b.deeds.goOn() // what its commands have left is unknown
	known, err := b.greet(ctx, spec.Env, true)
	if err == nil {
		err = b.answer(known)
	}
	if err != nil {
		b.abandon(err)
		return nil, fmt.Errorf("greet the agent of box %s again: %w", k.ID, err)
	}
	runs := b.all()
	b.begin()
	for _, run := range runs {
		run.rearm()
	}
	return b, nil
}

// abandon gives up a box that did not come back: it waits on, unless its agent lied
// or it has what is not meant for it.
func (b *Box) abandon(cause error) {
	if errors.Is(cause, wire.ErrViolation) || errors.Is(cause, errNotMeant) {
		b.link.Close(cause)
	} else {
		b.link.Detach(cause)
	}
	for _, r := range b.all() {
		r.leave() // it may come back yet
	}
}

// errLeft is why a box is gone that a later program finds again.
var errLeft = errors.New("it waits for the server to come back")

// Detach leaves a kept box, and all that runs in it, to a later program. Its runs
// end here as Running, and their logs go on then. Close after it does nothing.
func (b *Box) Detach() error {
	_, err := b.link.Detach(errLeft)
	<-b.done
	return err
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
			return nil, wire.Violation("%v of %.100q with %d bytes, %d ms old", f.Kind, k.Tag, k.Bytes, k.AgeMillis)
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
			b.logger.Warn("a command did not come back", "exec", k.Tag, "err", err)
		case r != nil:
			b.comeBack(r)
			frame = wire.AppendCounts(nil, wire.Resume, k.id, r.log.Stats().Bytes)
		}
		if err := b.link.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// A note is what the log of a run in a kept box says of its command besides its
// head.
type note struct {
	TimeoutMillis int64  `json:"timeoutMs,omitempty"`
	Input         bool   `json:"input,omitempty"`
	TTY           *Size  `json:"tty,omitempty"`
	Shell         string `json:"shell,omitempty"`
}

func (c Command) note() string {
	text, _ := json.Marshal(note{c.Timeout.Milliseconds(), c.hasInput(), c.TTY, c.Shell}) // which numbers and strings cannot fail
	return string(text)
}

// revive makes the run again that a log tells of, nil where it is over: then only
// the word to the agent did not get through.
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
		return nil, wire.Violation("%v of %s with %d bytes, and its log has %d", wire.Known, k.Tag, k.Bytes, has)
	}
	r := newRun(b, Command{
		Cmd: head.Cmd, Dir: head.Dir, Timeout: time.Duration(n.TimeoutMillis) * time.Millisecond,
		Interactive: n.Input, TTY: n.TTY, Shell: n.Shell,
	})
	r.ID, r.Started, r.wireID, r.log, r.phase = k.Tag, head.Start, k.id, log, started
	began := time.Now().Add(-time.Duration(k.AgeMillis) * time.Millisecond)
	r.back = &comeback{fresh: true, ended: k.Ended, end: head.End, began: began}
	r.in.closed = !k.Input
	close(r.opened)
	return r, nil
}

// comeBack gives a run the places that it has already, among the others of the box,
// of all boxes and of its shell, even where there are no more.
func (b *Box) comeBack(r *Run) {
	b.gate.squeeze()
	if b.common != nil {
		b.common.squeeze()
	}
	b.mu.Lock()
	if name := r.Command.Shell; name != "" {
		r.shell = b.shellGate(name)
		r.shell.squeeze()
	}
	b.runs[r.wireID] = r
	b.mu.Unlock()
	b.history.reattach(r.ID)
	b.history.add(b.owner, r)
}

// comeback is what is known of a run beyond what this program saw of it.
type comeback struct {
	fresh bool        // the agent has said nothing of it yet; guarded by the run's mu
	ended bool        // as the agent says
	end   *rawlog.End // that the last program noted, nil for none
	began time.Time   // by this program's clock, as the agent says; Started is of one that somebody may have set since
}

// age returns for how long a run has run.
func (r *Run) age() time.Duration {
	if r.back != nil {
		return time.Since(r.back.began)
	}
	return time.Since(r.Started)
}

// rearm goes on counting its time. One that ended in time is not too late because
// nobody saw it.
func (r *Run) rearm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Command.Timeout > 0 && !r.back.ended && !r.ended() {
		left := r.Command.Timeout - r.age()
		r.timeout = time.AfterFunc(left, func() { r.kill(TimedOut, killGrace) })
	}
}

// dropped takes note of output that nobody has any more. It comes before all else.
func (r *Run) dropped(f wire.Frame, fresh bool) error {
	var at, feeds int64
	if err := wire.Counts(f, &at, &feeds); err != nil {
		return err
	}
	const why = "more was printed while no server was there than its box keeps"
	if !fresh || at > maxPrinted || !r.log.Skip(at, feeds, why) {
		return wire.Violation("%v to byte %d, line %d", f.Kind, at, feeds)
	}
	return nil
}

// correct puts into an exit what this program cannot have seen: how long the
// command ran, why it was killed, and what the last one made of its end.
func (r *Run) correct(e *Exit, tookMillis int64) {
	e.Took = max(1, min(time.Duration(tookMillis)*time.Millisecond, r.age()))
	if limit := r.Command.Timeout; e.Status == Killed && r.cause == "" && limit > 0 && e.Took >= limit {
		e.Status = TimedOut
	}
	if end := r.back.end; end != nil {
		e.Status, e.Code, e.Signal, e.Took = Status(end.Status), end.Code, end.Signal, max(1, end.Took)
	}
}

// leave ends a run for this program while it goes on.
func (r *Run) leave() {
	<-r.opened
	r.mu.Lock()
	if r.patience != nil {
		r.patience.Stop()
	}
	if !r.ended() {
		r.settle(Exit{Status: Running, Code: -1, Took: r.age(), Err: r.Box.unreached()})
	}
	r.closed = true
	r.mu.Unlock()
	r.log.Detach()
	r.Box.history.detach(r)
	close(r.over)
}

// confirm tells the agent of a kept box that nothing more of a run is wanted: its
// log is whole.
func (b *Box) confirm(id wire.ID) {
	if b.keepFor > 0 {
		b.link.SendLater(wire.Append(nil, wire.Forget, id, nil))
	}
}
