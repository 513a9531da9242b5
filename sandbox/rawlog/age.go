package rawlog

import (
	"slices"
	"time"
)

const (
	// setBy is the least by which a clock must have been set to be noticed. Logs
	// are kept for days.
	setBy = time.Minute

	// maxSettings bounds what is remembered: a machine that sleeps every night
	// seems to set its clock every morning.
	maxSettings = 32
)

// An ager tells how old files are, whose dates are of a clock that somebody may
// set, by hours or by years. It knows how that clock was set in this program's
// life, by the clock that nobody sets, and of all settings it believes the one by
// which a file is youngest: so none is taken for older than it is. One may be
// taken for younger, by no more than the clock was set.
//
// How it was set before this program began nobody can tell it. Its zero value is
// ready for use.
type ager struct {
	began    time.Time       // zero before the first look
	settings []time.Duration // how far ahead the clock was of what it would show had nobody set it; the last one holds
}

// look takes note of how the clock is set now. What is written between a setting
// and the look that notices it is dated by a clock that is not known yet.
func (a *ager) look(now time.Time) {
	if a.began.IsZero() {
		a.began, a.settings = now, []time.Duration{0}
		return
	}
	shown := now.Round(0).Sub(a.began.Round(0))
	a.set(shown - now.Sub(a.began))
}

func (a *ager) set(ahead time.Duration) {
	if (ahead - a.settings[len(a.settings)-1]).Abs() < setBy {
		return
	}
	a.settings = append(a.settings, ahead)
	if len(a.settings) > maxSettings {
		a.settings = slices.Delete(a.settings, 0, 1)
	}
}

// age returns how old a file is, 0 where its date is in the future by all that is
// known.
func (a *ager) age(now, dated time.Time) time.Duration {
	unset := a.began.Round(0).Add(now.Sub(a.began))
	youngest, known := time.Duration(0), false
	for _, ahead := range a.settings {
		age := unset.Add(ahead).Sub(dated)
		if age >= 0 && (!known || age < youngest) {
			youngest, known = age, true
		}
	}
	return youngest
}
