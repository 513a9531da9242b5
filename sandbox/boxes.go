package sandbox

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

var errClosed error = Errorf(BoxGone, "Connect again.", "the server is shutting down")

// boxes are the boxes of a Manager that have an owner, and the places of those that
// are starting. The zero value is ready.
type boxes struct {
	claims claims // of calls that start a box or reattach to some

	mu        sync.Mutex
	byID      map[string]*Box
	ended     []endedBox      // the last ones, so that a late question is answered
	defaults  map[Owner]*Box  // by owner, the box that it gets without asking for one
	replaced  map[Owner]error // why its default box before that one is gone, until it is told
	late      []lateChanges   // of boxes that have ended
	starting  int
	closed    bool
	idleTimer *time.Timer // nil until a box may be idle for too long
}

type endedBox struct {
	id    string
	name  string // "" if its owner stopped it, or was told
	owner Owner
	why   error
}

// lateChanges are those in the workspace of a box that has ended.
type lateChanges struct {
	owner Owner
	Changes
}

// reserve takes a place for a box of an owner. Where most run, another box is evicted for
// it if the rules allow that.
func (s *boxes) reserve(owner Owner, most int, rules eviction) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.count() >= most && !s.evict(owner, most, rules) {
		return s.full(owner)
	}
	s.starting++
	return nil
}

// cancel gives back the place of a box that did not start.
func (s *boxes) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
}

// fill puts a box into the place that was reserved for it.
func (s *boxes) fill(b *Box) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	return s.add(b)
}

// reattached adds a box that came without a place.
func (s *boxes) reattached(b *Box) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(b)
}

// add adds a box. The caller holds s.mu.
func (s *boxes) add(b *Box) error {
	if s.closed {
		return errClosed
	}
	if s.byID == nil {
		s.byID = map[string]*Box{}
	}
	s.byID[b.ID] = b
	return nil
}

// count counts the boxes that have an owner, or are about to, without those that are
// ending. The caller holds s.mu.
func (s *boxes) count() int {
	n := s.starting
	for _, b := range s.byID {
		if b.Gone() == nil {
			n++
		}
	}
	return n
}

func oldestFirst(a, b *Box) int { return a.Started.Compare(b.Started) }

// find returns a box that the owner has.
func (s *boxes) find(owner Owner, id string) (*Box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.byID[id]; b != nil && owner.reaches(b.owner) {
		if err := b.Gone(); err != nil {
			return nil, err
		}
		b.touch()
		return b, nil
	}
	for _, e := range s.ended {
		if e.id == id && owner.reaches(e.owner) {
			return nil, e.why
		}
	}
	return nil, Errorf(BoxNotFound, "Use a containerId that start or exec returned, or leave containerId out.", "there is no box %q", id)
}

// current returns the newest Box of an id, also one that is to be reattached, or nil.
func (s *boxes) current(id string) *Box {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[id]
}

// named returns the box of a name: of two, the persistent one. An error says that there
// is none, but one that cannot be reached at the moment.
func (s *boxes) named(owner Owner, name string) (box *Box, unreachable error) {
	if name == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byID {
		if !owner.reaches(b.owner) || b.Name != name {
			continue
		}
		if b.Gone() == nil && (box == nil || b.reattachTimeout > 0) {
			box = b
		}
		if err := b.conn.unreachable(); err != nil {
			unreachable = err
		}
	}
	if box != nil {
		return box, nil
	}
	return nil, unreachable
}

// list returns what an owner has, the oldest first.
func (s *boxes) list(owner Owner) (list []*Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byID {
		if owner.reaches(b.owner) {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, oldestFirst)
	return list
}

// forget remembers of a box only why it is gone, and what changed in its workspace.
func (s *boxes) forget(b *Box, why error, changes Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLate(b.owner, changes)
	if s.byID[b.ID] == b {
		delete(s.byID, b.ID)
	}
	s.ended = slices.DeleteFunc(s.ended, func(e endedBox) bool { return e.id == b.ID })
	const remember = 256
	name := b.Name
	if b.conn.closedByOwner() {
		name = ""
	}
	s.ended = append(s.ended, endedBox{b.ID, name, b.owner, why})
	if len(s.ended) > remember {
		s.ended = slices.Delete(s.ended, 0, len(s.ended)-remember)
	}
}

// claimEnded returns why the owner's last box of a name is gone, once: nil if there was none, or
// if the owner stopped it.
func (s *boxes) claimEnded(owner Owner, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.ended) - 1; i >= 0 && name != ""; i-- {
		if e := &s.ended[i]; e.name == name && owner.reaches(e.owner) {
			e.name = ""
			return e.why
		}
	}
	return nil
}

// addLate records what changed in the workspace of a box that has ended. The caller
// holds s.mu.
func (s *boxes) addLate(owner Owner, changes Changes) {
	const most = 64
	if changes.None() {
		return
	}
	if len(s.late) == most {
		s.late = slices.Delete(s.late, 0, 1)
	}
	s.late = append(s.late, lateChanges{owner, changes})
}

// claimLate returns what changed in the workspaces of an owner's boxes that have ended,
// once.
func (s *boxes) claimLate(owner Owner) (changes Changes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = slices.DeleteFunc(s.late, func(l lateChanges) bool {
		if owner.reaches(l.owner) {
			changes.add(l.Changes)
			return true
		}
		return false
	})
	return changes
}

// defaultOf returns the box that an owner gets without asking for one, nil where there
// is none.
func (s *boxes) defaultOf(owner Owner) *Box {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.defaults[owner]; b != nil && b.Gone() == nil {
		return b
	}
	return nil
}

// setDefault sets that box; nil forgets it.
func (s *boxes) setDefault(owner Owner, b *Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil {
		delete(s.defaults, owner)
		delete(s.replaced, owner)
		return
	}
	if s.defaults == nil {
		s.defaults, s.replaced = map[Owner]*Box{}, map[Owner]error{}
	}
	if old := s.defaults[owner]; old != nil && !old.conn.closedByOwner() {
		s.replaced[owner] = old.Gone()
	}
	s.defaults[owner] = b
}

// claimReplaced returns why an owner's default box had to be replaced, once: nil if it was
// not, or if the owner stopped it.
func (s *boxes) claimReplaced(owner Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.replaced[owner]
	if why != nil {
		delete(s.replaced, owner)
	}
	return why
}

// figures counts the boxes that have an owner, those of them that are busy, and those
// that are starting.
func (s *boxes) figures() (boxes, busy, starting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byID {
		if _, idle := b.idle(); !idle && b.Gone() == nil {
			busy++
		}
	}
	return s.count() - s.starting, busy, s.starting
}

// room returns how many more boxes may run.
func (s *boxes) room(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return most - s.count()
}

// busy reports whether anything runs in any box.
func (s *boxes) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.byID {
		if b.busy() {
			return true
		}
	}
	return false
}

// close admits no more boxes, and returns those that are there.
func (s *boxes) close() (list []*Box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.idleTimer != nil {
		s.idleTimer.Stop()
	}
	for _, b := range s.byID {
		list = append(list, b)
	}
	return list
}

// stopIdle stops the boxes that are idle for too long, now and from now on. limit says
// how long a box may be idle; 0: for ever.
func (s *boxes) stopIdle(limit func(*Box) time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	var next time.Time // when the first box may have been idle for too long
	for _, b := range s.byID {
		most := limit(b)
		if most <= 0 {
			continue
		}
		due := time.Now().Add(most)
		if since, idle := b.idle(); idle {
			due = since.Add(most)
			if !time.Now().Before(due) {
				b.retire(fmt.Errorf("it was idle for %v", most))
				continue
			}
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	switch {
	case next.IsZero():
	case s.idleTimer == nil:
		s.idleTimer = time.AfterFunc(time.Until(next), func() { s.stopIdle(limit) })
	default:
		s.idleTimer.Reset(time.Until(next))
	}
}

// retire stops a box for a reason that a later call for the box reports. It does not
// wait.
func (b *Box) retire(why error) {
	b.logger.Info("box stopped", "why", why)
	b.conn.Stop(why)
}
