//go:build linux

package agent

import (
	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// signal sends a signal to every process of a run, each once.
//
// It goes to process groups rather than to processes: the kernel delivers it to
// a whole group at one moment, so that nobody escapes by forking meanwhile, and
// what a handler starts is not hit by it. A group lies within one session, and a
// session within one run, so no other run's process is ever in it. The second
// look finds who was just making a group of its own.
//
// While a.mu is held no child of ours is reaped, and none of their numbers is
// given away.
func (a *Agent) signal(t *tree, sig unix.Signal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent := map[int]bool{unix.Getpgrp(): true}
	for range 2 {
		c := a.take()
		for pid, p := range c.procs {
			// Group 0 is of another name space, and -1 would mean everybody.
			if c.of[pid] != t || p.pgid <= 1 || sent[p.pgid] {
				continue
			}
			sent[p.pgid] = true
			unix.Kill(-p.pgid, sig)
		}
	}
}

func (r *run) signal(body wire.SignalBody) error {
	if !wire.Sendable(body.Signal) {
		return wire.Violation("%v with number %d", wire.Signal, body.Signal)
	}
	r.agent.signal(r.tree, unix.Signal(body.Signal))
	return nil
}
