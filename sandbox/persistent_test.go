package sandbox

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// An unreachable Launcher has detached boxes to which nothing can reattach, and records
// who tried.
type unreachable struct {
	Launcher
	detached []Detached
	tried    []string
}

func (u *unreachable) Detached(context.Context) ([]Detached, error) { return u.detached, nil }

func (u *unreachable) Reattach(_ context.Context, d Detached) (io.ReadWriteCloser, error) {
	u.tried = append(u.tried, d.ID)
	return nil, errors.New("out of reach")
}

// A client's server reattaches to the boxes of its principal and to no others, also not to
// those that an earlier version made for the name of a token, which no principal owns now.
func TestReattachOnlyToBoxesOfTheSamePrincipal(t *testing.T) {
	all := []Detached{
		{ID: "b-local", Persistent: Persistent{Name: "dev", Principal: "local"}},
		{ID: "b-token", Persistent: Persistent{Name: "dev", Principal: "token:1f"}},
		{ID: "b-other", Persistent: Persistent{Name: "dev", Principal: "token:2e"}},
		{ID: "b-named", Persistent: Persistent{Name: "dev", Principal: "alice"}},
		{ID: "b-default", Persistent: Persistent{Name: "dev", Principal: "default"}},
	}
	for owner, want := range map[Owner][]string{
		{"local", ""}:             {"b-local"},
		{"token:1f", "SESSION"}:   {"b-token"},
		{"token:1f", "client-0a"}: {"b-token"},
		{"token:3d", "SESSION"}:   nil,
	} {
		u := &unreachable{detached: all}
		m := &Manager{Launcher: u, Logs: &rawlog.Store{Dir: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
		t.Cleanup(func() { m.Close() })
		if box, err := m.reattachNamed(t.Context(), owner, "dev"); box != nil || err != nil {
			t.Errorf("%v: %v, %v", owner, box, err)
		}
		if !slices.Equal(u.tried, want) {
			t.Errorf("%v: tried %v, want %v", owner, u.tried, want)
		}
	}
}

// A program that asks for one box by name leaves the others to the programs that want them.
// A server, which has called Warm, has all boxes of its principal.
func TestStartByNameReattachesNoOtherBoxWithoutWarm(t *testing.T) {
	u := &unreachable{detached: []Detached{
		{ID: "b-one", Persistent: Persistent{Name: "one", Principal: "local"}},
		{ID: "b-two", Persistent: Persistent{Name: "two", Principal: "local"}},
	}}
	m := &Manager{Launcher: u, Logs: &rawlog.Store{Dir: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { m.Close() })
	owner := Owner{Principal: "local"}
	if _, err := m.reattachNamed(t.Context(), owner, "two"); err != nil || !slices.Equal(u.tried, []string{"b-two"}) {
		t.Errorf("%v, tried %v", err, u.tried)
	}
	m.Warm(owner)
	<-m.tasks.ended(reattachTask(owner))
	u.tried = nil
	if _, err := m.reattachNamed(t.Context(), owner, "two"); err != nil || !slices.Equal(u.tried, []string{"b-one", "b-two"}) {
		t.Errorf("after Warm: %v, tried %v", err, u.tried)
	}
}
