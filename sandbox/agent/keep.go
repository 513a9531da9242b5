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
	// ringBytes holds 16 MiB of output, and besides them what the last host was to
	// be sent or may not have written down: unsentBytes, what sockets and a relay
	// hold, and the heads of records.
	ringBytes = 18 << 20

	// unsentBytes is how far a host may be behind before commands wait for it.
	unsentBytes = 512 << 10

	// lastWords is how long to read on from a host that takes nothing any more: what
	// it said before it went is there already.
	lastWords = time.Second
)

// A keeper lets runs outlive their host. All that they print goes through its
// ring, from which one goroutine feeds the host that is there, so that the next
// host can have the end of it again. While a host is there commands wait for it as
// they do without a keeper; while none is, the oldest output makes room.
type keeper struct {
	agent *Agent

	mu   sync.Mutex
	room sync.Cond // the host has taken something, or is gone
	work sync.Cond // there is something to send, or the host is gone
	ring ring
	last uint32            // number of the newest run
	runs map[uint32]*kept  // that no host has forgotten, by their number in the ring
	ids  map[wire.ID]*kept // the same

	unanswered int    // runs of which this host has not said what it wants
	here       bool   // it has, of all: what is in the ring goes to it
	cursor     int64  // where in the ring the next record for it is
	early      []byte // frames that go before that

	// What follows is the serving goroutine's.
	stream  io.Closer      // to the host; nil while there is none
	feeding sync.WaitGroup // the goroutine that feeds it
	expiry  *time.Timer    // ends everything when no host comes; nil before it first counts
	life    time.Duration  // after which it does
}

// kept is what a keeper knows of a run. The keeper's mu guards all of it.
type kept struct {
	num uint32
	id  wire.ID
	tag string
	run *run

	base  int64 // the first byte of its output that the ring may have
	feeds int64 // line feeds before it
	end   int64 // bytes printed

	exit      []byte // the frame; nil while its shell runs
	exitGone  bool   // its place in the ring is gone
	over      bool   // nothing more comes
	closeGone bool   // which a Closed says, whose place in the ring is gone

	answered  bool  // this host has said what it wants of it
	forgotten bool  // nothing
	from      int64 // which byte it wants first
	at        int64 // which byte the cursor is at
}

func newKeeper(a *Agent) (*keeper, error) {
	ring, err := newRing(ringBytes)
	if err != nil {
		return nil, err
	}
	k := &keeper{agent: a, ring: ring, runs: map[uint32]*kept{}, ids: map[wire.ID]*kept{}}
	k.room.L, k.work.L = &k.mu, &k.mu
	return k, nil
}

// welcome answers the Hello of a host that keeps the box.
func (a *Agent) welcome(hello, ours wire.HelloBody, stream io.ReadWriteCloser) (err error) {
	switch {
	case a.keeper == nil:
		if a.keeper, err = newKeeper(a); err != nil {
			return err
		}
	case !hello.Resume || hello.KeepMillis <= 0:
		return wire.Violation("%v as if there had been no host before", wire.Hello)
	}
	k := a.keeper
	if k.expiry != nil {
		k.expiry.Stop()
	}
	k.life, k.stream = time.Duration(hello.KeepMillis)*time.Millisecond, stream
	a.renewInputs() // before anybody can speak to this host of what the last one sent
	a.speakTo(stream)
	var known []byte
	if known, ours.Runs, err = k.list(); err != nil {
		return err
	}
	if err := a.sendJSON(wire.Hello, wire.ID{}, ours); err != nil || ours.Runs == 0 {
		return err
	}
	return a.send(known)
}

func (a *Agent) renewInputs() {
	a.mu.Lock()
	runs := slices.Collect(maps.Values(a.runs))
	a.mu.Unlock()
	for _, r := range runs {
		r.stdin.renew()
	}
}

// settleKept carries out what a host wants of a run from before it, or no more.
func (a *Agent) settleKept(f wire.Frame) error {
	switch {
	case a.keeper == nil:
		return wire.Violation("%v in a box that is not kept", f.Kind)
	case f.Kind == wire.Resume:
		return a.keeper.resume(f)
	}
	a.keeper.forget(f.Run)
	return nil
}

// check refuses a Start that breaks the rules for a box that is kept.
func (k *keeper) check(id wire.ID, body wire.StartBody) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.unanswered > 0:
		return wire.Violation("%v before all runs are answered for", wire.Start)
	case k.ids[id] != nil:
		return wire.Violation("two runs of one id")
	case body.Tag == "":
		return wire.Violation("%v without a tag", wire.Start)
	}
	return nil
}

// full reports whether there is no room for one more run.
func (k *keeper) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.runs) >= wire.MaxRuns
}

// begin takes a new run in.
func (k *keeper) begin(r *run, tag string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	r.kept = &kept{num: k.last, id: r.id, tag: tag, run: r, answered: true}
	k.runs[k.last], k.ids[r.id] = r.kept, r.kept
}

// print takes what a run printed. It waits for a host that is there, and for none
// that is not.
func (k *keeper) print(r *kept, kind wire.Kind, p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(r, record{r.num, kind, len(p)}, p)
	r.end += int64(len(p))
}

// add puts a record into the ring. The caller holds k.mu.
func (k *keeper) add(r *kept, rec record, p []byte) {
	for k.here && k.ring.head-k.cursor > unsentBytes {
		k.room.Wait()
	}
	if r.forgotten {
		return
	}
	for !k.ring.fits(len(p)) {
		k.evict()
	}
	var unsent int64 // a record of which nothing is sent can grow
	if k.here {
		unsent = k.cursor
	}
	if len(p) == 0 || !k.ring.extend(rec, p, unsent) {
		k.ring.add(rec, p)
	}
	k.work.Signal()
}

// evict drops the oldest record. While a host is there it has been sent, since
// more than is unsent fits the ring.
func (k *keeper) evict() {
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

// exited takes the frame that says how a run's shell ended.
func (k *keeper) exited(r *kept, exit []byte, open bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.exit, r.over = exit, !open
	k.add(r, record{run: r.num, kind: wire.Exit}, nil)
}

// closed takes note that nothing more comes of a run that was left open.
func (k *keeper) closed(r *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r.over = true
	k.add(r, record{run: r.num, kind: wire.Closed}, nil)
}

// list returns the frames that tell a new host of all runs, and how many they are.
func (k *keeper) list() (frames []byte, n int, err error) {
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

func (k *keeper) inOrder() []*kept {
	return slices.SortedFunc(maps.Values(k.runs), func(a, b *kept) int { return cmp.Compare(a.num, b.num) })
}

// resume carries out a Resume.
func (k *keeper) resume(f wire.Frame) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.ids[f.Run]
	if r == nil || r.answered {
		return wire.Violation("%v of a run that nobody asked about", f.Kind)
	}
	if err := wire.Counts(f, &r.from); err != nil {
		return err
	}
	if r.from > r.end {
		return wire.Violation("%v from byte %d of %d", f.Kind, r.from, r.end)
	}
	k.answer(r)
	return nil
}

// forget carries out a Forget. Of a run that has just been forgotten there is
// nothing to do.
func (k *keeper) forget(id wire.ID) {
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
		k.answer(r)
	}
	over := r.over
	k.mu.Unlock()
	if !over {
		k.agent.kill(r.run, 0)
	}
}

// answer notes that the host has spoken of a run, and lets it have what it wants
// when it has of all. The caller holds k.mu.
func (k *keeper) answer(r *kept) {
	r.answered = true
	if k.unanswered--; k.unanswered == 0 {
		k.attach()
	}
}

// attach begins to send. What the ring has no place for any more goes first: all
// that a run printed before is gone from it too. The caller holds k.mu.
func (k *keeper) attach() {
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
	k.here = true
	k.feeding.Go(k.feed)
}

// feed sends until the host is gone.
func (k *keeper) feed() {
	buf := make([]byte, 0, wire.HeaderLen+wire.MaxPayload)
	for frame := k.next(buf); frame != nil; frame = k.next(buf) {
		if err := k.agent.send(frame); err != nil {
			stream := k.stream
			time.AfterFunc(lastWords, func() { stream.Close() }) // it may end by itself before
			return
		}
	}
}

// next waits for what is to be sent next. It is nil when the host is gone.
func (k *keeper) next(buf []byte) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.here {
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

// frame makes a frame of a record whose bytes are at a place, nil where the host
// has it or does not want it.
func (k *keeper) frame(buf []byte, rec record, at int64) []byte {
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

// detach takes note that the host is gone, whose stream is closed, and waits for
// what sends to it.
func (k *keeper) detach() {
	k.mu.Lock()
	k.here, k.unanswered = false, 0
	k.room.Broadcast()
	k.work.Broadcast()
	k.mu.Unlock()
	k.feeding.Wait()
	if k.stream != nil { // else it has not even spoken, and nothing begins anew
		k.stream = nil
		k.expiry = time.AfterFunc(k.life, func() {
			k.agent.endAll()
			os.Exit(0)
		})
	}
}
