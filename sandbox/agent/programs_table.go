//go:build linux

package agent

import (
	"syscall"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// attemptTime is how long a record waits until it is known whether its call succeeded.
	// A search of PATH goes on meanwhile.
	attemptTime = time.Second

	// maxProcesses is how many processes are remembered before those that were killed are
	// looked for and forgotten.
	maxProcesses = 4096
)

// processTable is what an observer knows of processes and runs. The lock of programs guards it.
type processTable struct {
	runs      map[wire.ID]string  // the marks of those that are not over
	sessions  map[int]wire.ID     // by the pid of a run's shell, which leads a session
	processes map[int]*programmed // that have executed a program
	pruneAt   int
}

// programmed is a process that has executed a program, or has tried to.
type programmed struct {
	pid   int
	start uint64 // 0: unknown, of a run's shell
	run   wire.ID
	is    *programRecord // what it executes; nil: unknown
	try   *programRecord // its last call, if it is not known yet whether that succeeded
	image image          // at the time of that call
}

func newProcessTable() processTable {
	return processTable{runs: map[wire.ID]string{}, sessions: map[int]wire.ID{}, processes: map[int]*programmed{}, pruneAt: maxProcesses}
}

// begin records the shell of a run.
func (t *processTable) begin(q *programs, run wire.ID, mark string, body wire.Program) {
	t.runs[run], t.sessions[body.Pid] = mark, run
	r := &programRecord{run: run, at: time.Now(), body: body}
	q.enqueue(r)
	t.processes[body.Pid] = &programmed{pid: body.Pid, run: run, is: r}
}

// over forgets a run that is over.
func (t *processTable) over(run wire.ID) {
	delete(t.runs, run)
	for pid, other := range t.sessions {
		if other == run {
			delete(t.sessions, pid)
		}
	}
	for pid, p := range t.processes {
		if p.run == run {
			delete(t.processes, pid)
		}
	}
}

// runOf returns the run of a process that is known, or whose session is a run's.
func (t *processTable) runOf(pid int, s state) (run wire.ID, ok bool) {
	if p := t.processes[pid]; p != nil && p.start == s.start && p.run != (wire.ID{}) {
		return p.run, true
	}
	run, ok = t.sessions[s.session]
	return run, ok
}

// marked returns the run of a mark. A process without the mark of a run is the only run's, as
// in a census.
func (t *processTable) marked(mark string) (run wire.ID) {
	for id, m := range t.runs {
		if m == mark || len(t.runs) == 1 {
			return id
		}
	}
	return run
}

// exec records that a process tries to execute a program. A search of PATH is one record: its
// attempts differ in the path only.
func (t *processTable) exec(q *programs, who caller, body wire.Program) *programRecord {
	p := t.processes[who.pid]
	if p == nil || p.start != 0 && p.start != who.start {
		p = &programmed{pid: who.pid, run: who.run}
		t.processes[who.pid] = p
	}
	p.start = who.start
	if p.run == (wire.ID{}) {
		p.run = who.run
	}
	if r := p.try; r != nil {
		switch {
		case !who.known || p.image != who.image:
			t.succeed(q, p)
		case sameArguments(r.body, body) && !r.sent:
			r.body.Path, r.body.Failed, r.pending = body.Path, false, true
			return r
		default:
			t.fail(q, r)
		}
	}
	r := &programRecord{run: p.run, at: time.Now(), pending: true, body: body}
	p.try, p.image = r, who.image
	q.enqueue(r)
	return r
}

// succeed records that the last call of a process succeeded.
func (t *processTable) succeed(q *programs, p *programmed) {
	r := p.try
	p.is, p.try = r, nil
	if r.pending = false; r.sent && r.body.Unsure {
		r.body.Unsure = false
		q.amend(r)
	}
}

// fail records that a call failed.
func (t *processTable) fail(q *programs, r *programRecord) {
	r.pending, r.body.Failed, r.body.Unsure = false, true, false
	if r.sent {
		q.amend(r)
	}
}

// exit records that a process ends by itself. undo takes that back.
func (t *processTable) exit(q *programs, pid int, s state, known bool, code int) (undo func()) {
	undo = func() {}
	p := t.processes[pid]
	if p == nil {
		return undo
	}
	delete(t.processes, pid)
	if p.try != nil && known {
		t.settle(q, p, s)
	}
	r := p.is
	if r == nil || p.try != nil {
		return undo
	}
	r.body.Exit = &code
	if r.sent {
		q.amend(r)
	}
	return func() {
		if r.body.Exit = nil; r.sent {
			q.amend(r)
		}
	}
}

// settle decides whether the last call of a process that is about to end succeeded.
func (t *processTable) settle(q *programs, p *programmed, s state) {
	if s.image != p.image {
		t.succeed(q, p)
		return
	}
	t.fail(q, p.try)
	p.try = nil
}

// check does what settle does for a process at any time: its call may still be under way, or
// a signal may have ended the process.
func (t *processTable) check(q *programs, p *programmed, s state, alive bool) {
	r := p.try
	switch {
	case alive && s.image != p.image:
		t.succeed(q, p)
	case alive && time.Since(r.at) < attemptTime:
	case alive:
		r.doubt()
	case s.start == p.start && p.image.forked && s.image.forked: // a zombie, which has no addresses
		t.fail(q, r)
		delete(t.processes, p.pid)
	default:
		r.doubt()
		delete(t.processes, p.pid)
	}
}

// doubt has a record sent although it is not known whether its call succeeded.
func (r *programRecord) doubt() {
	if r.pending {
		r.pending, r.body.Unsure = false, true
	}
}

// reaped records that the shell of a run has been reaped.
func (t *processTable) reaped(q *programs, pid int, status syscall.WaitStatus) {
	p := t.processes[pid]
	if p == nil {
		return
	}
	delete(t.processes, pid)
	if r := p.is; r != nil && p.try == nil && status.Exited() {
		code := status.ExitStatus()
		if r.body.Exit = &code; r.sent {
			q.amend(r)
		}
	}
}

// open returns the processes of which it is not known whether their last call succeeded. If
// many processes are remembered it returns all.
func (t *processTable) open() (list []*programmed, all bool) {
	all = len(t.processes) > t.pruneAt
	for _, p := range t.processes {
		if all || p.try != nil {
			list = append(list, p)
		}
	}
	return list, all
}

// prune forgets a process that has ended without saying so.
func (t *processTable) prune(p *programmed) {
	if t.processes[p.pid] == p && p.try == nil && p.start != 0 {
		delete(t.processes, p.pid)
	}
}
