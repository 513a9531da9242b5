//go:build linux

package agent

import (
	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// signal sends a signal to every process of a run, once to each.
//
// It signals process groups rather than processes: the kernel delivers the signal to a
// whole group at one moment, so no process escapes by forking meanwhile, and what a
// handler starts does not get it. A group lies within one session, and a session within
// one run, so no process of another run is in it. The second scan finds a process that
// was just making a group of its own.
//
// While the lock is held no child of the agent is reaped, so the kernel reuses none of their
// pids.
func (a *Agent) signal(t *tree, sig unix.Signal) {
	a.procs.do(func() {
		sent := map[int]bool{unix.Getpgrp(): true}
		for range 2 {
			c := a.scan()
			for pid, p := range c.procs {
				// Group 0 is of another name space, and -1 would mean every process.
				if c.of[pid] != t || p.pgid <= 1 || sent[p.pgid] {
					continue
				}
				sent[p.pgid] = true
				unix.Kill(-p.pgid, sig)
			}
		}
	})
}

func (r *run) signal(body wire.SignalBody) error {
	if !wire.Sendable(body.Signal) {
		return wire.Violation("%v %d, which a host may not send", wire.Signal, body.Signal)
	}
	r.agent.signal(r.tree, unix.Signal(body.Signal))
	return nil
}
