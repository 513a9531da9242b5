//go:build linux

package agent

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A ring keeps the newest records of the output of all runs. Its memory is mapped, not of
// the Go heap: the kernel provides it as it fills, and the garbage collector does not
// double it. Positions count from the first byte ever written.
//
// A record is a head of 8 bytes with run, kind and length, followed by the bytes. Storing
// wire frames instead would fill the ring with headers where lines are short.
type ring struct {
	mem  []byte
	tail int64 // position of the oldest record
	head int64 // position behind the newest record
	last int64 // position of the newest record
}

// record is the head of a record.
type record struct {
	run  uint32
	kind wire.Kind // Stdout, Stderr, Exit or Closed
	n    int       // number of bytes; 0 for Exit and Closed
}

const (
	recordLen = 8
	kindShift = 24 // the kind is stored above this bit, the length below
)

func newRing(size int) (ring, error) {
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	return ring{mem: mem}, err
}

// fits reports whether a record of n bytes fits.
func (r *ring) fits(n int) bool { return r.head-r.tail+recordLen+int64(n) <= int64(len(r.mem)) }

// add appends a record. The caller has checked that it fits.
func (r *ring) add(rec record, p []byte) {
	r.last = r.head
	r.putHead(r.last, rec)
	r.put(r.last+recordLen, p)
	r.head += recordLen + int64(len(p))
}

// extend appends bytes to the newest record if that has the same run and kind and starts
// at position from or later.
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

// drop removes the oldest record. It returns the record and the number of line feeds in
// it.
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

// parts returns n bytes as slices of memory: two if they wrap around its end.
func (r *ring) parts(at int64, n int) [2][]byte {
	from := int(at % int64(len(r.mem)))
	first := min(n, len(r.mem)-from)
	return [2][]byte{r.mem[from : from+first], r.mem[:n-first]}
}
