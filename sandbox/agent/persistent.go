//go:build linux

package agent

import (
	"cmp"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// ringBytes has room for 16 MiB of output, for the heads of records, and for what the
	// last host was to be sent or may not have written down: unsentBytes and the buffers
	// of sockets and a relay.
	ringBytes = 18 << 20

	// unsentBytes is how far a host may fall behind before commands wait for it.
	unsentBytes = 512 << 10

	// readRestTime is how long to read on from a host after a write to it has failed: the
	// frames that it sent before are in the stream already.
	readRestTime = time.Second
)

// A persistence is the state of a persistent box, whose runs continue after the server
// that started them (the host) has ended. All their output goes through its ring. One
// goroutine sends it from there to the attached host, and the next host gets the end of
// it again. Commands wait for an attached host as in a box that is not persistent. While
// none is attached, new output overwrites the oldest.
type persistence struct {
	agent *Agent

	mu   sync.Mutex
	room sync.Cond // a record was sent, or the host is detached
	work sync.Cond // a record is to be sent, or the host is detached
	ring ring
	last uint32                     // number of the newest run
	runs map[uint32]*persistentRun  // not forgotten yet, by their number in the ring
	ids  map[wire.ID]*persistentRun // the same, by id

	unanswered int    // number of runs that this host has neither resumed nor forgotten
	attached   bool   // it has answered for all runs: it is sent the ring
	cursor     int64  // position in the ring of the next record for it
	early      []byte // frames to send before that record

	// The following fields belong to the serving goroutine.
	stream  io.Closer      // to the host; nil while detached
	feeding sync.WaitGroup // the goroutine that sends to the host
	expiry  *time.Timer    // ends the agent when no host comes; nil before the first detach
	life    time.Duration  // how long to wait for the next host
}

// persistentRun is a run as the next host sees it. The mu of the persistence guards all
// of it.
type persistentRun struct {
	num uint32
	id  wire.ID
	tag string
	run *run

	base  int64 // the first byte of its output that the ring may still have
	feeds int64 // line feeds before base
	end   int64 // number of bytes printed

	exit      []byte // the Exit frame; nil while its shell runs
	exitGone  bool   // the ring no longer has the record of the Exit
	over      bool   // the run is over
	closeGone bool   // the ring no longer has the record of the Closed

	answered  bool // this host has resumed or forgotten it
	forgotten bool
	from      int64 // the first byte that this host wants
	at        int64 // the byte at the cursor
}

func newPersistence(a *Agent) (*persistence, error) {
	ring, err := newRing(ringBytes)
	if err != nil {
		return nil, err
	}
	ps := &persistence{agent: a, ring: ring, runs: map[uint32]*persistentRun{}, ids: map[wire.ID]*persistentRun{}}
	ps.room.L, ps.work.L = &ps.mu, &ps.mu
	return ps, nil
}

// replyPersistent answers the Hello of a host of a persistent box.
func (a *Agent) replyPersistent(hello, ours wire.HelloBody, stream io.ReadWriteCloser) (err error) {
	switch {
	case a.persistence == nil:
		if a.persistence, err = newPersistence(a); err != nil {
			return err
		}
	case !hello.Resume || hello.PersistMillis <= 0:
		return wire.Violation("%v without resume and keepMillis in a persistent box that had a host before", wire.Hello)
	}
	ps := a.persistence
	if ps.expiry != nil {
		ps.expiry.Stop()
	}
	ps.life, ps.stream = time.Duration(hello.PersistMillis)*time.Millisecond, stream
	a.renewInputs() // before this host can be sent a StdinTaken for the last one's input
	a.out.attach(stream)
	var known []byte
	if known, ours.Runs, err = ps.list(); err != nil {
		return err
	}
	if err := a.out.sendJSON(wire.Hello, wire.ID{}, ours); err != nil || ours.Runs == 0 {
		return err
	}
	return a.out.send(known)
}

func (a *Agent) renewInputs() {
	for _, r := range a.procs.all() {
		r.stdin.renew()
	}
}

// reattach carries out a Resume or Forget.
func (a *Agent) reattach(f wire.Frame) error {
	switch {
	case a.persistence == nil:
		return wire.Violation("%v in a box that is not persistent", f.Kind)
	case f.Kind == wire.Resume:
		return a.persistence.resume(f)
	}
	a.persistence.forget(f.Run)
	return nil
}

// check refuses a Start that breaks the rules of a persistent box.
func (ps *persistence) check(id wire.ID, body wire.StartBody) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case ps.unanswered > 0:
		return wire.Violation("%v before the host has resumed or forgotten every known run", wire.Start)
	case ps.ids[id] != nil:
		return wire.Violation("%v with the id of a known run", wire.Start)
	case body.Tag == "" && body.Window == 0:
		return wire.Violation("%v without a tag", wire.Start)
	}
	return nil
}

// full reports whether the limit of known runs is reached.
func (ps *persistence) full() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.runs) >= wire.MaxRuns
}

// begin records a new run.
func (ps *persistence) begin(r *run, tag string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.last++
	r.persistent = &persistentRun{num: ps.last, id: r.id, tag: tag, run: r, answered: true}
	ps.runs[ps.last], ps.ids[r.id] = r.persistent, r.persistent
}

// print records output of a run. It waits for an attached host that is behind, and never
// while detached.
func (ps *persistence) print(r *persistentRun, kind wire.Kind, p []byte) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.add(r, record{r.num, kind, len(p)}, p)
	r.end += int64(len(p))
}

// add adds a record to the ring. The caller holds ps.mu.
func (ps *persistence) add(r *persistentRun, rec record, p []byte) {
	for ps.attached && ps.ring.head-ps.cursor > unsentBytes {
		ps.room.Wait()
	}
	if r.forgotten {
		return
	}
	for !ps.ring.fits(len(p)) {
		ps.evict()
	}
	var unsent int64 // only a record that is not sent yet can be extended
	if ps.attached {
		unsent = ps.cursor
	}
	if len(p) == 0 || !ps.ring.extend(rec, p, unsent) {
		ps.ring.add(rec, p)
	}
	ps.work.Signal()
}

// evict drops the oldest record. While a host is attached that record has been sent,
// since the ring holds more than unsentBytes.
func (ps *persistence) evict() {
	rec, feeds := ps.ring.drop()
	r := ps.runs[rec.run]
	if r == nil {
		return
	}
	switch rec.kind {
	case wire.Exit:
		r.exitGone = true
	case wire.Closed:
		r.closeGone = true
	default:
		r.base += int64(rec.n)
		r.feeds += feeds
	}
}

// exited records the Exit of a run.
func (ps *persistence) exited(r *persistentRun, exit []byte, open bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r.exit, r.over = exit, !open
	ps.add(r, record{run: r.num, kind: wire.Exit}, nil)
}

// closed records the Closed of a run.
func (ps *persistence) closed(r *persistentRun) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r.over = true
	ps.add(r, record{run: r.num, kind: wire.Closed}, nil)
}

// list returns a Known frame for each run, and their number.
func (ps *persistence) list() (frames []byte, n int, err error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, r := range ps.inOrder() {
		r.answered = false
		body := wire.KnownBody{Tag: r.tag, Bytes: r.end, Ended: r.exit != nil, Input: r.run.stdin.open(), AgeMillis: time.Since(r.run.began).Milliseconds()}
		if frames, err = wire.AppendJSON(frames, wire.Known, r.id, body); err != nil {
			return nil, 0, err
		}
	}
	if ps.unanswered = len(ps.runs); ps.unanswered == 0 {
		ps.attach()
	}
	return frames, len(ps.runs), nil
}

func (ps *persistence) inOrder() []*persistentRun {
	return slices.SortedFunc(maps.Values(ps.runs), func(a, b *persistentRun) int { return cmp.Compare(a.num, b.num) })
}

// resume carries out a Resume.
func (ps *persistence) resume(f wire.Frame) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	r := ps.ids[f.Run]
	if r == nil || r.answered {
		return wire.Violation("%v of a run that has no unanswered %v", f.Kind, wire.Known)
	}
	if err := wire.Counts(f, &r.from); err != nil {
		return err
	}
	if r.from > r.end {
		return wire.Violation("%v from byte %d, but the run has printed only %d", f.Kind, r.from, r.end)
	}
	ps.markAnswered(r)
	return nil
}

// forget carries out a Forget. One for a run that has just been forgotten does nothing.
func (ps *persistence) forget(id wire.ID) {
	ps.mu.Lock()
	r := ps.ids[id]
	if r == nil {
		ps.mu.Unlock()
		return
	}
	delete(ps.ids, id)
	delete(ps.runs, r.num)
	r.forgotten = true
	if !r.answered {
		ps.markAnswered(r)
	}
	over := r.over
	ps.mu.Unlock()
	if !over {
		ps.agent.kill(r.run, 0)
	}
}

// markAnswered records that the host has resumed or forgotten a run, and attaches the
// host after the last one. The caller holds ps.mu.
func (ps *persistence) markAnswered(r *persistentRun) {
	r.answered = true
	if ps.unanswered--; ps.unanswered == 0 {
		ps.attach()
	}
}

// attach starts sending the ring to the host. Frames whose records the ring no longer has
// are sent first: all earlier output of their runs is gone from it too. The caller holds
// ps.mu.
func (ps *persistence) attach() {
	ps.cursor, ps.early = ps.ring.tail, nil
	for _, r := range ps.inOrder() {
		r.at = r.base
		if r.from < r.base {
			ps.early = wire.AppendCounts(ps.early, wire.Dropped, r.id, r.base, r.feeds)
		}
		if r.exitGone {
			ps.early = append(ps.early, r.exit...)
		}
		if r.closeGone {
			ps.early = wire.Append(ps.early, wire.Closed, r.id, nil)
		}
	}
	ps.attached = true
	ps.feeding.Go(ps.feed)
}

// feed sends records until the host is detached.
func (ps *persistence) feed() {
	ps.agent.programs.settle() // the end of a run comes after its programs
	buf := make([]byte, 0, wire.HeaderLen+wire.MaxPayload)
	for frame := ps.next(buf); frame != nil; frame = ps.next(buf) {
		if err := ps.agent.out.send(frame); err != nil {
			stream := ps.stream
			time.AfterFunc(readRestTime, func() { stream.Close() }) // the stream may end by itself before
			return
		}
	}
}

// next waits for the next frames to send. It returns nil when the host is detached.
func (ps *persistence) next(buf []byte) []byte {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for ps.attached {
		if early := ps.early; len(early) > 0 {
			ps.early = nil
			return early
		}
		if ps.cursor == ps.ring.head {
			ps.work.Wait()
			continue
		}
		rec, at := ps.ring.record(ps.cursor), ps.cursor+recordLen
		ps.cursor = at + int64(rec.n)
		ps.room.Broadcast()
		if frame := ps.frame(buf, rec, at); frame != nil {
			return frame
		}
	}
	return nil
}

// frame returns the frame of a record whose bytes are at position at. It returns nil if
// the host has the bytes or has forgotten the run.
func (ps *persistence) frame(buf []byte, rec record, at int64) []byte {
	r := ps.runs[rec.run]
	switch {
	case r == nil:
		return nil
	case rec.kind == wire.Exit:
		return r.exit
	case rec.kind == wire.Closed:
		return wire.Append(buf, wire.Closed, r.id, nil)
	}
	has := int(min(max(r.from-r.at, 0), int64(rec.n)))
	r.at += int64(rec.n)
	if has == rec.n {
		return nil
	}
	frame := buf[:wire.HeaderLen+rec.n-has]
	wire.Put(frame, rec.kind, r.id, rec.n-has)
	ps.ring.get(at+int64(has), frame[wire.HeaderLen:])
	return frame
}

// isAttached reports whether a host is attached.
func (ps *persistence) isAttached() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.attached
}

// detach records that the host's stream is closed, and waits for the goroutine that sends
// to it.
func (ps *persistence) detach() {
	ps.mu.Lock()
	ps.attached, ps.unanswered = false, 0
	ps.room.Broadcast()
	ps.work.Broadcast()
	ps.mu.Unlock()
	ps.feeding.Wait()
	if ps.stream != nil { // a stream that ended before its Hello does not restart the expiry
		ps.stream = nil
		ps.expiry = time.AfterFunc(ps.life, func() {
			ps.agent.endAll()
			os.Exit(0)
		})
	}
}
