//go:build linux

package agent

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// programsDelay is how long a record of a program waits for others, to be sent with them.
	programsDelay = 100 * time.Millisecond

	// maxProgramBytes bounds the records that wait to be sent: about 10,000 usual ones. They
	// count against the box's memory.
	maxProgramBytes = 4 << 20

	// manyProgramBytes is how much is sent at once, before programsDelay has passed.
	manyProgramBytes = 256 << 10

	// programCost is what a record takes besides its text.
	programCost = 256

	// frameRest is the part of a frame of records that no record uses.
	frameRest = 64
)

// programs queues records of the programs that processes execute, and sends them to the
// host. It records nothing until a host has asked for them.
//
// Only flush and settle wait for anything. A record that finds no room is dropped and counted.
type programs struct {
	send     func(frame []byte) bool // reports false if there is no host to receive it
	observer *observer               // nil if the agent cannot see programs
	asked    bool                    // a host has asked for them; like the two around it, set before any command
	answer   wire.AuditedBody        // what the agent's Hello says

	sending sync.Mutex // held while records are sent, so that they keep their order

	mu     sync.Mutex // held for moments, never during a system call; guards the rest
	muted  bool       // the host wants no records
	queue  []*programRecord
	bytes  int // of the queue, and of what is being sent
	timer  *time.Timer
	counts map[wire.ID]*programCount
}

// programCount counts the records of a run. The zero id stands for unknown runs.
type programCount struct {
	last   int64 // number of the last record
	untold bool  // records were dropped, so the host may not know the number
}

// A programRecord is a record in the making: it can change until it is sent.
type programRecord struct {
	run      wire.ID // zero: unknown
	at       time.Time
	pending  bool // what it says is not known yet
	sent     bool
	observed bool // of a shim whose execution and exit the observer reports
	cost     int  // of the bound of the queue
	body     wire.Program
}

func newPrograms(send func([]byte) bool) *programs {
	p := &programs{send: send, muted: true, counts: map[wire.ID]*programCount{}}
	p.timer = stopped(p.flush)
	return p
}

// add records a program of a run. What the record names is bounded here.
func (p *programs) add(run wire.ID, body wire.Program) {
	boundProgram(&body)
	p.do(func() { p.enqueue(&programRecord{run: run, at: time.Now(), body: body}) })
}

// do calls f with the lock held.
func (p *programs) do(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// enqueue queues a record, or drops it. The caller holds the lock.
func (p *programs) enqueue(r *programRecord) {
	if p.muted {
		return
	}
	r.cost = r.size()
	room := p.bytes+r.cost <= maxProgramBytes
	if !r.body.End {
		c := p.count(r.run)
		c.last++
		c.untold = c.untold || !room
		r.body.Seq, r.body.Run = c.last, runName(r.run)
	}
	if !room {
		return
	}
	if len(p.queue) == 0 {
		p.timer.Reset(programsDelay)
	}
	p.queue = append(p.queue, r)
	if p.bytes < manyProgramBytes && p.bytes+r.cost >= manyProgramBytes {
		p.timer.Reset(0)
	}
	p.bytes += r.cost
}

// mute says whether the host wants no records.
func (p *programs) mute(yes bool) {
	p.do(func() { p.muted = yes })
}

// count returns the count of a run. The caller holds the lock.
func (p *programs) count(run wire.ID) *programCount {
	c := p.counts[run]
	if c == nil {
		c = &programCount{}
		p.counts[run] = c
	}
	return c
}

// amend queues what has become known of a record that is sent. The caller holds the lock.
func (p *programs) amend(r *programRecord) {
	is := r.body
	body := wire.Program{Seq: is.Seq, Run: is.Run, End: true, Path: is.Path, Failed: is.Failed, Denied: is.Denied, Limited: is.Limited, Exit: is.Exit}
	p.enqueue(&programRecord{run: r.run, at: time.Now(), body: body})
}

// begin records the shell of a run. The caller holds the lock of processes.
func (p *programs) begin(r *run, argv []string) {
	if p.observer == nil {
		return
	}
	body := wire.Program{Pid: r.pid, Parent: os.Getpid(), Path: argv[0], Args: slices.Clone(argv)}
	boundProgram(&body)
	p.do(func() { p.observer.table.begin(p, r.id, r.tree.mark, body) })
}

// reaped records how the shell of a run ended.
func (p *programs) reaped(pid int, status syscall.WaitStatus) {
	if p.observer != nil {
		p.do(func() { p.observer.table.reaped(p, pid, status) })
	}
}

// forget forgets a run that is over.
func (p *programs) forget(run wire.ID) {
	p.do(func() {
		delete(p.counts, run)
		if p.observer != nil {
			p.observer.table.over(run)
		}
	})
}

// flush sends what is queued and not pending. It waits for a host that is slow.
func (p *programs) flush() { p.sendAll(false) }

// settle sends all that is queued, for a run whose end is about to be reported.
func (p *programs) settle() {
	unused := false
	p.do(func() { unused = p.muted && len(p.queue) == 0 })
	if !unused {
		p.sendAll(true)
	}
}

func (p *programs) sendAll(pending bool) {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.observer.resolve()
	for {
		list, frame := p.take(pending)
		if frame == nil {
			return
		}
		if !p.send(frame) {
			p.putBack(list)
			return
		}
		p.release(list)
	}
}

// take takes the records of one frame from the queue. It returns a nil frame if there are none.
func (p *programs) take(pending bool) (list []*programRecord, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	payload := []byte(`{"list":[`)
	n := 0
	add := func(body wire.Program) bool {
		text, _ := json.Marshal(body) // cannot fail: numbers and strings
		if n == wire.MaxProgramList || len(payload)+len(text) > wire.MaxPayload-frameRest {
			return false
		}
		if n++; n > 1 {
			payload = append(payload, ',')
		}
		payload = append(payload, text...)
		return true
	}
	var kept []*programRecord
	full := false
	for _, r := range p.queue {
		if full || r.pending && !pending {
			kept = append(kept, r)
			continue
		}
		r.body.Micros = max(0, time.Since(r.at).Microseconds())
		r.body.Unsure = r.body.Unsure || r.pending
		if !r.body.Valid() { // a process has told something that no process can have
			p.drop(r)
			continue
		}
		if full = !add(r.body); full {
			kept = append(kept, r)
			continue
		}
		r.sent, r.pending = true, false
		list = append(list, r)
	}
	p.queue = kept
	for run, c := range p.counts {
		if c.untold && add(wire.Program{Run: runName(run), Seq: c.last, Total: true}) {
			c.untold = false
		}
	}
	if len(kept) > 0 {
		p.timer.Reset(programsDelay)
	}
	if n == 0 {
		return nil, nil
	}
	return list, wire.Append(nil, wire.Programs, wire.ID{}, append(payload, "]}"...))
}

// drop drops a record from the queue and counts it. The caller holds the lock.
func (p *programs) drop(r *programRecord) {
	p.bytes -= r.cost
	if c := p.counts[r.run]; c != nil {
		c.untold = true
	}
}

// release makes room for others by the records that are sent.
func (p *programs) release(list []*programRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range list {
		p.bytes -= r.cost
	}
}

// putBack returns records to the queue that no host has received.
func (p *programs) putBack(list []*programRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(list, p.queue...)
	for _, r := range list {
		r.sent = false
	}
	for _, c := range p.counts {
		c.untold = true
	}
}

// size is what a record takes of the bound of the queue.
func (r *programRecord) size() int {
	n := programCost + len(r.body.Path)
	for _, arg := range r.body.Args {
		n += len(arg)
	}
	return n
}

// runName returns the name of a run in a record.
func runName(run wire.ID) string {
	if run == (wire.ID{}) {
		return ""
	}
	return hex.EncodeToString(run[:])
}

// boundProgram bounds what a record names.
func boundProgram(b *wire.Program) {
	if len(b.Path) > wire.MaxProgramText {
		b.Path, b.Cut = b.Path[:wire.MaxProgramText], true
	}
	if extra := len(b.Args) - wire.MaxProgramArgs; extra > 0 {
		b.Args = b.Args[:wire.MaxProgramArgs]
		if b.More >= 0 {
			b.More += extra
		}
	}
	room := wire.MaxProgramText
	for i, arg := range b.Args {
		if len(arg) > room {
			b.Args[i], b.Cut = arg[:room], true
		}
		room -= len(b.Args[i])
	}
}

// auditPrograms begins to record programs if the host's Hello asks for it, and says whether
// the agent sees the programs that processes execute. Call it before any of them is started.
func (a *Agent) auditPrograms(hello wire.HelloBody) *wire.AuditedBody {
	a.programs.mute(!hello.AuditPrograms)
	if !hello.AuditPrograms {
		return nil
	}
	p := a.programs
	if !p.asked {
		p.asked = true
		if hello.Resume { // processes may run that have no filter
			p.answer.Step = wire.AuditLate
		} else if o, step, err := a.observe(p); err != nil {
			errno, _ := err.(syscall.Errno)
			p.answer = wire.AuditedBody{Step: step, Errno: int(errno)}
		} else {
			p.observer, p.answer.On = o, true
		}
	}
	return &p.answer
}

// sendPrograms sends records to the host, if one is attached.
func (a *Agent) sendPrograms(frame []byte) bool {
	if a.persistence != nil && !a.persistence.isAttached() {
		return false
	}
	return a.out.send(frame) == nil
}
