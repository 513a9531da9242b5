//go:build linux

package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settleTime is how long a tree may resist being killed one process at a
	// time before a PID 1 takes the whole box.
	settleTime = 2 * time.Second

	// giveUpTime is how long it goes on trying; what is left then waits in the
	// kernel and cannot die yet.
	giveUpTime = 5 * time.Second

	// pollTime is between two looks while a tree has its grace.
	pollTime = 10 * time.Millisecond
)

// kill ends a run's whole tree. It does not wait: the run's finish does.
func (a *Agent) kill(r *run, grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killing != nil {
		return
	}
	r.killing = make(chan struct{})
	a.holdSpares()
	go func() {
		a.askToEnd(r.tree, grace)
		a.destroy(r.tree)
		a.releaseSpares()
		close(r.killing)
		a.refill()
	}()
}

// askToEnd sends SIGTERM to every process of a tree and gives them time.
func (a *Agent) askToEnd(t *tree, grace time.Duration) {
	deadline := time.Now().Add(grace)
	for i, p := range a.members(t) {
		if i == 0 && grace <= 0 {
			return
		}
		p.send(unix.SIGTERM)
		p.send(unix.SIGCONT) // one that is stopped would not hear it
	}
	for len(a.members(t)) > 0 && time.Now().Before(deadline) {
		time.Sleep(pollTime)
	}
}

func (a *Agent) members(t *tree) (list []proc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.take()
	for pid, p := range c.procs {
		if c.of[pid] == t && !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

// destroy kills a tree until two looks in a row find nothing of it.
func (a *Agent) destroy(t *tree) {
	began := time.Now()
	for quiet := 0; quiet < 2; {
		found, alone, settled := a.freeze(t)
		switch took := time.Since(began); {
		case len(found) == 0 && settled:
			quiet++
			continue
		case took > giveUpTime:
			return
		case initProcess() && (alone || took > settleTime):
			a.emptyBox(t)
		}
		quiet = 0
		for _, p := range found {
			p.send(unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // dying takes the kernel a moment
	}
}

// freeze stops a tree, process by process, until two looks in a row find nothing
// that is not stopped: only then does killing one not make it leave another. A
// stray that turns out to be another run's, since it was about to become a
// program when first seen, goes on.
func (a *Agent) freeze(t *tree) (found []proc, alone, settled bool) {
	stopped := map[int]proc{}
	began := time.Now()
	for quiet := 0; quiet < 2 && time.Since(began) < settleTime; {
		a.mu.Lock()
		c := a.take()
		a.mu.Unlock()
		found, alone, settled = c.targets(t), c.alone(t), !c.unsettled
		if alone && initProcess() {
			return found, true, settled // all at once is quicker, and complete
		}
		quiet++
		if !settled {
			quiet = 0
		}
		for _, p := range found {
			if s, ok := stopped[p.pid]; !ok || s.start != p.start {
				p.send(unix.SIGSTOP)
				stopped[p.pid] = p
				quiet = 0
			}
		}
		for pid, p := range stopped {
			if o := c.of[pid]; o != nil && o != t {
				p.send(unix.SIGCONT)
				delete(stopped, pid)
			}
		}
	}
	return found, alone, settled
}

// emptyBox kills every process but ourselves, which no process of ours can
// escape or outrun. Only a PID 1 may: anywhere else -1 means the whole host.
func (a *Agent) emptyBox(t *tree) {
	if !initProcess() {
		return
	}
	a.mu.Lock()
	for _, other := range a.trees {
		if other != t {
			other.collateral.Store(true)
		}
	}
	a.mu.Unlock()
	unix.Kill(-1, unix.SIGKILL)
}

// endAll kills everything that descends from us. It holds a.mu no longer than
// each look, since the reaper must go on.
func (a *Agent) endAll() {
	defer a.names.remove()
	a.holdSpares()
	began := time.Now()
	for quiet := 0; quiet < 2 && time.Since(began) < giveUpTime; {
		if initProcess() {
			unix.Kill(-1, unix.SIGKILL)
		}
		a.mu.Lock()
		c := a.take()
		a.mu.Unlock()
		quiet++
		if c.unsettled {
			quiet = 0
		}
		for _, p := range c.procs {
			if p.zombie {
				continue
			}
			quiet = 0
			p.send(unix.SIGSTOP)
			p.send(unix.SIGKILL)
		}
		if quiet == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}
