package sandbox

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// setClock makes a run's log say that it began at another time, as if the clock
// had been set since.
func (s *site) setClock(exec string, by time.Duration) {
	s.t.Helper()
	path := strings.TrimSuffix(s.logs.Path(exec), ".log") + ".idx"
	text, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	head, rest, _ := strings.Cut(strings.TrimPrefix(string(text), "h "), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(head), &fields); err != nil {
		s.t.Fatal(err)
	}
	fields["start"] = time.Now().Add(by)
	changed, err := json.Marshal(fields)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("h "+string(changed)+"\n"+rest), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// The time limit of a command in a persistent box is counted by its agent's clock: setting
// the host's, by a year ahead or back, neither ends the command nor prolongs it.
func TestReattachIgnoresTheWallClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{-year, year} {
		s := newSite(t)
		b := s.open(t.Context())
		short := s.start(b, Command{Cmd: "echo up; exec sleep 1000", Timeout: 2 * time.Second})
		long := s.start(b, Command{Cmd: "echo up; read x; exit 3", Interactive: true, Timeout: time.Hour})
		s.printed(short, "up\n")
		s.printed(long, "up\n")
		begun := time.Now()
		if err := b.Detach(); err != nil {
			t.Fatal(err)
		}
		s.setClock(short.ID, by)
		s.setClock(long.ID, by)

		b = s.mustResume()
		short, long = b.history.open(me, short.ID), b.history.open(me, long.ID)
		if short == nil || long == nil {
			t.Fatal("a command was not resumed")
		}
		if took := long.Exit().Took; took < 0 || took > time.Minute {
			t.Errorf("it has run for %v", took)
		}
		if e := s.over(short); e.Status != TimedOut || e.Took < 2*time.Second || time.Since(begun) < time.Second {
			t.Errorf("the one of 2 s: %+v after %v", e, time.Since(begun))
		}
		if err := long.Input(t.Context(), []byte("x\n")); err != nil {
			t.Error(err)
		}
		if e := s.over(long); e.Status != Exited || e.Code != 3 || e.Took > time.Minute {
			t.Errorf("the one of an hour: %+v", e)
		}
		b.Close()
	}
}
