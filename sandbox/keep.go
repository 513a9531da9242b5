package sandbox

import (
	"context"
	"strings"
	"time"
)

// DefaultKeepFor is how long a kept box waits for a server to come back.
const DefaultKeepFor = 24 * time.Hour

// keeper is whose the kept boxes of an owner are. A session ends with its server,
// so they belong to whoever has the sessions: of "alice.K7Q2…" that is alice.
func keeper(owner string) string {
	if i := strings.LastIndexByte(owner, '.'); i > 0 {
		return owner[:i]
	}
	return owner
}

// reaches reports whether what one has another may use: the same owner, or one
// of the sessions of who keeps it.
func reaches(owner, has string) bool { return owner == has || keeper(owner) == has }

// keep says of a request how its box is kept, nil where it is not.
func (m *Manager) keep(owner string, req Request) (*Keep, error) {
	if !req.Keep {
		return nil, nil
	}
	if _, ok := m.Launcher.(Redialer); !ok {
		return nil, Errorf(InvalidArgument, "Leave keep out.", "boxes of this backend cannot outlive the server")
	}
	if req.Name == "" {
		return nil, Errorf(InvalidArgument, `Give one, such as "dev".`, "a box that is kept needs a name, by which it is found again")
	}
	return &Keep{Name: req.Name, Owner: keeper(owner), For: m.keepFor()}, nil
}

func (m *Manager) keepFor() time.Duration {
	if m.KeepFor > 0 {
		return m.KeepFor
	}
	return DefaultKeepFor
}

// comeBack takes over the kept boxes that wait on this host, with what runs in
// them. One that cannot be reached is left to its agent, which ends it when its
// time is over.
func (m *Manager) comeBack(ctx context.Context) error {
	redialer, ok := m.Launcher.(Redialer)
	if !ok {
		return nil
	}
	release, err := m.claim(ctx, "\x00kept")
	if err != nil {
		return err
	}
	defer release()
	kept, err := redialer.Kept(ctx)
	for _, k := range kept {
		if err := m.takeOver(ctx, redialer, k); err != nil {
			m.logger().Warn("a kept box did not come back", "box", k.ID, "name", k.Name, "err", err)
		}
	}
	return err
}

// back returns the box of a name that waits for its owner, or nil.
func (m *Manager) back(ctx context.Context, owner, name string) *Box {
	if name == "" || m.comeBack(ctx) != nil {
		return nil // no engine: whoever starts one now says that better
	}
	return m.named(owner, name)
}

// takeOver takes one of them over. It may be one box more than may be started.
func (m *Manager) takeOver(ctx context.Context, r Redialer, k Kept) error {
	m.mu.Lock()
	m.prepare()
	m.mu.Unlock()
	spec, err := m.spec(Request{})
	if err != nil {
		return err
	}
	stream, err := r.Redial(ctx, k)
	if err != nil {
		return err
	}
	box, err := resumeBox(ctx, k, stream, spec, m.Logs, m.logger(), func(b *Box) { m.furnish(b, spec) })
	if err != nil {
		return err
	}
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

// left reports whether the box was left to a later program.
func (b *Box) left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause == errLeft
}
