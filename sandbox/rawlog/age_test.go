package rawlog

import (
	"fmt"
	"testing"
	"time"
)

const year = 365 * 24 * time.Hour

// began returns an ager whose program has run for a while, by the monotonic clock.
func began(now time.Time, ago time.Duration) (a ager) {
	a.observe(now.Add(-ago))
	return a
}

func TestAgeIsTheYoungestOfAllSettings(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name  string
		set   []time.Duration // how far ahead the clock was, one after the other
		dated time.Duration   // before what it shows now
		want  time.Duration
	}{
		{"never set", nil, time.Hour, time.Hour},
		{"never set, of an earlier program", nil, 200 * time.Hour, 200 * time.Hour},
		{"a year ahead, written before", []time.Duration{year}, year + time.Hour, time.Hour},
		{"a year ahead, written since", []time.Duration{year}, time.Hour, time.Hour},
		{"a year ahead, of an earlier program", []time.Duration{year}, year + 200*time.Hour, 200 * time.Hour},
		{"a year back, written before", []time.Duration{-year}, time.Hour - year, time.Hour},
		{"a year back, written since", []time.Duration{-year}, time.Hour, time.Hour},
		{"ahead and back, written between", []time.Duration{year, 0}, time.Hour - year, time.Hour},
		{"back and ahead, written between", []time.Duration{-year, 0}, time.Hour + year, time.Hour},
		{"ahead unseen and back, written between", nil, time.Hour - year, 0},
		{"a night's sleep, written before", []time.Duration{8 * time.Hour}, 9 * time.Hour, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := began(now, 24*time.Hour)
			shows := time.Duration(0)
			for _, ahead := range c.set {
				a.set(ahead)
				shows = ahead
			}
			// The clock now shows a time that is shows ahead of now.
			if got := a.age(now, now.Round(0).Add(shows-c.dated)); got != c.want {
				t.Errorf("%v old, want %v", got, c.want)
			}
		})
	}
}

// The number of remembered settings is bounded, and small ones are ignored.
func TestSettingsAreBounded(t *testing.T) {
	a := began(time.Now(), time.Hour)
	for range 100 {
		a.observe(time.Now())
		a.set(minSetting - 1)
	}
	if len(a.settings) != 1 {
		t.Errorf("%d settings of a clock that was never set", len(a.settings))
	}
	for i := range 1000 {
		a.set(time.Duration(i+1) * time.Hour)
	}
	if n := len(a.settings); n != maxSettings || a.settings[n-1] != 1000*time.Hour {
		t.Errorf("%d settings, the last %v", n, a.settings[n-1])
	}
}

// setClock makes a store assume that the clock has just been set ahead, and changes
// the times of its files to ones written before. It cannot set the machine's clock.
// The store must not be in use by other goroutines.
func setClock(t *testing.T, s *Store, ahead time.Duration, execs ...string) {
	t.Helper()
	s.ages.observe(time.Now())
	s.ages.settings = append([]time.Duration{-ahead}, s.ages.settings...)
	for _, exec := range execs {
		age(t, s, exec, ahead)
	}
}

// When the clock is changed by a year, forward or back, no log is deleted as too old, and
// the newest log is not the first to be deleted.
func TestSetClockDeletesNothingEarly(t *testing.T) {
	for _, ahead := range []time.Duration{year, -year} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			s := &Store{Dir: t.TempDir(), MaxTotal: 250 << 10}
			for _, exec := range []string{"a", "b"} {
				log := s.Create(Meta{Exec: exec})
				log.Write(Stdout, make([]byte, 100<<10))
				log.Close()
			}
			setClock(t, s, ahead, "a", "b")
			if err := s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Head("b"); err != nil {
				t.Errorf("a log written just now: %v", err)
			}
			addRuns(t, s, 100<<10, "c")
			age(t, s, "a", ahead+2*time.Hour)
			if err := s.sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantRuns(t, s, "c", "b")
		})
	}
}
