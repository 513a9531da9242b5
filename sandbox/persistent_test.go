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

// A shelf has boxes that were kept, none of which can be dialled, and knows who tried.
type shelf struct {
	Launcher
	kept    []Detached
	dialled []string
}

func (s *shelf) Detached(context.Context) ([]Detached, error) { return s.kept, nil }

func (s *shelf) Reattach(_ context.Context, k Detached) (io.ReadWriteCloser, error) {
	s.dialled = append(s.dialled, k.ID)
	return nil, errors.New("out of reach")
}

// TestOnlyOwnKeptBoxesComeBack: a client's server takes over what its principal kept,
// and leaves to others what is theirs, also what an earlier version kept for the name
// of a token, which no principal owns now.
func TestOnlyOwnKeptBoxesComeBack(t *testing.T) {
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
		s := &shelf{kept: all}
		m := &Manager{Launcher: s, Logs: &rawlog.Store{Dir: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
		t.Cleanup(func() { m.Close() })
		if box, err := m.reattachNamed(t.Context(), owner, "dev"); box != nil || err != nil {
			t.Errorf("%v: %v, %v", owner, box, err)
		}
		if !slices.Equal(s.dialled, want) {
			t.Errorf("%v has %v dialled, want %v", owner, s.dialled, want)
		}
	}
}
