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
	// markName is the name of the variable that marks the processes of one run. Unlike
	// the run's id it is no secret: every command can read it.
	markName = "WARMBOX_RUN="
	markLen  = len(markName) + 16
)

// tree is what the agent knows of the processes of one run. A process belongs to a run by
// any of three signs: its parent chain; its session, which it keeps when its parent dies;
// and the mark in the environment that it was started with. A process that was once
// recognized as a run's stays that run's.
//
// The lock of processes guards all fields but collateral.
type tree struct {
	mark     string
	forker   int  // the agent's thread that started its shell
	pending  bool // the Exit of its run is not decided yet
	sessions map[int]bool
	known    map[int]uint64 // start times by pid

	collateral atomic.Bool // killed with the whole box, because another run was killed
}

func newTree() *tree {
	var b [8]byte
	rand.Read(b[:])
	return &tree{mark: markName + hex.EncodeToString(b[:]), pending: true, sessions: map[int]bool{}, known: map[int]uint64{}}
}

// census is the result of one scan of all processes that descend from the agent.
type census struct {
	procs  map[int]proc
	of     map[int]*tree // the owner; nil for a stray, which bears no sign of any run
	marked map[string]*tree
	trees  []*tree

	unsure bool // a young stray may still turn out to have the mark of a run

	// unsettled means that the scan may have missed a process: an orphan died meanwhile,
	// and its children became the agent's after the list of the agent's children had been
	// read. A chain of forks does little else.
	unsettled bool
}

// scan lists all processes below the agent and finds the run of each. The caller holds
// the lock, so no child of the agent is half started.
func (a *Agent) scan() *census {
	c := &census{procs: map[int]proc{}, of: map[int]*tree{}, marked: map[string]*tree{}, trees: a.procs.trees}
	queue := a.children()
	for pid := range a.procs.pids {
		queue = append(queue, pid)
	}
	for pid := range a.spares.all {
		queue = append(queue, pid)
		c.of[pid] = nil
	}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if _, seen := c.procs[pid]; seen || a.procs.initial[pid] {
			continue
		}
		if p, ok := readProc(pid); ok {
			c.procs[pid] = p
			queue = append(queue, p.kids()...)
		}
	}
	for _, t := range a.procs.trees {
		c.marked[t.mark] = t
	}
	for pid := range c.procs {
		c.owner(pid)
	}
	c.recordDead(a)
	strays := c.assignStrays(a)
	c.remember()
	c.prune(strays)
	a.procs.trees = c.trees
	return c
}

// lockedScan is scan for a caller that does not hold the lock.
func (a *Agent) lockedScan() (c *census) {
	a.procs.do(func() { c = a.scan() })
	return c
}

// recordDead records the zombies, and whether one has died since the last scan.
func (c *census) recordDead(a *Agent) {
	dead := map[int]uint64{}
	for pid, p := range c.procs {
		if !p.zombie || p.ppid != os.Getpid() || a.procs.pids[pid] != nil || a.spares.all[pid] != nil {
			continue
		}
		dead[pid] = p.start
		c.unsettled = c.unsettled || a.procs.dead[pid] != p.start
	}
	a.procs.dead = dead
}

// assignStrays assigns strays to the only run, if there is just one, since no other can
// have started them. It reports whether any stray remains.
func (c *census) assignStrays(a *Agent) (strays bool) {
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
	for range c.procs { // bounded: the table may have changed into a cycle
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

// owner finds the tree of a process and of its ancestors.
func (c *census) owner(pid int) *tree {
	if t, done := c.of[pid]; done {
		return t
	}
	c.of[pid] = nil // ends the walk if the table has changed into a cycle
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

// signed checks the signs that cost no system call.
func (c *census) signed(p proc) *tree {
	for _, t := range c.trees {
		if start, ok := t.known[p.pid]; ok && start == p.start || t.sessions[p.sid] {
			return t
		}
	}
	return nil
}

// remember records the processes that were found, and drops pids and sessions that are
// gone, since the kernel reuses their numbers.
func (c *census) remember() {
	for _, t := range c.trees {
		clear(t.known)
		clear(t.sessions)
	}
	for pid, t := range c.of {
		if t != nil {
			t.add(c.procs[pid])
		}
	}
}

// add records a process of the tree.
func (t *tree) add(p proc) {
	t.known[p.pid] = p.start
	if p.sid != 0 { // 0: a session that began outside the agent's name space
		t.sessions[p.sid] = true
	}
}

// prune drops the trees that have no process left and can get none. If there are strays
// one tree stays, which owns them from the next scan on.
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

// targets returns the processes to kill with a tree: its own, and the strays, which have
// hidden on purpose. Zombies are dead.
func (c *census) targets(t *tree) (list []proc) {
	for pid, p := range c.procs {
		if !p.zombie && (c.of[pid] == t || c.of[pid] == nil) {
			list = append(list, p)
		}
	}
	return list
}

// alone reports whether no other tree has a living process.
func (c *census) alone(t *tree) bool {
	for pid, p := range c.procs {
		if o := c.of[pid]; o != nil && o != t && !p.zombie {
			return false
		}
	}
	return true
}

// leftover returns the processes that still run after a run's shell has ended. It scans
// until a scan can have missed none.
func (a *Agent) leftover(r *run) (list []wire.Proc) {
	a.checkLimits()
	a.procs.do(func() { list = a.scanLeftover(r) })
	return list
}

// scanLeftover is leftover after the check of the limits. The caller holds the lock.
func (a *Agent) scanLeftover(r *run) (list []wire.Proc) {
	if !a.adopted(map[int]bool{r.tree.forker: true}) {
		// Whatever a dead shell left would have become the agent's child.
		a.forget(r.tree)
		return nil
	}
	c := a.scan()
	list = c.living(r.tree)
	for range maxRescans {
		if !c.unsure && (!c.unsettled || len(list) > 0) {
			return list
		}
		if c.unsure {
			a.procs.pause(rescanSoon)
		}
		c = a.scan()
		list = c.living(r.tree)
	}
	if len(list) == 0 { // the tree kept changing: report the zombies of the last scan
		for pid, p := range c.procs {
			if c.of[pid] == r.tree {
				list = append(list, wire.Proc{Pid: pid, Name: p.name})
			}
		}
	}
	return list
}

// living returns the running processes of a tree.
func (c *census) living(t *tree) (list []wire.Proc) {
	for pid, p := range c.procs {
		if c.of[pid] == t && !p.zombie {
			list = append(list, wire.Proc{Pid: pid, Name: p.name})
		}
	}
	return list
}

// How long to look for the mark of a stray. A process that is just executing another
// program shows no mark for a moment. One that hides its mark for good soon counts as
// old.
const (
	rescanSoon = 2 * time.Millisecond
	maxRescans = 500
	young      = 1 // second
)

// adopted reports whether the main thread or one of some others has a child that the
// agent did not start.
func (a *Agent) adopted(threads map[int]bool) bool {
	for _, pid := range childrenOn(threads) {
		if a.procs.pids[pid] == nil && a.spares.all[pid] == nil && !a.procs.initial[pid] {
			return true
		}
	}
	return false
}

// rescanInterval is the pause between two scans for what a run has left behind: a scan of
// all processes takes a millisecond.
const rescanInterval = 100 * time.Millisecond

// awaitGone waits until a tree whose shell has ended has no process left. The last one is
// always the agent's child when it dies.
func (a *Agent) awaitGone(t *tree) {
	a.procs.do(func() {
		for c := a.scan(); slices.Contains(a.procs.trees, t); c = a.scan() {
			if !c.unsettled {
				a.procs.orphans.Wait()
			}
			a.procs.pause(rescanInterval) // processes often die in groups
		}
	})
}

// settle marks that the Exit of the tree's run is decided, and drops a tree without processes.
func (a *Agent) settle(t *tree) {
	a.procs.do(func() {
		t.pending = false
		if len(t.known) == 0 {
			a.forget(t)
		}
	})
}

func (a *Agent) forget(t *tree) {
	a.procs.trees = slices.DeleteFunc(a.procs.trees, func(other *tree) bool { return other == t })
}
