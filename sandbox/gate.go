package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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

	// maxLine bounds how many runs wait for the end of others.
	maxLine = 64

	// standing is how long a crowd waits that does not move: those inside are no
	// short commands then, and who would wait is better told so.
	standing = 250 * time.Millisecond
)

// A gate lets so many runs go on at once, and those above wait in line.
type gate struct {
	most  int
	still time.Duration // how long a line waits that does not move; 0: for ever

	mu     sync.Mutex
	inside int
	left   int             // how many have left
	line   []chan struct{} // of those who wait, the first in front; closed to let one in
}

// enter lets a run in, at once or within its patience, or reports that it did
// not.
func (g *gate) enter(ctx context.Context, patience time.Duration) bool {
	g.mu.Lock()
	if g.inside < g.most {
		g.inside++
		g.mu.Unlock()
		return true
	}
	if patience <= 0 || len(g.line) >= maxLine {
		g.mu.Unlock()
		return false
	}
	turn := make(chan struct{})
	g.line = append(g.line, turn)
	g.mu.Unlock()
	g.await(ctx, turn, patience)
	return !g.giveUp(turn)
}

// await returns when its turn has come, or when it waits in vain.
func (g *gate) await(ctx context.Context, turn <-chan struct{}, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var look <-chan time.Time
	if g.still > 0 {
		ticker := time.NewTicker(g.still)
		defer ticker.Stop()
		look = ticker.C
	}
	for left := g.gone(); ; {
		select {
		case <-turn:
			return
		case <-ctx.Done():
			return
		case <-look:
			now := g.gone()
			if now == left {
				return
			}
			left = now
		}
	}
}

func (g *gate) gone() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.left
}

// giveUp leaves the line, unless its turn has come meanwhile.
func (g *gate) giveUp(turn chan struct{}) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.line, turn)
	if i >= 0 {
		g.line = slices.Delete(g.line, i, i+1)
	}
	return i >= 0
}

// leave gives a run's place to the first in line.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left++
	g.inside--
	if len(g.line) == 0 || g.inside >= g.most {
		return
	}
	g.inside++
	close(g.line[0])
	g.line = slices.Delete(g.line, 0, 1)
}

// squeeze lets a run in that was inside before there was a gate.
func (g *gate) squeeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
}

// crowdGate admits commands that have nothing to do with each other: a burst of
// short ones is served, and what would wait for long is refused.
func crowdGate(most int) *gate { return &gate{most: most, still: standing} }

// runsOf is how many commands a box of so many pids runs at once.
func runsOf(pids int64) int {
	if pids <= 0 {
		pids = defaultPids
	}
	return int(max(1, pids/pidsPerRun))
}

const (
	// sparePids and spareMemory are what a box has at least in which shells stand
	// ready: a few of them are a small part of it.
	sparePids   = 64
	spareMemory = 128 << 20
)

// sparesOf is how many shells stand ready in a box.
func sparesOf(spec Spec) int {
	if spec.Pids > 0 && spec.Pids < sparePids || spec.Memory > 0 && spec.Memory < spareMemory {
		return 0
	}
	return spec.Spares
}

// admit takes a place for a run in its box and in all boxes.
func (b *Box) admit(ctx context.Context, patience time.Duration) error {
	if !b.gate.enter(ctx, patience) {
		return cmp.Or(ctx.Err(), b.crowded(b.records(), b.gate.most, "in box "+b.ID))
	}
	if b.common != nil && !b.common.enter(ctx, patience) {
		b.gate.leave()
		return cmp.Or(ctx.Err(), b.crowded(b.history.list(b.owner), b.common.most, "of all clients"))
	}
	return nil
}

// dismiss gives back what admit took.
func (b *Box) dismiss() {
	b.gate.leave()
	if b.common != nil {
		b.common.leave()
	}
}

// crowded says which commands of the owner's stand in the way.
func (b *Box) crowded(list []Record, most int, where string) error {
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
	return Errorf(LimitReached, "Wait until one has ended (logs with waitSeconds), or end one with stop and its execId.",
		"%d commands run %s, and no more are allowed at once; yours: %s", most, where, strings.Join(names, ", "))
}

// records tells of the runs of a box.
func (b *Box) records() []Record {
	b.mu.Lock()
	runs := slices.Collect(maps.Values(b.runs))
	b.mu.Unlock()
	var list []Record
	for _, r := range runs {
		list = append(list, r.record())
	}
	return list
}
