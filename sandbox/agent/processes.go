//go:build linux

package agent

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// processes is what the agent knows of the processes that it started and of those that
// became its children. Its lock also guards the spare shells, and the directory and
// environment that they start with.
//
// While the lock is held no child of the agent is reaped, so the kernel reuses none of
// their pids, and no child is started, so a scan never sees one that is not registered.
// "The caller holds the lock" in a comment means that the function is called within do.
type processes struct {
	mu      sync.Mutex
	orphans sync.Cond // signals that a process left behind by a run has ended

	runs  map[wire.ID]*run // those that are not over
	begun int              // number of runs that have or had a shell
	pids  map[int]*run     // by their shell's pid, until it is reaped
	trees []*tree          // of the runs that have a process left
	dead  map[int]uint64   // start times of the zombies of the last scan, by pid

	initial map[int]bool // children that existed before the agent started any
	forkers map[int]bool // the agent's threads that have started a process
	forker  int          // the one that started the last process
}

func newProcesses() *processes {
	p := &processes{runs: map[wire.ID]*run{}, pids: map[int]*run{}, initial: map[int]bool{}, forkers: map[int]bool{}}
	p.orphans.L = &p.mu
	return p
}

// do calls f with the lock held.
func (p *processes) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// pause releases the lock for a time. The caller holds the lock.
func (p *processes) pause(d time.Duration) {
	p.mu.Unlock()
	defer p.mu.Lock()
	time.Sleep(d)
}

// run returns the run of an id, nil if there is none or it is over.
func (p *processes) run(id wire.ID) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[id]
}

// all returns the runs that are not over.
func (p *processes) all() []*run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.runs))
}

// remove removes a run that is over.
func (p *processes) remove(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, r.id)
}
