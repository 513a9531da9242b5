//go:build linux

package agent

import (
	"os"
	"os/signal"
	"syscall"
)

// childSignals is told when children end. It is there before there are any.
func childSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1) // one is enough: each look takes all there are
	signal.Notify(c, syscall.SIGCHLD)
	return c
}

// reap waits for children, all of them and nowhere else: two places that wait
// would take each other's.
func (a *Agent) reap(ended <-chan os.Signal) {
	for range ended {
		a.reapAll()
	}
}

func (a *Agent) reapAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if initProcess() {
		for a.reapOne(-1) {
		}
		return
	}
	for pid := range a.pids {
		a.reapOne(pid)
	}
	for pid := range a.spares.all {
		a.reapOne(pid)
	}
	for _, pid := range a.children() {
		if !a.initial[pid] && a.pids[pid] == nil {
			a.reapOne(pid)
		}
	}
}

// look reaps a run's shell if it has ended.
func (a *Agent) look(pid int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pids[pid] != nil { // else the pid may be another's by now
		a.reapOne(pid)
	}
}

// reapOne waits for a child that has ended, without waiting for it to end. Only
// a PID 1 passes -1, any child.
func (a *Agent) reapOne(pid int) bool {
	var st syscall.WaitStatus
	pid, err := syscall.Wait4(pid, &st, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	r := a.pids[pid]
	switch {
	case r != nil:
	case a.spares.bury(pid):
		return true
	default:
		a.orphans.Broadcast() // it was some command's
		return true
	}
	delete(a.pids, pid)
	r.status <- exitStatus{wait: st, memoryKill: a.memory.roseAbove(r.memoryKills), shared: a.sharedBox(r)}
	return true
}
