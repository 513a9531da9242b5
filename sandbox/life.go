package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
)

// A box is idle while nothing runs in it, not even what a command left behind.
// touched says since when; a call that only looks at it counts as a use too.

func (b *Box) touch() {
	b.mu.Lock()
	b.touched = time.Now()
	b.mu.Unlock()
}

// idle returns since when the box is, false where it is not.
func (b *Box) idle() (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.touched, len(b.runs) == 0 && b.link.End().How == link.Open
}

// usedUp reports whether the box has run so many commands and none runs now.
func (b *Box) usedUp(uses int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.uses >= uses && len(b.runs) == 0
}

// retire stops a box for a reason that its owner is told when it asks for it.
// It does not wait.
func (m *Manager) retire(box *Box, why error) {
	m.logger().Info("box stopped", "box", box.ID, "why", why)
	box.link.Stop(why)
}

// awaitIdle has the boxes looked at when the first of them may have been idle
// for long enough. The caller holds m.mu.
func (m *Manager) awaitIdle() {
	if m.IdleTimeout <= 0 || m.closed || len(m.boxes) == 0 {
		return
	}
	next := time.Now().Add(m.IdleTimeout)
	for _, t := range m.boxes {
		if since, idle := t.box.idle(); idle && since.Add(m.idleFor(t.box)).Before(next) {
			next = since.Add(m.idleFor(t.box))
		}
	}
	wait := max(0, time.Until(next))
	if m.idleTimer == nil {
		m.idleTimer = time.AfterFunc(wait, m.retireIdle)
		return
	}
	m.idleTimer.Reset(wait)
}

// idleFor is how long a box may be idle. One that waits for a server for a day
// waits for its user as long.
func (m *Manager) idleFor(b *Box) time.Duration {
	if b.keepFor > 0 {
		return max(m.IdleTimeout, m.keepFor())
	}
	return m.IdleTimeout
}

func (m *Manager) retireIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.boxes {
		if since, idle := t.box.idle(); idle && time.Since(since) >= m.idleFor(t.box) {
			m.retire(t.box, fmt.Errorf("nobody used it for %v", m.idleFor(t.box)))
		}
	}
	m.awaitIdle()
}

// Stats says what a Manager has at the moment, and how often a box stood ready
// for who wanted one such.
type Stats struct {
	Boxes, Busy  int // that have an owner; those of them in which something runs
	Starting     int
	Ready        int
	Hits, Misses int64

	Runs    int              // that are not over
	Ended   map[Status]int64 // how many are, by how they ended
	Printed int64            // bytes, by all
}

// Stats returns the figures.
func (m *Manager) Stats() (s Stats) {
	s.Runs, s.Ended, s.Printed = m.history.figures()
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Boxes, s.Starting = m.standing()-m.starting, m.starting
	for _, t := range m.boxes {
		if _, idle := t.box.idle(); !idle && t.box.Gone() == nil {
			s.Busy++
		}
	}
	if p := m.pool; p != nil {
		s.Starting += len(p.filling)
		s.Ready, s.Hits, s.Misses = len(p.ready), p.hits, p.misses
	}
	return s
}

// evict makes room for one more box where the setting allows it and one is idle.
// The caller holds m.mu.
func (m *Manager) evict() bool {
	if !m.Evict {
		return false
	}
	var idlest *Box
	var since time.Time
	for _, t := range m.boxes {
		if at, idle := t.box.idle(); idle && t.box.keepFor <= 0 && (idlest == nil || at.Before(since)) {
			idlest, since = t.box, at
		}
	}
	if idlest == nil {
		return false
	}
	m.retire(idlest, fmt.Errorf("another box was wanted, %d are allowed, and it had been idle for longest", m.maxBoxes()))
	return true
}

// standing counts the boxes that have an owner, or are about to, without those
// that are going. The caller holds m.mu.
func (m *Manager) standing() int {
	n := m.starting
	for _, t := range m.boxes {
		if t.box.Gone() == nil {
			n++
		}
	}
	return n
}

// full says that no more boxes may stand, and which of them are the owner's. The
// caller holds m.mu.
func (m *Manager) full(owner Owner) error {
	var mine []*Box
	for _, t := range m.boxes {
		if owner.reaches(t.owner) && t.box.Gone() == nil {
			mine = append(mine, t.box)
		}
	}
	slices.SortFunc(mine, func(a, b *Box) int { return a.Started.Compare(b.Started) })
	var list []string
	for _, b := range mine {
		list = append(list, b.describe())
	}
	all := m.standing()
	if others := all - len(mine); others > 0 {
		list = append(list, fmt.Sprintf("%d of other clients or just starting", others))
	}
	return Errorf(LimitReached, "Stop one that you no longer need.",
		"%d boxes stand, and no more are allowed: %s", all, strings.Join(list, ", "))
}

// describe names a box as one that somebody may want to stop.
func (b *Box) describe() string {
	s := b.ID
	if b.Name != "" {
		s += fmt.Sprintf(" %q", b.Name)
	}
	since, idle := b.idle()
	if !idle {
		return s + fmt.Sprintf(" (started %v ago, at work)", age(b.Started))
	}
	return s + fmt.Sprintf(" (started %v ago, idle for %v)", age(b.Started), age(since))
}

func age(t time.Time) time.Duration { return time.Since(t).Round(time.Second) }
