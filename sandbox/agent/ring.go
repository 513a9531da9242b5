//go:build linux

package agent

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A ring keeps the newest records of what all runs printed. Its memory is not of
// the Go heap: it is taken as it fills, and the collector never waits for as much
// again beside it. Places in it are counted from the first byte that it ever had.
//
// A record is a head of 8 bytes, whose it is and how much of what, and the bytes.
// With frames as they go over the wire, lines of forty bytes would fill it with
// headers.
type ring struct {
	mem  []byte
	tail int64 // of the oldest record
	head int64 // behind the newest one
	last int64 // of the newest one
}

// record is a record's head.
type record struct {
	run  uint32
	kind wire.Kind // Stdout, Stderr, Exit or Closed
	n    int       // bytes, of output only
}

const (
	recordLen = 8
	kindShift = 24 // a record's length is below
)

func newRing(size int) (ring, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return ring{mem: mem}, err
}

// fits reports whether there is room for a record of n bytes.
func (r *ring) fits(n int) bool { return r.head-r.tail+recordLen+int64(n) <= int64(len(r.mem)) }

// add adds a record, for which there is room.
func (r *ring) add(rec record, p []byte) {
	r.last = r.head
	r.putHead(r.last, rec)
	r.put(r.last+recordLen, p)
	r.head += recordLen + int64(len(p))
}

// extend adds bytes to the newest record, if it is of that kind and starts at or
// behind a place.
func (r *ring) extend(rec record, p []byte, from int64) bool {
	if r.last < from || r.head == r.tail || !r.fits(len(p)) {
		return false
	}
	last := r.record(r.last)
	if last.run != rec.run || last.kind != rec.kind || last.n+len(p) > wire.MaxPayload {
		return false
	}
	last.n += len(p)
	r.putHead(r.last, last)
	r.put(r.head, p)
	r.head += int64(len(p))
	return true
}

// drop forgets the oldest record and returns what it was, and how many line feeds
// were in it.
func (r *ring) drop() (rec record, feeds int64) {
	rec = r.record(r.tail)
	for _, part := range r.parts(r.tail+recordLen, rec.n) {
		feeds += int64(bytes.Count(part, lineFeed))
	}
	r.tail += recordLen + int64(rec.n)
	return rec, feeds
}

var lineFeed = []byte{'\n'}

func (r *ring) record(at int64) record {
	var b [recordLen]byte
	r.get(at, b[:])
	second := binary.NativeEndian.Uint32(b[4:])
	return record{run: binary.NativeEndian.Uint32(b[:]), kind: wire.Kind(second >> kindShift), n: int(second & (1<<kindShift - 1))}
}

func (r *ring) putHead(at int64, rec record) {
	var b [recordLen]byte
	binary.NativeEndian.PutUint32(b[:], rec.run)
	binary.NativeEndian.PutUint32(b[4:], uint32(rec.kind)<<kindShift|uint32(rec.n))
	r.put(at, b[:])
}

func (r *ring) get(at int64, p []byte) {
	for _, part := range r.parts(at, len(p)) {
		p = p[copy(p, part):]
	}
}

func (r *ring) put(at int64, p []byte) {
	for _, part := range r.parts(at, len(p)) {
		p = p[copy(part, p):]
	}
}

// parts returns n bytes as they lie in memory: around its end there are two.
func (r *ring) parts(at int64, n int) [2][]byte {
	from := int(at % int64(len(r.mem)))
	first := min(n, len(r.mem)-from)
	return [2][]byte{r.mem[from : from+first], r.mem[:n-first]}
}
