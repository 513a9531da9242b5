package sandbox

import (
	"context"
	"errors"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// DefaultReattachTimeout is how long a kept box waits for a server to come back.
const DefaultReattachTimeout = 24 * time.Hour

// keep says of a request how its box is kept, nil where it is not.
func (m *Manager) keep(owner Owner, req Request) (*Persistent, error) {
	if !req.Persistent {
		return nil, nil
	}
	if _, ok := m.Launcher.(Reattacher); !ok {
		return nil, Errorf(InvalidArgument, "Leave keep out.", "boxes of this backend cannot outlive the server")
	}
	if req.Name == "" {
		return nil, Errorf(InvalidArgument, `Give one, such as "dev".`, "a box that is kept needs a name, by which it is found again")
	}
	return &Persistent{Name: req.Name, Principal: owner.Principal, ReattachTimeout: m.keepFor()}, nil
}

// ReattachTimeout is how long the box waits for a server after this one, and stands while
// nobody uses it; 0 of a box that ends with its client.
func (b *Box) ReattachTimeout() time.Duration { return max(0, b.keepFor) }

// notKept refuses to say of a box that it is kept. Whose it is, what it was started
// with and what its agent does at the end of its stream is fixed when it starts.
func notKept(name string) error {
	return Errorf(InvalidArgument, "Stop it first and start it with keep, or leave keep out, or give another name.",
		"a container named %q stands already and is not kept, and what stands cannot become so", name)
}

// AwaitReattach waits for what an owner's principal kept to come back, at most so long, and
// reports whether all of it was looked for. Before Warm there is nothing to wait for.
func (m *Manager) AwaitReattach(ctx context.Context, owner Owner, wait time.Duration) bool {
	m.mu.Lock()
	back := m.met[owner.Principal]
	m.mu.Unlock()
	if back == nil {
		return true
	}
	select {
	case <-back:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-back:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (m *Manager) keepFor() time.Duration {
	if m.ReattachTimeout > 0 {
		return m.ReattachTimeout
	}
	return DefaultReattachTimeout
}

// comingBack is what who takes over kept boxes has claimed: one at a time does.
var comingBack = claimKey{name: "\x00kept"} // which no box is named

// comeBack takes over the kept boxes of an owner's principal that wait on this host,
// with what runs in them. One that cannot be reached is left to its agent, which ends
// it when its time is over. Those of others are left to them: who had them would keep
// them from their own server. So nobody ever has one of a principal that is no more,
// as those are that an earlier version named, and it ends when its time is over.
func (m *Manager) comeBack(ctx context.Context, owner Owner) error {
	redialer, ok := m.Launcher.(Reattacher)
	if !ok {
		return nil
	}
	release, err := m.claim(ctx, comingBack)
	if err != nil {
		return err
	}
	defer release()
	kept, err := redialer.Detached(ctx)
	for _, k := range kept {
		if k.Principal != owner.Principal {
			continue
		}
		if err := m.takeOver(ctx, redialer, k); err != nil {
			m.logger().Warn("a kept box did not come back", "box", k.ID, "name", k.Name, "err", err)
			if m.standsFor(k.ID) == nil { // else somebody goes on trying
				m.history.lose(k.ID, err)
			}
		}
	}
	return err
}

// standsFor returns the newest Box of an id, one that is to come back too, or nil.
func (m *Manager) standsFor(id string) *Box {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.boxes[id]; t != nil {
		return t.box
	}
	return nil
}

// back returns the box of a name that waits for its owner, or nil. An error says
// that there is one which cannot be reached just now.
func (m *Manager) back(ctx context.Context, owner Owner, name string) (*Box, error) {
	if name == "" || m.comeBack(ctx, owner) != nil {
		return nil, m.unreached(owner, name) // no engine: whoever starts one now says that better
	}
	if box := m.named(owner, name); box != nil {
		return box, nil
	}
	return nil, m.unreached(owner, name)
}

// unreached says of the box of a name that it is being dialled again, if so.
func (m *Manager) unreached(owner Owner, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.boxes {
		if name != "" && owner.reaches(t.owner) && t.box.Name == name {
			if err := t.box.unreached(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOver takes one of them over. It may be one box more than may be started.
func (m *Manager) takeOver(ctx context.Context, r Reattacher, k Detached) error {
	m.mu.Lock()
	m.prepare()
	m.mu.Unlock()
	spec, err := m.spec(Request{})
	if err != nil {
		return err
	}
	stream, err := r.Reattach(ctx, k)
	if err != nil {
		return err
	}
	box, err := resumeBox(ctx, k, stream, spec, m.Logs, m.logger(), func(b *Box) { m.furnish(b, spec) })
	if err != nil {
		return err
	}
	m.history.lose(box.ID, errors.New("its agent does not know it"))
	m.mu.Lock()
	closed := m.closed
	if !closed {
		m.enter(box)
	}
	m.mu.Unlock()
	if closed {
		return box.Detach()
	}
	m.logger().InfoContext(ctx, "box came back", "box", box.ID, "name", box.Name, "runs", box.Live(), "path", box.Place.Path)
	return nil
}

const (
	// reachTime is how long a kept box is dialled again whose stream broke: what an
	// engine takes to start anew on a machine with much else to do. Who asks for the
	// box by its name later may still find it.
	reachTime = 2 * time.Minute

	// reachPause is between two tries, at first and at last.
	reachPause    = 50 * time.Millisecond
	maxReachPause = 5 * time.Second
)

// final reports whether a box is gone for good because of an error: it ended, its
// agent lied or was given up, or it is somebody else's.
func final(err error) bool {
	if _, ended := errors.AsType[*EndedError](err); ended || errors.Is(err, wire.ErrViolation) {
		return true
	}
	told, ok := errors.AsType[*Error](err)
	return ok && told.Code != DockerUnavailable
}

// reach has a box come back whose stream broke, as a later program would. It
// returns nil when the box stands again, and else why it does not.
func (m *Manager) reach(ctx context.Context, box *Box) error {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	for pause := reachPause; ; pause = min(2*pause, maxReachPause) {
		err := m.dialAgain(ctx, box)
		if err == nil {
			return nil
		}
		m.logger().Debug("a kept box is not back yet", "box", box.ID, "err", err)
		if final(err) || !rest(ctx, pause) {
			return Errorf(BoxGone, "Start one of that name: where it still runs it comes back. Else start another.",
				"box %s did not come back: %w", box.ID, err)
		}
	}
}

// rest waits, and reports whether ctx lives on.
func rest(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dialAgain tries once, unless somebody else was quicker.
func (m *Manager) dialAgain(ctx context.Context, box *Box) error {
	release, err := m.claim(ctx, comingBack)
	if err != nil {
		return err
	}
	defer release()
	if m.standsFor(box.ID) != box {
		return nil
	}
	kept := Detached{ID: box.ID, Started: box.Started, Persistent: Persistent{Name: box.Name, Principal: box.owner.Principal, ReattachTimeout: box.keepFor}}
	return m.takeOver(ctx, m.Launcher.(Reattacher), kept)
}

// survives reports whether the agent may still be there after the stream to it failed.
func (b *Box) survives(cause error) bool { return b.keepFor > 0 && !final(cause) }

// left reports whether the box was left to a later program, or is to come back.
func (b *Box) left() bool { return b.unreached() != nil || b.detached() }

func (b *Box) detached() bool { return b.link.End().How == link.Detached }

// unreached says that the stream to the box broke, if so.
func (b *Box) unreached() error {
	if b.link.End().How == link.Broken {
		return b.Gone()
	}
	return nil
}
