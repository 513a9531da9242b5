package sandbox

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostcode"
)

// Pool says how many boxes stand ready before anybody asks for one. A box goes
// to one owner and never comes back: what one has left in it no other sees.
type Pool struct {
	Warm   int           // boxes of the default image, and of each of Images; 0: none stands ready
	Images []string      // besides the default one; all must be allowed
	Max    int           // boxes that stand ready however many are asked for; 0: DefaultMaxWarm
	Idle   time.Duration // without a start, after which none stands any more; 0: never
	Life   time.Duration // after which a box is replaced by one of what its image is by then; 0: never
	Uses   int           // commands, after which an owner's own box is replaced as soon as nothing runs in it; 0: never
}

// DefaultMaxWarm is how many boxes stand ready at most: what a burst of starts
// can use, and half of DefaultMaxBoxes.
const DefaultMaxWarm = 8

const (
	// demandTime is how long a burst of starts is remembered: so many boxes as
	// were wanted in a second of it stand ready for the next one.
	demandTime = 30 * time.Second

	// maxDemand bounds what is remembered.
	maxDemand = 256

	// parallelFill is how many boxes are started ahead at once. Somebody works
	// in the others meanwhile.
	parallelFill = 2

	// fillTime bounds one start. An engine that hangs has other things to do.
	fillTime = time.Minute

	// The pauses between two attempts where boxes do not start.
	firstRetry = time.Second
	lastRetry  = time.Minute

	// pingTime is how long a box that is to be handed over may take to answer.
	// One that stood for hours may be dead without having been seen to die.
	pingTime = 500 * time.Millisecond
)

// A pool keeps warm boxes. All of it is guarded by the Manager's mu.
type pool struct {
	Pool
	wake    chan struct{} // has a token when there is something to look at
	ready   []warmBox     // the oldest first
	filling []string      // images of the boxes that are just starting
	demand  []demand      // the last ones
	touched time.Time     // when a box was last wanted, or a client came
	hits    int64         // how often one was there
	misses  int64
	pause   time.Duration // after the last failure; 0 where there was none
	retry   time.Time     // not before
}

type warmBox struct {
	*Box
	image     string                 // as its Spec has it
	workspace os.FileInfo            // that was there when it started; nil for a workspace of its own
	begun     int64                  // commands that had begun when its workspace was looked at; unsettled where one of them may have gone on
	before    map[string]fs.FileInfo // what was at its protected paths then
}

// hasWorkspace reports whether the box has what lies at a path now. A directory
// that was deleted, and made again since, is another one.
func (w warmBox) hasWorkspace(path string) bool {
	if w.workspace == nil {
		return true
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(now, w.workspace)
}

type demand struct {
	image string
	at    time.Time
}

// Warm tells the Manager that a client of an owner is there: from now on boxes stand
// ready, and those that its principal kept come back. It does not wait for them. It
// costs next to nothing to call it again.
func (m *Manager) Warm(owner Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if who := owner.Principal; m.met[who] == nil {
		if m.met == nil {
			m.met = map[string]chan struct{}{}
		}
		back := make(chan struct{})
		m.met[who] = back
		m.tend(func(ctx context.Context) {
			defer close(back)
			m.comeBack(ctx, owner)
		})
	}
	if m.Pool.Warm <= 0 {
		return
	}
	if m.pool == nil {
		m.pool = &pool{Pool: m.Pool, wake: make(chan struct{}, 1)}
		m.pool.Max = cmp.Or(max(0, m.pool.Max), DefaultMaxWarm)
		m.tend(m.tendPool)
	}
	m.pool.touch()
}

func (p *pool) touch() {
	p.touched = time.Now()
	p.look()
}

// look has the pool looked after. The caller need not hold the lock.
func (p *pool) look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// tendPool starts boxes and ends them, as they are wanted, until ctx ends.
func (m *Manager) tendPool(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := m.settlePool(ctx)
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-m.pool.wake:
		case <-timer.C:
		}
	}
}

// settlePool brings the pool to what is wanted now, and returns when to look
// again: 0 where nothing changes by itself.
func (m *Manager) settlePool(ctx context.Context) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0
	}
	p, now := m.pool, time.Now()
	for _, b := range p.surplus(now, m.Defaults.Image) {
		m.pending.Go(b.Close)
	}
	for _, image := range p.wanted(now, m.Defaults.Image) {
		if now.Before(p.retry) || len(p.filling) >= parallelFill || m.room() <= 0 {
			break
		}
		p.filling = append(p.filling, image)
		m.pending.Go(func() { m.fill(ctx, image) })
	}
	return p.next(now)
}

// room returns how many more boxes may stand, those that stand ready counted.
// The caller holds m.mu.
func (m *Manager) room() int {
	n := m.maxBoxes() - m.standing()
	if m.pool != nil {
		n -= len(m.pool.ready) + len(m.pool.filling)
	}
	return n
}

// fill starts one box ahead.
func (m *Manager) fill(ctx context.Context, image string) {
	ctx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	spec, err := m.spec(Request{Image: image})
	var box *Box
	var workspace os.FileInfo
	var before map[string]fs.FileInfo
	begun := m.begun()
	if err == nil {
		if spec.Workspace != "" {
			workspace, _ = os.Stat(spec.Workspace) // where it is not there no box starts
			paths, _ := Protected(spec.Protect)
			before = lstat(spec.Workspace, paths)
		}
		box, err = m.launch(ctx, spec)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool
	p.filling = slices.Delete(p.filling, slices.Index(p.filling, image), slices.Index(p.filling, image)+1)
	defer p.look()
	switch {
	case err != nil && ctx.Err() == nil:
		m.logger().Warn("no box could be started ahead", "image", spec.Image, "err", err)
		fallthrough
	case err != nil:
		p.pause = min(max(2*p.pause, firstRetry), lastRetry)
		p.retry = time.Now().Add(p.pause)
	case m.closed:
		m.pending.Go(box.Close)
	default:
		p.forgive()
		p.ready = append(p.ready, warmBox{box, image, workspace, begun, before})
		m.pending.Go(func() { m.watchWarm(box) })
	}
}

// forgive forgets that boxes did not start: one did.
func (p *pool) forgive() {
	if p.pause > 0 {
		p.pause, p.retry = 0, time.Time{}
		p.look()
	}
}

// watchWarm forgets a box that ends while it stands ready, and leaves it alone
// once it has an owner.
func (m *Manager) watchWarm(box *Box) {
	select {
	case <-box.Done():
	case <-box.owned:
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool.ready = slices.DeleteFunc(m.pool.ready, func(w warmBox) bool { return w.Box == box })
	m.pool.look()
}

// takeWarm returns a box that stands ready and is as it was when it started, or
// nil, and notes that one was wanted.
func (m *Manager) takeWarm(ctx context.Context, req Request) *Box {
	if len(req.Env) > 0 || req.Persistent {
		return nil // no box that stands was made so
	}
	image := cmp.Or(req.Image, m.Defaults.Image)
	look := sync.OnceValue(func() hostcode.Found { return ScanWorkspace(m.Defaults.Workspace, m.Defaults.Protect) })
	for {
		w, ok := m.popWarm(image)
		if !ok || w.hasWorkspace(m.Defaults.Workspace) && m.protects(w, look) && w.link.Answers(ctx, pingTime) {
			m.tally(image, ok)
			return w.Box
		}
		m.pending.Go(w.Close)
	}
}

// protects reports whether a box that stands has all protected that one has which
// starts now. The whole workspace is looked at only where a command can have changed
// it since that box was started.
func (m *Manager) protects(w warmBox, look func() hostcode.Found) bool {
	if w.lookout == nil {
		return true
	}
	return w.lookout.stands(w.before) && (w.begun == m.deeds.begun.Load() || w.lookout.knows(look()))
}

// deeds are what commands have done in all boxes of a Manager.
type deeds struct {
	begun atomic.Int64 // commands
	left  atomic.Bool  // processes may go on though their commands have ended
}

func (d *deeds) begin() {
	if d != nil {
		d.begun.Add(1)
	}
}

func (d *deeds) goOn() {
	if d != nil {
		d.left.Store(true)
	}
}

// unsettled is no number of commands.
const unsettled = -1

// begun returns how many commands have begun, or unsettled where anything of them may
// go on.
func (m *Manager) begun() int64 {
	n := m.deeds.begun.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.boxes {
		if t.box.busy() {
			return unsettled
		}
	}
	if m.deeds.left.Load() {
		return unsettled
	}
	return n
}

// popWarm takes the oldest box of an image.
func (m *Manager) popWarm(image string) (w warmBox, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool
	if p == nil {
		return w, false
	}
	i := slices.IndexFunc(p.ready, func(w warmBox) bool { return w.image == image && w.Gone() == nil })
	if i < 0 {
		return w, false
	}
	w = p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	close(w.owned)
	return w, true
}

// tally notes that a box of an image was wanted, and whether one was there.
func (m *Manager) tally(image string, hit bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool
	switch {
	case p == nil:
		return
	case hit:
		p.hits++
	default:
		p.misses++
	}
	p.want(image)
}

func (p *pool) want(image string) {
	if len(p.demand) == maxDemand {
		p.demand = slices.Delete(p.demand, 0, 1)
	}
	p.demand = append(p.demand, demand{image, time.Now()})
	p.touch()
}

// goal is how many boxes of an image shall stand ready: the usual number, or so
// many as were wanted in the worst second of late.
func (p *pool) goal(image string, now time.Time) int {
	if p.Idle > 0 && now.Sub(p.touched) >= p.Idle {
		return 0
	}
	peak := 0
	var second []time.Time // those of the second up to the one looked at
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
	return min(max(p.Warm, peak), p.Max)
}

func (p *pool) images(standard string) []string {
	return slices.Compact(append([]string{standard}, p.Images...))
}

// wanted lists an image once for each box of it that is missing, those of the
// default image first.
func (p *pool) wanted(now time.Time, standard string) (list []string) {
	for _, image := range p.images(standard) {
		missing := p.goal(image, now) - p.count(image)
		room := p.Max - len(p.ready) - len(p.filling) - len(list)
		for range min(missing, room) {
			list = append(list, image)
		}
	}
	return list
}

// count returns how many boxes of an image stand ready or are about to.
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

// surplus takes those out that are too many or too old.
func (p *pool) surplus(now time.Time, standard string) (list []*Box) {
	p.demand = slices.DeleteFunc(p.demand, func(d demand) bool { return now.Sub(d.at) >= demandTime })
	many := map[string]int{}
	for _, image := range p.images(standard) {
		many[image] = p.count(image) - p.goal(image, now)
	}
	p.ready = slices.DeleteFunc(p.ready, func(w warmBox) bool {
		out := many[w.image] > 0 || p.Life > 0 && now.Sub(w.Started) >= p.Life
		if out {
			many[w.image]--
			list = append(list, w.Box)
		}
		return out
	})
	return list
}

// next returns how long nothing changes by itself.
func (p *pool) next(now time.Time) time.Duration {
	var at []time.Time
	if now.Before(p.retry) {
		at = append(at, p.retry)
	}
	if len(p.demand) > 0 {
		at = append(at, p.demand[0].at.Add(demandTime))
	}
	if p.Life > 0 && len(p.ready) > 0 {
		at = append(at, p.ready[0].Started.Add(p.Life))
	}
	if p.Idle > 0 && len(p.ready) > 0 {
		at = append(at, p.touched.Add(p.Idle))
	}
	if len(at) == 0 {
		return 0
	}
	return max(time.Millisecond, slices.MinFunc(at, time.Time.Compare).Sub(now))
}
