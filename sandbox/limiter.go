package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

const (
	// DefaultMaxRuns is how many commands of a Manager run at once where nothing
	// else is said.
	DefaultMaxRuns = 256

	// pidsPerRun is what a command is taken to need of a box's pids: a shell,
	// what it starts, and a few threads. A box of 512 has room for 64.
	pidsPerRun = 8

	// defaultPids stands for those of a box that has no limit.
	defaultPids = 512

	// maxQueue bounds the queue of a limiter.
	maxQueue = 64

	// stallTimeout is how long a queued command waits while no slot frees. The
	// commands that hold the slots are not short ones then, and the queued command is
	// refused.
	stallTimeout = 250 * time.Millisecond
)

// A limiter has a number of slots. Commands above it wait in a queue, first in, first
// out.
type limiter struct {
	slots int
	stall time.Duration // a stall timeout; 0: a queued command waits for its whole wait limit

	mu     sync.Mutex
	used   int             // slots
	freed  int             // how often a slot was freed
	queued []chan struct{} // the first in front; closed when the slot is acquired
}

// newLimiter returns a limiter of commands that do not depend on each other: a burst
// of short ones is queued, and a command that would wait for long is refused.
func newLimiter(slots int) *limiter { return &limiter{slots: slots, stall: stallTimeout} }

// runsOf is how many commands a box of so many pids runs at once.
func runsOf(pids int64) int {
	if pids <= 0 {
		pids = defaultPids
	}
	return int(max(1, pids/pidsPerRun))
}

// acquire takes a slot, at once or within the wait limit, and reports whether it did.
// A nil limiter admits everything.
func (l *limiter) acquire(ctx context.Context, wait time.Duration) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	if l.used < l.slots {
		l.used++
		l.mu.Unlock()
		return true
	}
	if wait <= 0 || len(l.queued) >= maxQueue {
		l.mu.Unlock()
		return false
	}
	turn := make(chan struct{})
	l.queued = append(l.queued, turn)
	l.mu.Unlock()
	l.await(ctx, turn, wait)
	return !l.dequeue(turn)
}

// await returns when turn is closed, when the time is over or when the queue stalls.
func (l *limiter) await(ctx context.Context, turn <-chan struct{}, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var tick <-chan time.Time
	if l.stall > 0 {
		ticker := time.NewTicker(l.stall)
		defer ticker.Stop()
		tick = ticker.C
	}
	for before := l.releases(); ; {
		select {
		case <-turn:
			return
		case <-ctx.Done():
			return
		case <-tick:
			now := l.releases()
			if now == before {
				return
			}
			before = now
		}
	}
}

func (l *limiter) releases() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.freed
}

// dequeue removes a command from the queue, and reports false if it has acquired its
// slot meanwhile.
func (l *limiter) dequeue(turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queued, turn)
	if i >= 0 {
		l.queued = slices.Delete(l.queued, i, i+1)
	}
	return i >= 0
}

// release frees a slot for the first command in the queue.
func (l *limiter) release() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed++
	l.used--
	if len(l.queued) == 0 || l.used >= l.slots {
		return
	}
	l.used++
	close(l.queued[0])
	l.queued = slices.Delete(l.queued, 0, 1)
}

// force takes a slot even where none is free: for a command that runs already.
func (l *limiter) force() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used++
}

// slots are those that a run holds, of each limiter that counts it.
type slots struct {
	shell *limiter // of its named shell, nil where it has none
	box   *limiter
	all   *limiter // of all boxes
}

// releaseShell frees the slot of the shell.
func (s slots) releaseShell() { s.shell.release() }

// release frees all slots but that of the shell.
func (s slots) release() {
	s.box.release()
	s.all.release()
}

// force takes all slots, for a run that came with its box.
func (s slots) force() {
	s.shell.force()
	s.box.force()
	s.all.force()
}

// acquire takes a slot for a run in its box and among all boxes.
func (b *Box) acquire(ctx context.Context, wait time.Duration, held *slots) error {
	if !b.limiter.acquire(ctx, wait) {
		return cmp.Or(ctx.Err(), tooMany(b.records(), b.limiter.slots, "in box "+b.ID, "one for each 8 of exec.pids"))
	}
	if !b.allRuns.acquire(ctx, wait) {
		b.limiter.release()
		return cmp.Or(ctx.Err(), tooMany(b.history.list(b.owner), b.allRuns.slots, "of all clients", "exec.max_runs"))
	}
	held.box, held.all = b.limiter, b.allRuns
	return nil
}

// tooMany names the limit, and the running commands of the owner.
func tooMany(list []Record, most int, where, limit string) error {
	list = slices.DeleteFunc(list, func(r Record) bool { return r.Exit.Status != Running })
	slices.SortFunc(list, func(x, y Record) int { return x.Started.Compare(y.Started) })
	const named = 5
	var names []string
	for _, r := range list[:min(len(list), named)] {
		names = append(names, fmt.Sprintf("%s %s (%d s)", r.ID, strconv.Quote(excerpt.Clip(r.Cmd, 40)), int(r.Exit.Took.Seconds())))
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return Errorf(LimitReached, "Wait until a command has ended (logs with waitSeconds), or end one with stop and its execId.",
		"at most %s %s can run at the same time (%s); yours: %s",
		excerpt.Count(int64(most), "command"), where, limit, cmp.Or(strings.Join(names, ", "), "none"))
}
