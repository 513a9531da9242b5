package rawlog

import (
	"slices"
	"time"
)

const (
	// minSetting is the smallest change of the clock that counts as one. Logs are
	// stored for days.
	minSetting = time.Minute

	// maxSettings bounds the remembered changes: a machine that sleeps every night
	// seems to set its clock every morning.
	maxSettings = 32
)

// An ager computes the age of files from their modification times, although the
// wall clock may be set at any time, by hours or by years. It compares the wall
// clock with the monotonic clock and so knows each setting of the clock during this
// program's life. Of all settings it assumes the one that makes a file youngest. So
// no file counts as older than it is, and one counts as younger by at most the
// amount that the clock was set.
//
// Settings before the program began are unknown to it. The zero value is ready for
// use.
type ager struct {
	began    time.Time       // zero before the first observation
	settings []time.Duration // offsets of the wall clock from one that was never set; the last one is current
}

// observe records how the clock is set now. A file written between a setting and
// its observation has a time of an unknown clock.
func (a *ager) observe(now time.Time) {
	if a.began.IsZero() {
		a.began, a.settings = now, []time.Duration{0}
		return
	}
	shown := now.Round(0).Sub(a.began.Round(0))
	a.set(shown - now.Sub(a.began))
}

func (a *ager) set(ahead time.Duration) {
	if (ahead - a.settings[len(a.settings)-1]).Abs() < minSetting {
		return
	}
	a.settings = append(a.settings, ahead)
	if len(a.settings) > maxSettings {
		a.settings = slices.Delete(a.settings, 0, 1)
	}
}

// age returns the age of a file, 0 if its time is in the future by every known
// setting.
func (a *ager) age(now, modified time.Time) time.Duration {
	unset := a.began.Round(0).Add(now.Sub(a.began))
	youngest, known := time.Duration(0), false
	for _, ahead := range a.settings {
		age := unset.Add(ahead).Sub(modified)
		if age >= 0 && (!known || age < youngest) {
			youngest, known = age, true
		}
	}
	return youngest
}
