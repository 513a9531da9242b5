//go:build linux

package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settleTime is how long a tree may resist being killed process by process before a
	// PID 1 kills the whole box. On a loaded machine a tree that forks all the time takes
	// seconds.
	settleTime = 4 * time.Second

	// killTimeout is how long to go on trying. What is left then blocks in the kernel and
	// cannot die yet.
	killTimeout = 6 * time.Second

	// pollInterval is the pause between two scans while a tree has its grace period.
	pollInterval = 10 * time.Millisecond
)

// kill starts to end a run's whole tree. It does not wait: the run's finish does.
func (a *Agent) kill(r *run, grace time.Duration) {
	if !r.beginKill() {
		return
	}
	go func() {
		a.terminate(r.tree, grace)
		a.destroy(r.tree)
		a.resumeSpares()
		if r.host != nil {
			r.out.release() // otherwise a host that reads nothing would keep the run from ending
		}
		close(r.killing)
		a.refill()
	}()
}

// terminate sends SIGTERM to every process of a tree and waits up to grace for them to
// end.
func (a *Agent) terminate(t *tree, grace time.Duration) {
	deadline := time.Now().Add(grace)
	for i, p := range a.members(t) {
		if i == 0 && grace <= 0 {
			return
		}
		p.send(unix.SIGTERM)
		p.send(unix.SIGCONT) // a stopped process would not handle SIGTERM
	}
	for len(a.members(t)) > 0 && time.Now().Before(deadline) {
		time.Sleep(pollInterval)
	}
}

func (a *Agent) members(t *tree) (list []proc) {
	c := a.lockedScan()
	for pid, p := range c.procs {
		if c.of[pid] == t && !p.zombie {
			list = append(list, p)
		}
	}
	return list
}

// destroy kills a tree until two scans in a row find no process of it.
func (a *Agent) destroy(t *tree) {
	began := time.Now()
	for quiet := 0; quiet < 2; {
		found, alone, settled := a.freeze(t)
		switch took := time.Since(began); {
		case len(found) == 0 && settled:
			quiet++
			continue
		case took > killTimeout:
			return
		case initProcess() && (alone || took > settleTime):
			a.emptyBox(t)
		}
		quiet = 0
		for _, p := range found {
			p.send(unix.SIGKILL)
		}
		time.Sleep(time.Millisecond) // the kernel takes a moment to end them
	}
}

// freeze stops a tree, process by process, until two scans in a row find no process that
// is not stopped: only then can none start another while it is killed. A stray that turns
// out to be another run's, because it was executing a program when first seen, is
// continued.
func (a *Agent) freeze(t *tree) (found []proc, alone, settled bool) {
	stopped := map[int]proc{}
	began := time.Now()
	for quiet := 0; quiet < 2 && time.Since(began) < settleTime; {
		c := a.lockedScan()
		found, alone, settled = c.targets(t), c.alone(t), !c.unsettled
		if alone && initProcess() {
			return found, true, settled // killing all at once is faster and complete
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

// emptyBox kills every process but the agent at once; none can escape that. Only a PID 1
// may: anywhere else -1 means the whole host.
func (a *Agent) emptyBox(t *tree) {
	if !initProcess() {
		return
	}
	a.procs.do(func() {
		for _, other := range a.procs.trees {
			if other != t {
				other.collateral.Store(true)
			}
		}
	})
	unix.Kill(-1, unix.SIGKILL)
}

// endAll kills everything that descends from the agent. It holds the lock only during each
// scan, since the reaper must go on.
func (a *Agent) endAll() {
	defer a.names.remove()
	defer a.shims.remove()
	a.suspendSpares()
	began := time.Now()
	for quiet := 0; quiet < 2 && time.Since(began) < killTimeout; {
		if initProcess() {
			unix.Kill(-1, unix.SIGKILL)
		}
		c := a.lockedScan()
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
