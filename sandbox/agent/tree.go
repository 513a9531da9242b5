//go:build linux

package agent

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// markName begins the variable that marks the processes of one run. It is
	// no secret, unlike the run's id: every command can read it.
	markName = "WARMBOX_RUN="
	markLen  = len(markName) + 16
)

// tree is what is known of the processes of one run. A process belongs to a
// run by any of three signs: its parent chain, its session, which it keeps when
// its parent dies, and the mark in the environment that it was started with. One
// that was seen to belong to a run does so for good.
//
// All but collateral is guarded by the agent's mu.
type tree struct {
	mark     string
	forker   int  // the thread of ours that started its shell
	pending  bool // its run has not said yet what it leaves behind
	sessions map[int]bool
	known    map[int]uint64 // start by pid

	collateral atomic.Bool // killed with the whole box, for another run's sake
}

func newTree() *tree {
	var b [8]byte
	rand.Read(b[:])
	return &tree{mark: markName + hex.EncodeToString(b[:]), pending: true, sessions: map[int]bool{}, known: map[int]uint64{}}
}

// census is one look at all processes that descend from the agent.
type census struct {
	procs  map[int]proc
	of     map[int]*tree // nil for a stray: it bears no sign of any run
	marked map[string]*tree
	trees  []*tree

	unsure bool // a young stray may yet show the mark of a run

	// unsettled says that the look may have missed a process: an orphan died
	// meanwhile, and what it had started became our child when the list of our
	// children was read already. A chain of forks is little but that.
	unsettled bool
}

// take looks at all processes below the agent and says whose they are. The
// caller holds a.mu, so no child of ours is half started.
func (a *Agent) take() *census {
	c := &census{procs: map[int]proc{}, of: map[int]*tree{}, marked: map[string]*tree{}, trees: a.trees}
	queue := a.children()
	for pid := range a.pids {
		queue = append(queue, pid)
	}
	for pid := range a.spares.all {
		queue = append(queue, pid)
		c.of[pid] = nil
	}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if _, seen := c.procs[pid]; seen || a.initial[pid] {
			continue
		}
		if p, ok := readProc(pid); ok {
			c.procs[pid] = p
			queue = append(queue, p.kids()...)
		}
	}
	for _, t := range a.trees {
		c.marked[t.mark] = t
	}
	for pid := range c.procs {
		c.owner(pid)
	}
	c.bury(a)
	strays := c.inherit(a)
	c.learn()
	c.prune(strays)
	a.trees = c.trees
	return c
}

// bury notes the dead, and whether one has died since the look before.
func (c *census) bury(a *Agent) {
	dead := map[int]uint64{}
	for pid, p := range c.procs {
		if !p.zombie || p.ppid != os.Getpid() || a.pids[pid] != nil || a.spares.all[pid] != nil {
			continue
		}
		dead[pid] = p.start
		c.unsettled = c.unsettled || a.dead[pid] != p.start
	}
	a.dead = dead
}

// inherit attributes strays to the only run, if there is just one, since no other can
// have started them. It reports whether any stray is left without a run.
func (c *census) inherit(a *Agent) (strays bool) {
	for pid, p := range c.procs {
		switch {
		case c.of[pid] != nil || c.spare(a, pid):
		case len(c.trees) == 1:
			c.of[pid] = c.trees[0]
		case !p.zombie:
			strays = true
		}
	}
	return strays
}

// spare reports whether a process is a spare shell or a descendant of one.
func (c *census) spare(a *Agent, pid int) bool {
	for range c.procs { // the table may have changed into a circle
		p, ok := c.procs[pid]
		if !ok {
			return false
		}
		if a.spares.all[pid] != nil {
			return true
		}
		pid = p.ppid
	}
	return false
}

// owner finds the tree of a process, and of those above it on the way.
func (c *census) owner(pid int) *tree {
	if t, done := c.of[pid]; done {
		return t
	}
	c.of[pid] = nil // ends the walk should the table have changed into a circle
	p := c.procs[pid]
	t := c.signed(p)
	if t == nil {
		if _, below := c.procs[p.ppid]; below {
			t = c.owner(p.ppid)
		} else if !p.zombie {
			mark, sure := p.mark()
			t = c.marked[mark]
			c.unsure = c.unsure || !sure && p.age() < young
		}
	}
	c.of[pid] = t
	return t
}

// signed looks for the signs that cost nothing.
func (c *census) signed(p proc) *tree {
	for _, t := range c.trees {
		if start, ok := t.known[p.pid]; ok && start == p.start || t.sessions[p.sid] {
			return t
		}
	}
	return nil
}

// learn remembers what was found, and forgets pids and sessions that are gone:
// the kernel gives their numbers away again.
func (c *census) learn() {
	for _, t := range c.trees {
		clear(t.known)
		clear(t.sessions)
	}
	for pid, t := range c.of {
		if t != nil {
			t.own(c.procs[pid])
		}
	}
}

// own notes a process of the tree.
func (t *tree) own(p proc) {
	t.known[p.pid] = p.start
	if p.sid != 0 { // a session that began outside our name space
		t.sessions[p.sid] = true
	}
}

// prune forgets the trees that have no process left and get no more. Where there are
// strays one stays, which has them from the next look on.
func (c *census) prune(strays bool) {
	if c.unsettled {
		return
	}
	left := slices.DeleteFunc(slices.Clone(c.trees), func(t *tree) bool { return !t.pending && len(t.known) == 0 })
	if len(left) == 0 && strays {
		left = c.trees[len(c.trees)-1:]
	}
	c.trees = left
}

// targets returns what is to be killed with a tree: its processes, and the
// strays, which have cleared their tracks on purpose. Zombies are dead.
func (c *census) targets(t *tree) (list []proc) {
	for pid, p := range c.procs {
		if !p.zombie && (c.of[pid] == t || c.of[pid] == nil) {
			list = append(list, p)
		}
	}
	return list
}

// alone reports whether all there is belongs to one tree.
func (c *census) alone(t *tree) bool {
	for pid, p := range c.procs {
		if o := c.of[pid]; o != nil && o != t && !p.zombie {
			return false
		}
	}
	return true
}

// leftover returns what still runs of a run whose shell has ended. It looks until a
// look can have missed nothing.
func (a *Agent) leftover(r *run) (list []wire.Proc) {
	a.checkLimits()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.adopted(map[int]bool{r.tree.forker: true}) {
		// Whatever a dead shell left would have become our child.
		a.forget(r.tree)
		return nil
	}
	c := a.take()
	list = c.living(r.tree)
	for range patience {
		if !c.unsure && (!c.unsettled || len(list) > 0) {
			return list
		}
		if c.unsure {
			a.mu.Unlock()
			time.Sleep(lookSoon)
			a.mu.Lock()
		}
		c = a.take()
		list = c.living(r.tree)
	}
	if len(list) == 0 { // it never stood still: its last dead stand for it
		for pid, p := range c.procs {
			if c.of[pid] == r.tree {
				list = append(list, wire.Proc{Pid: pid, Name: p.name})
			}
		}
	}
	return list
}

// living returns what runs of a tree.
func (c *census) living(t *tree) (list []wire.Proc) {
	for pid, p := range c.procs {
		if c.of[pid] == t && !p.zombie {
			list = append(list, wire.Proc{Pid: pid, Name: p.name})
		}
	}
	return list
}

// How long to look for the mark of a stray: what hides it for good, as what is
// just becoming another program does for a moment, is soon too old.
const (
	lookSoon = 2 * time.Millisecond
	patience = 500 // looks
	young    = 1   // second
)

// adopted reports whether any process has become our child, on the main thread or some
// others, that we did not start.
func (a *Agent) adopted(threads map[int]bool) bool {
	for _, pid := range childrenOn(threads) {
		if a.pids[pid] == nil && a.spares.all[pid] == nil && !a.initial[pid] {
			return true
		}
	}
	return false
}

// lookAgain is between two looks at what a run has left behind: a census of all
// processes takes a millisecond.
const lookAgain = 100 * time.Millisecond

// awaitGone waits until nothing of a tree is left whose shell has ended. The
// last of it is always our child when it dies.
func (a *Agent) awaitGone(t *tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := a.take(); slices.Contains(a.trees, t); c = a.take() {
		if !c.unsettled {
			a.orphans.Wait()
		}
		a.mu.Unlock()
		time.Sleep(lookAgain) // they often die in numbers
		a.mu.Lock()
	}
}

// settle lets a tree go as soon as it has no process: its run is over.
func (a *Agent) settle(t *tree) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.pending = false
	if len(t.known) == 0 {
		a.forget(t)
	}
}

func (a *Agent) forget(t *tree) {
	a.trees = slices.DeleteFunc(a.trees, func(other *tree) bool { return other == t })
}
