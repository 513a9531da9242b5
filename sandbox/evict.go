package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// DefaultGrace is how long a client may be silent before its idle boxes make room for
// those of another principal: longer than a model thinks between two calls, and shorter
// than a user waits for a box.
const DefaultGrace = 2 * time.Minute

// An eviction says which box may be stopped so that an owner can have another one. A box
// in which something runs, and a persistent one, never is.
type eviction struct {
	grace time.Duration                                // of clients of other principals
	any   bool                                         // the box that was idle for longest, whichever client it belongs to
	inUse func(owner Owner, within time.Duration) bool // see Manager.InUse; nil: the idle time of the box decides
}

// evict stops the box of the lowest rank that was idle for longest, and reports false if
// no box may be stopped. The caller holds s.mu.
func (s *boxes) evict(owner Owner, most int, rules eviction) bool {
	var found *Box
	var since time.Time
	lowest := never
	for _, b := range s.byID {
		at, idle := b.idle()
		if !idle || b.reattachTimeout > 0 {
			continue
		}
		if r := rules.rank(owner, b, at); r < lowest || r == lowest && r < never && at.Before(since) {
			found, since, lowest = b, at, r
		}
	}
	if found == nil {
		return false
	}
	found.retire(fmt.Errorf("a call needed another box, max_boxes is %d, and this box had been idle for %v", most, age(since)))
	return true
}

// Ranks of boxes that are evicted, in order.
const (
	sibling   = iota // of another session of the principal that needs one
	abandoned        // of another principal, whose client is silent
	idlest           // of any client
	never
)

// rank returns the rank of a box that has been idle since then.
func (e eviction) rank(owner Owner, b *Box, since time.Time) int {
	kin := b.owner.Principal == owner.Principal
	switch {
	case kin && b.owner != owner && !e.active(b.owner, since, 0):
		return sibling
	case !kin && !e.active(b.owner, since, e.grace):
		return abandoned
	case e.any:
		return idlest
	}
	return never
}

// active reports whether the client of a box that has been idle since then is there: it
// has an open request, or was heard of within a time.
func (e eviction) active(owner Owner, since time.Time, within time.Duration) bool {
	return time.Since(since) < within || e.inUse != nil && e.inUse(owner, within)
}

// full says that no more boxes may run, and which of them are the owner's. The caller
// holds s.mu.
func (s *boxes) full(owner Owner) error {
	var mine []*Box
	for _, b := range s.byID {
		if owner.reaches(b.owner) && b.Gone() == nil {
			mine = append(mine, b)
		}
	}
	slices.SortFunc(mine, oldestFirst)
	var list []string
	for _, b := range mine {
		list = append(list, b.describe())
	}
	all := s.count()
	if others := all - len(mine); others > 0 {
		list = append(list, fmt.Sprintf("%d of other clients or just starting", others))
	}
	hint := "Stop a box that you no longer need."
	if len(mine) == 0 {
		hint = "None of them can make room: other clients use them, run something in them, or keep them. Try again in some minutes, or have the owner of the server raise max_boxes."
	}
	return Errorf(LimitReached, hint, "%s, and max_boxes allows no more: %s", running(all), strings.Join(list, ", "))
}

func running(boxes int) string {
	if boxes == 1 {
		return "1 box runs"
	}
	return fmt.Sprintf("%d boxes run", boxes)
}
