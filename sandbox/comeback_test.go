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
	kept    []Kept
	dialled []string
}

func (s *shelf) Kept(context.Context) ([]Kept, error) { return s.kept, nil }

func (s *shelf) Redial(_ context.Context, k Kept) (io.ReadWriteCloser, error) {
	s.dialled = append(s.dialled, k.ID)
	return nil, errors.New("out of reach")
}

// TestOnlyOwnKeptBoxesComeBack: a client's server takes over what its principal kept,
// and leaves to others what is theirs, also what an earlier version kept for the name
// of a token, which no principal owns now.
func TestOnlyOwnKeptBoxesComeBack(t *testing.T) {
	all := []Kept{
		{ID: "b-local", Keep: Keep{Name: "dev", Owner: "local"}},
		{ID: "b-token", Keep: Keep{Name: "dev", Owner: "token:1f"}},
		{ID: "b-other", Keep: Keep{Name: "dev", Owner: "token:2e"}},
		{ID: "b-named", Keep: Keep{Name: "dev", Owner: "alice"}},
		{ID: "b-default", Keep: Keep{Name: "dev", Owner: "default"}},
	}
	for owner, want := range map[string][]string{
		"local": {"b-local"}, "token:1f.SESSION": {"b-token"}, "token:1f.client-0a": {"b-token"}, "token:3d.SESSION": nil,
	} {
		s := &shelf{kept: all}
		m := &Manager{Launcher: s, Logs: &rawlog.Store{Dir: t.TempDir()}, Logger: slog.New(slog.DiscardHandler)}
		t.Cleanup(func() { m.Close() })
		if box, err := m.back(t.Context(), owner, "dev"); box != nil || err != nil {
			t.Errorf("%s: %v, %v", owner, box, err)
		}
		if !slices.Equal(s.dialled, want) {
			t.Errorf("%s has %v dialled, want %v", owner, s.dialled, want)
		}
	}
}
