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

// A persistence lets runs outlive their host. All their output goes through its ring. One
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
	k := &persistence{agent: a, ring: ring, runs: map[uint32]*persistentRun{}, ids: map[wire.ID]*persistentRun{}}
	k.room.L, k.work.L = &k.mu, &k.mu
	return k, nil
}

// replyPersistent answers the Hello of a host of a persistent box.
func (a *Agent) replyPersistent(hello, ours wire.HelloBody, stream io.ReadWriteCloser) (err error) {
	switch {
	case a.persistence == nil:
		if a.persistence, err = newPersistence(a); err != nil {
			return err
		}
	case !hello.Resume || hello.PersistMillis <= 0:
		return wire.Violation("%v without resume in a persistent box that had a host before", wire.Hello)
	}
	k := a.persistence
	if k.expiry != nil {
		k.expiry.Stop()
	}
	k.life, k.stream = time.Duration(hello.PersistMillis)*time.Millisecond, stream
	a.renewInputs() // before this host can be sent a StdinTaken for the last one's input
	a.out.attach(stream)
	var known []byte
	if known, ours.Runs, err = k.list(); err != nil {
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
func (k *persistence) check(id wire.ID, body wire.StartBody) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.unanswered > 0:
		return wire.Violation("%v before the host has resumed or forgotten every known run", wire.Start)
	case k.ids[id] != nil:
		return wire.Violation("two runs of one id")
	case body.Tag == "":
		return wire.Violation("%v without a tag", wire.Start)
	}
	return nil
}

// full reports whether the limit of known runs is reached.
func (k *persistence) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs) >= wire.MaxRuns
}

// begin records a new run.
func (k *persistence) begin(r *run, tag string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	r.persistent = &persistentRun{num: k.last, id: r.id, tag: tag, run: r, answered: true}
	k.runs[k.last], k.ids[r.id] = r.persistent, r.persistent
}

// print records output of a run. It waits for an attached host that is behind, and never
// while detached.
func (k *persistence) print(r *persistentRun, kind wire.Kind, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(r, record{r.num, kind, len(p)}, p)
	r.end += int64(len(p))
}

// add adds a record to the ring. The caller holds k.mu.
func (k *persistence) add(r *persistentRun, rec record, p []byte) {
	for k.attached && k.ring.head-k.cursor > unsentBytes {
		k.room.Wait()
	}
	if r.forgotten {
		return
	}
	for !k.ring.fits(len(p)) {
		k.evict()
	}
	var unsent int64 // only a record that is not sent yet can be extended
	if k.attached {
		unsent = k.cursor
	}
	if len(p) == 0 || !k.ring.extend(rec, p, unsent) {
		k.ring.add(rec, p)
	}
	k.work.Signal()
}

// evict drops the oldest record. While a host is attached that record has been sent,
// since the ring holds more than unsentBytes.
func (k *persistence) evict() {
	rec, feeds := k.ring.drop()
	r := k.runs[rec.run]
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
func (k *persistence) exited(r *persistentRun, exit []byte, open bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.exit, r.over = exit, !open
	k.add(r, record{run: r.num, kind: wire.Exit}, nil)
}

// closed records the Closed of a run.
func (k *persistence) closed(r *persistentRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.over = true
	k.add(r, record{run: r.num, kind: wire.Closed}, nil)
}

// list returns a Known frame for each run, and their number.
func (k *persistence) list() (frames []byte, n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.inOrder() {
		r.answered = false
		body := wire.KnownBody{Tag: r.tag, Bytes: r.end, Ended: r.exit != nil, Input: r.run.stdin.open(), AgeMillis: time.Since(r.run.began).Milliseconds()}
		if frames, err = wire.AppendJSON(frames, wire.Known, r.id, body); err != nil {
			return nil, 0, err
		}
	}
	if k.unanswered = len(k.runs); k.unanswered == 0 {
		k.attach()
	}
	return frames, len(k.runs), nil
}

func (k *persistence) inOrder() []*persistentRun {
	return slices.SortedFunc(maps.Values(k.runs), func(a, b *persistentRun) int { return cmp.Compare(a.num, b.num) })
}

// resume carries out a Resume.
func (k *persistence) resume(f wire.Frame) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.ids[f.Run]
	if r == nil || r.answered {
		return wire.Violation("%v of a run that has no unanswered %v", f.Kind, wire.Known)
	}
	if err := wire.Counts(f, &r.from); err != nil {
		return err
	}
	if r.from > r.end {
		return wire.Violation("%v from byte %d of %d", f.Kind, r.from, r.end)
	}
	k.markAnswered(r)
	return nil
}

// forget carries out a Forget. One for a run that has just been forgotten does nothing.
func (k *persistence) forget(id wire.ID) {
	k.mu.Lock()
	r := k.ids[id]
	if r == nil {
		k.mu.Unlock()
		return
	}
	delete(k.ids, id)
	delete(k.runs, r.num)
	r.forgotten = true
	if !r.answered {
		k.markAnswered(r)
	}
	over := r.over
	k.mu.Unlock()
	if !over {
		k.agent.kill(r.run, 0)
	}
}

// markAnswered records that the host has resumed or forgotten a run, and attaches the
// host after the last one. The caller holds k.mu.
func (k *persistence) markAnswered(r *persistentRun) {
	r.answered = true
	if k.unanswered--; k.unanswered == 0 {
		k.attach()
	}
}

// attach starts sending the ring to the host. Frames whose records the ring no longer has
// are sent first: all earlier output of their runs is gone from it too. The caller holds
// k.mu.
func (k *persistence) attach() {
	k.cursor, k.early = k.ring.tail, nil
	for _, r := range k.inOrder() {
		r.at = r.base
		if r.from < r.base {
			k.early = wire.AppendCounts(k.early, wire.Dropped, r.id, r.base, r.feeds)
		}
		if r.exitGone {
			k.early = append(k.early, r.exit...)
		}
		if r.closeGone {
			k.early = wire.Append(k.early, wire.Closed, r.id, nil)
		}
	}
	k.attached = true
	k.feeding.Go(k.feed)
}

// feed sends records until the host is detached.
func (k *persistence) feed() {
	buf := make([]byte, 0, wire.HeaderLen+wire.MaxPayload)
	for frame := k.next(buf); frame != nil; frame = k.next(buf) {
		if err := k.agent.out.send(frame); err != nil {
			stream := k.stream
			time.AfterFunc(readRestTime, func() { stream.Close() }) // the stream may end by itself before
			return
		}
	}
}

// next waits for the next frames to send. It returns nil when the host is detached.
func (k *persistence) next(buf []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.attached {
		if early := k.early; len(early) > 0 {
			k.early = nil
			return early
		}
		if k.cursor == k.ring.head {
			k.work.Wait()
			continue
		}
		rec, at := k.ring.record(k.cursor), k.cursor+recordLen
		k.cursor = at + int64(rec.n)
		k.room.Broadcast()
		if frame := k.frame(buf, rec, at); frame != nil {
			return frame
		}
	}
	return nil
}

// frame returns the frame of a record whose bytes are at position at. It returns nil if
// the host has the bytes or has forgotten the run.
func (k *persistence) frame(buf []byte, rec record, at int64) []byte {
	r := k.runs[rec.run]
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
	k.ring.get(at+int64(has), frame[wire.HeaderLen:])
	return frame
}

// detach records that the host's stream is closed, and waits for the goroutine that sends
// to it.
func (k *persistence) detach() {
	k.mu.Lock()
	k.attached, k.unanswered = false, 0
	k.room.Broadcast()
	k.work.Broadcast()
	k.mu.Unlock()
	k.feeding.Wait()
	if k.stream != nil { // a stream that ended before its Hello does not restart the expiry
		k.stream = nil
		k.expiry = time.AfterFunc(k.life, func() {
			k.agent.endAll()
			os.Exit(0)
		})
	}
}
