//go:build linux

package agent

import (
	"os"
	"os/signal"
	"syscall"
)

// childSignals receives a value when children have ended. Call it before starting any.
func childSignals() <-chan os.Signal {
	c := make(chan os.Signal, 1) // one is enough: reapAll reaps all that have ended
	signal.Notify(c, syscall.SIGCHLD)
	return c
}

// reap waits for all children. No other place does: two places that wait would reap each
// other's children.
func (a *Agent) reap(ended <-chan os.Signal) {
	for range ended {
		a.procs.do(a.reapAll)
	}
}

// reapAll reaps all children that have ended. The caller holds the lock.
func (a *Agent) reapAll() {
	if initProcess() {
		for a.reapOne(-1) {
		}
		return
	}
	for pid := range a.procs.pids {
		a.reapOne(pid)
	}
	for pid := range a.spares.all {
		a.reapOne(pid)
	}
	for _, pid := range a.children() {
		if !a.procs.initial[pid] && a.procs.pids[pid] == nil {
			a.reapOne(pid)
		}
	}
}

// reapShell reaps a run's shell if it has ended.
func (a *Agent) reapShell(pid int) {
	a.procs.do(func() {
		if a.procs.pids[pid] != nil { // otherwise the pid may belong to another process by now
			a.reapOne(pid)
		}
	})
}

// reapOne reaps a child if it has ended, and does not wait for its end. Only a PID 1
// passes -1, any child.
func (a *Agent) reapOne(pid int) bool {
	var st syscall.WaitStatus
	pid, err := syscall.Wait4(pid, &st, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	r := a.procs.pids[pid]
	switch {
	case r != nil:
	case a.spares.reaped(pid):
		return true
	default:
		a.procs.orphans.Broadcast() // a process that a run left behind
		return true
	}
	delete(a.procs.pids, pid)
	a.programs.reaped(pid, st)
	r.status <- exitStatus{wait: st, memoryKill: a.memory.roseAbove(r.memoryKills), shared: a.sharedBox(r)}
	return true
}
