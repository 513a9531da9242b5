package sandbox

import (
	"cmp"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostcode"
)

// Pool says how many boxes are started before a call wants one. Such a spare box
// goes to one owner and is never reused: what one owner has left in it no other sees.
type Pool struct {
	Warm   int           // spare boxes of the default image, and of each of Images; 0: none
	Images []string      // besides the default one; all must be allowed
	Max    int           // spare boxes at most, however many are wanted; 0: DefaultMaxWarm
	Idle   time.Duration // without a start, after which there are none any more; 0: never
	Life   time.Duration // after which a spare box is replaced by one of what its image is by then; 0: never
	Uses   int           // commands, after which an owner's own box is replaced as soon as nothing runs in it; 0: never
}

// DefaultMaxWarm is how many spare boxes there are at most: what a burst of starts
// can use, and half of DefaultMaxBoxes.
const DefaultMaxWarm = 8

const (
	// demandTime is how long a burst of starts is remembered: so many boxes as
	// were wanted in a second of it are kept ready for the next one.
	demandTime = 30 * time.Second

	// maxDemand bounds what is remembered.
	maxDemand = 256

	// parallelFill is how many spare boxes are started at once. Commands run in other
	// boxes meanwhile.
	parallelFill = 2

	// fillTime bounds one start. An engine that hangs has other things to do.
	fillTime = time.Minute

	// The pauses between two attempts where boxes do not start.
	firstRetry = time.Second
	lastRetry  = time.Minute

	// pingTimeout is how long a spare box may take to answer before it is handed over.
	// One that has run for hours may have died unnoticed.
	pingTimeout = 500 * time.Millisecond
)

// A pool keeps spare boxes. Its zero value has none until open.
type pool struct {
	host poolHost      // set by open
	wake chan struct{} // has a token when there is something to do; made by open

	mu      sync.Mutex
	config  Pool
	opened  bool
	closed  bool
	ready   []*spareBox // the oldest first
	filling []string    // images of the boxes that are just starting
	demand  []demand    // the last ones
	touched time.Time   // when a box was last wanted, or a client came
	hits    int64       // how often a spare box was there
	misses  int64
	pause   time.Duration // after the last failure; 0 where there was none
	retry   time.Time     // not before
}

// A poolHost is what a pool needs of its Manager. The functions stay, since only the
// Manager knows how a box is started and how many may run.
type poolHost struct {
	image string // the default one
	tasks *tasks
	log   *slog.Logger

	start func(ctx context.Context, image string) (*spareBox, error)
	room  func() int // how many more boxes may run, spare ones not counted; called with the pool's mu held
}

// A spareBox is a box of the pool, which has no owner until Box.assign.
type spareBox struct {
	*Box
	image     string                 // as its Spec has it
	workspace os.FileInfo            // that was there when it started; nil for a workspace of its own
	begun     int64                  // number of commands that had begun when its workspace was scanned, or unsettled
	before    map[string]fs.FileInfo // what was at its protected paths then
	claimed   chan struct{}          // closed when it has left the pool
}

// unsettled takes the place of a number of commands that have begun while one of them, or
// a process that it left behind, may still run and change the workspace.
const unsettled = -1

// hasWorkspace reports whether the box has what lies at a path now. A directory
// that was deleted, and made again since, is another one.
func (s *spareBox) hasWorkspace(path string) bool {
	if s.workspace == nil {
		return true
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, s.workspace)
}

// protects reports whether the box has all protected that one has which starts now.
// The whole workspace is scanned only where a command can have changed it since the
// box was started.
func (s *spareBox) protects(scan func() hostcode.Found) bool {
	if s.watcher == nil {
		return true
	}
	return s.watcher.unchanged(s.before) && (s.begun == s.activity.begun.Load() || s.watcher.knows(scan()))
}

type demand struct {
	image string
	at    time.Time
}

// open starts the pool for the first client, and records that one is there.
func (p *pool) open(config Pool, host poolHost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if !p.opened {
		p.opened, p.config, p.host, p.wake = true, config, host, make(chan struct{}, 1)
		p.config.Max = cmp.Or(max(0, config.Max), DefaultMaxWarm)
		host.tasks.run(p.run)
	}
	p.touch()
}

// close returns the spare boxes, and starts no more.
func (p *pool) close() (list []*Box) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.ready {
		list = append(list, s.Box)
	}
	p.ready = nil
	return list
}

// touch records that a box was wanted, or that a client came. The caller holds p.mu.
func (p *pool) touch() {
	p.touched = time.Now()
	p.look()
}

// look has the pool settled. The caller need not hold p.mu.
func (p *pool) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run starts boxes and ends them, as they are wanted, until ctx ends.
func (p *pool) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := p.settle()
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// settle brings the pool to what is wanted now, and returns when to settle it again:
// 0 where nothing changes by itself.
func (p *pool) settle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	now := time.Now()
	for _, b := range p.surplus(now) {
		p.host.tasks.fork(b.end)
	}
	for _, image := range p.wanted(now) {
		room := p.host.room() - len(p.ready) - len(p.filling)
		if now.Before(p.retry) || len(p.filling) >= parallelFill || room <= 0 {
			break
		}
		p.filling = append(p.filling, image)
		p.host.tasks.fork(func(ctx context.Context) { p.fill(ctx, image) })
	}
	return p.next(now)
}

// fill starts one spare box.
func (p *pool) fill(ctx context.Context, image string) {
	ctx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	spare, err := p.host.start(ctx, image)
	if err != nil && ctx.Err() == nil {
		p.host.log.Warn("cannot start a spare box", "image", image, "err", err)
	}
	p.filled(image, spare, err)
}

// filled adds a spare box that was started, or records the failure.
func (p *pool) filled(image string, spare *spareBox, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.filling, image)
	p.filling = slices.Delete(p.filling, i, i+1)
	defer p.look()
	switch {
	case err != nil:
		p.pause = min(max(2*p.pause, firstRetry), lastRetry)
		p.retry = time.Now().Add(p.pause)
	case p.closed:
		p.host.tasks.fork(spare.end)
	default:
		p.forgive()
		p.ready = append(p.ready, spare)
		p.host.tasks.fork(func(context.Context) { p.watch(spare) })
	}
}

// started records that a box started for a caller: one can start for the pool too.
func (p *pool) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opened {
		p.forgive()
	}
}

// forgive forgets that boxes did not start. The caller holds p.mu.
func (p *pool) forgive() {
	if p.pause > 0 {
		p.pause, p.retry = 0, time.Time{}
		p.look()
	}
}

// watch removes a spare box that ends in the pool.
func (p *pool) watch(spare *spareBox) {
	select {
	case <-spare.Done():
	case <-spare.claimed:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = slices.DeleteFunc(p.ready, func(s *spareBox) bool { return s == spare })
	p.look()
}

// claim takes the oldest spare box of an image that is usable, and records that one
// was wanted. It returns nil where there is none.
func (p *pool) claim(image string, usable func(*spareBox) bool) *Box {
	if !p.isOpen() {
		return nil
	}
	for {
		spare := p.pop(image)
		if spare == nil {
			p.want(image, false)
			return nil
		}
		if usable(spare) {
			p.want(image, true)
			return spare.Box
		}
		p.host.tasks.fork(spare.end)
	}
}

func (p *pool) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// pop removes the oldest spare box of an image, nil where there is none.
func (p *pool) pop(image string) *spareBox {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.ready, func(s *spareBox) bool { return s.image == image && s.Gone() == nil })
	if i < 0 {
		return nil
	}
	spare := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	close(spare.claimed)
	return spare
}

// want records that a box of an image was wanted, and whether one was there.
func (p *pool) want(image string, hit bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if hit {
		p.hits++
	} else {
		p.misses++
	}
	if len(p.demand) == maxDemand {
		p.demand = slices.Delete(p.demand, 0, 1)
	}
	p.demand = append(p.demand, demand{image, time.Now()})
	p.touch()
}

// figures counts the spare boxes, those that are starting, and how often one was there
// for a call that wanted it or was not.
func (p *pool) figures() (ready, starting int, hits, misses int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ready), len(p.filling), p.hits, p.misses
}

// goal is how many spare boxes of an image are wanted: the usual number, or so many as
// calls wanted in the busiest second of late.
func (p *pool) goal(image string, now time.Time) int {
	if p.config.Idle > 0 && now.Sub(p.touched) >= p.config.Idle {
		return 0
	}
	peak := 0
	var second []time.Time // those of the second before d
	for _, d := range p.demand {
		if d.image != image {
			continue
		}
		second = append(second, d.at)
		for d.at.Sub(second[0]) > time.Second {
			second = second[1:]
		}
		peak = max(peak, len(second))
	}
	return min(max(p.config.Warm, peak), p.config.Max)
}

func (p *pool) images() []string {
	return slices.Compact(append([]string{p.host.image}, p.config.Images...))
}

// wanted lists an image once for each box of it that is missing, those of the
// default image first.
func (p *pool) wanted(now time.Time) (list []string) {
	for _, image := range p.images() {
		missing := p.goal(image, now) - p.count(image)
		room := p.config.Max - len(p.ready) - len(p.filling) - len(list)
		for range min(missing, room) {
			list = append(list, image)
		}
	}
	return list
}

// count returns how many spare boxes of an image there are or are starting.
func (p *pool) count(image string) (n int) {
	for _, w := range p.ready {
		if w.image == image {
			n++
		}
	}
	for _, f := range p.filling {
		if f == image {
			n++
		}
	}
	return n
}

// surplus removes the spare boxes that are too many or too old.
func (p *pool) surplus(now time.Time) (list []*Box) {
	p.demand = slices.DeleteFunc(p.demand, func(d demand) bool { return now.Sub(d.at) >= demandTime })
	many := map[string]int{}
	for _, image := range p.images() {
		many[image] = p.count(image) - p.goal(image, now)
	}
	p.ready = slices.DeleteFunc(p.ready, func(w *spareBox) bool {
		out := many[w.image] > 0 || p.config.Life > 0 && now.Sub(w.Started) >= p.config.Life
		if out {
			many[w.image]--
			list = append(list, w.Box)
		}
		return out
	})
	return list
}

// next returns when the pool is to be settled by time: 0 where it is not.
func (p *pool) next(now time.Time) time.Duration {
	var at []time.Time
	if now.Before(p.retry) {
		at = append(at, p.retry)
	}
	if len(p.demand) > 0 {
		at = append(at, p.demand[0].at.Add(demandTime))
	}
	if p.config.Life > 0 && len(p.ready) > 0 {
		at = append(at, p.ready[0].Started.Add(p.config.Life))
	}
	if p.config.Idle > 0 && len(p.ready) > 0 {
		at = append(at, p.touched.Add(p.config.Idle))
	}
	if len(at) == 0 {
		return 0
	}
	return max(time.Millisecond, slices.MinFunc(at, time.Time.Compare).Sub(now))
}
