// Package excerpt retains the beginning and the end of a command's output while it
// streams, and cuts from them the text that a reader is shown: all of a small
// output, else its head and tail on line borders, with exact counts of the omitted
// bytes and lines.
//
// Where a log has the whole output, it chooses passages of the log instead: what is near
// the lines of failures, and both ends.
//
// It stores raw bytes and returns text: valid UTF-8 without control characters, which
// is safe in a terminal, a log viewer and JSON. It does not decide which lines
// matter, and it neither stores nor reads the whole output; the raw log has it.
//
// A progress bar that is drawn a thousand times in one line would fill the excerpt.
// So text that a line overwrites is removed when it is written, before any cut, and
// counted. Lines that are redrawn by moving the cursor up stay.
package excerpt

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Keeper retains the first and the last Limit bytes of one output stream. The zero
// value with a Limit is ready for use. A Keeper is not safe for concurrent use.
type Keeper struct {
	Limit int

	// Mask returns p[from:to] with secrets masked. The rest of p is context for
	// secrets that cross the borders. p does not contain overwritten text. nil masks
	// nothing.
	Mask func(p []byte, from, to int) []byte

	line  line // the last line, as far as it may still be overwritten
	head  []byte
	tail  []byte // a ring once it is full; its oldest byte is at start
	start int
	stays int64 // bytes that are not overwritten: in head, in tail or dropped between them
	total int64
	lines int64 // newlines
	last  byte
}

// Write retains the beginning and the end of the stream. It never fails.
func (k *Keeper) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	k.total += int64(n)
	k.lines += int64(bytes.Count(p, newline))
	k.last = p[n-1]
	k.line.write(p, k.retain)
	return n, nil
}

// retain adds text that is not overwritten.
func (k *Keeper) retain(p []byte) {
	k.stays += int64(len(p))
	if room := k.capacity() - len(k.head); room > 0 {
		n := min(room, len(p))
		k.head = append(k.head, p[:n]...)
		p = p[n:]
	}
	k.ring(p)
}

// settled returns a Keeper that also has the current state of the last line.
func (k *Keeper) settled() *Keeper {
	if len(k.line.now) == 0 && !k.line.cr {
		return k
	}
	c := *k
	c.head, c.tail = slices.Clip(k.head), slices.Clone(k.tail)
	k.line.finish(c.retain)
	return &c
}

var newline = []byte{'\n'}

// margin is how much more than its Limit a Keeper with a Mask retains at each end, so
// that the Mask sees all of a secret at a cut: an RSA key of 8,192 bits has 6,400
// bytes.
const margin = 8 << 10

// capacity returns how much is retained of each end.
func (k *Keeper) capacity() int {
	if k.Mask == nil {
		return k.Limit
	}
	return k.Limit + margin
}

func (k *Keeper) ring(p []byte) {
	size := k.capacity()
	if len(p) >= size {
		k.tail = append(k.tail[:0], p[len(p)-size:]...)
		k.start = 0
		return
	}
	if grow := min(size-len(k.tail), len(p)); grow > 0 {
		k.tail = append(k.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		n := copy(k.tail[k.start:], p)
		k.start = (k.start + n) % size
		p = p[n:]
	}
}

// Bytes returns the number of bytes written.
func (k *Keeper) Bytes() int64 { return k.total }

// Head returns the beginning of the stream.
func (k *Keeper) Head() []byte { return k.settled().head }

// Lines returns the number of lines written. A last line without its newline counts.
func (k *Keeper) Lines() int64 {
	if k.total > 0 && k.last != '\n' {
		return k.lines + 1
	}
	return k.lines
}

// whole returns all text that is not overwritten, if it is still available.
func (k *Keeper) whole() ([]byte, bool) {
	if k.stays > int64(len(k.head)+len(k.tail)) {
		return nil, false
	}
	return append(k.head[:len(k.head):len(k.head)], k.end()...), true
}

// end returns the last bytes in order.
func (k *Keeper) end() []byte {
	return append(k.tail[k.start:len(k.tail):len(k.tail)], k.tail[:k.start]...)
}

// Limits bounds what a reader is shown.
type Limits struct {
	Whole int // if both streams together have at most this many bytes, all is shown
	Cut   int // else this many bytes of both together are shown; Choose shows more if need be
}

// An Excerpt is the shown part of one stream.
type Excerpt struct {
	Text         string // with a line that counts what is omitted, in its place
	Binary       string // the kind of binary data, of which none is shown; "" for text
	Bytes        int64  // of the whole stream
	Lines        int64
	OmittedBytes int64 // raw bytes that are not in Text
	OmittedLines int64
	FirstOmitted int64 // the first line of the log that is not shown, of either stream; 0: unknown, or none
	Overwritten  int64 // raw bytes that the stream has overwritten itself; they do not count as omitted
}

// Cut returns the excerpts of the two streams of a run. If both do not fit, the
// smaller one gets what it needs, up to half of the space, and the larger one the
// rest.
func Cut(stdout, stderr *Keeper, l Limits) (out, err Excerpt) {
	stdout, stderr = stdout.settled(), stderr.settled()
	if stdout.stays+stderr.stays <= int64(l.Whole) {
		return stdout.cut(l.Whole), stderr.cut(l.Whole)
	}
	small := min(stdout.stays, stderr.stays, int64(l.Cut/2))
	if stdout.stays <= stderr.stays {
		out, err = stdout.cut(int(small)), stderr.cut(l.Cut-int(small))
	} else {
		out, err = stdout.cut(l.Cut-int(small)), stderr.cut(int(small))
	}
	// The streams number their lines as the log does if there is only one.
	if stderr.total == 0 {
		err.FirstOmitted = out.FirstOmitted
	} else if stdout.total == 0 {
		out.FirstOmitted = err.FirstOmitted
	} else {
		out.FirstOmitted, err.FirstOmitted = 0, 0
	}
	return out, err
}

func (k *Keeper) cut(room int) Excerpt {
	e := Excerpt{Bytes: k.total, Lines: k.Lines(), Overwritten: k.total - k.stays}
	if all, ok := k.whole(); ok && len(all) <= room {
		e.Text = k.show(all, 0, len(all))
		return e
	}
	// The margin beyond Limit is not shown, since it may end within a secret.
	head, tail := k.ends(min(room/4, k.Limit), min(room-room/4, k.Limit))
	shown := bytes.Count(head, newline) + bytes.Count(tail, newline)
	if len(tail) > 0 && tail[len(tail)-1] != '\n' {
		shown++
	}
	e.OmittedBytes = k.stays - int64(len(head)+len(tail))
	e.OmittedLines = max(0, e.Lines-int64(shown))
	e.FirstOmitted = 1 + int64(bytes.Count(head, newline))
	before, after := k.sides()
	e.Text = joinEnds(Guard(k.show(before, 0, len(head))), gap(e), Guard(k.show(after, len(after)-len(tail), len(after))))
	return e
}

// show renders p[from:to].
func (k *Keeper) show(p []byte, from, to int) string {
	if k.Mask != nil {
		return Inert(k.Mask(p, from, to))
	}
	return Inert(p[from:to])
}

// sides returns the available text at the beginning and at the end of the stream.
// They are the same if nothing is dropped between them.
func (k *Keeper) sides() (before, after []byte) {
	if all, ok := k.whole(); ok {
		return all, all
	}
	return k.head, k.end()
}

// ends returns the first and the last bytes of the stream, up to the given numbers.
// It cuts on line borders if one is near, and never within a character.
func (k *Keeper) ends(first, last int) (head, tail []byte) {
	head = k.head[:min(first, len(k.head))]
	tail = k.end()
	if all, ok := k.whole(); ok {
		tail = all[len(head):]
	}
	if len(tail) > last {
		tail = lineStart(tail, len(tail)-last)
	}
	return lineEnd(head), tail
}

// lineEnd cuts p after its last newline. If p is a part of one long line, it stays.
func lineEnd(p []byte) []byte {
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		return p[:i+1]
	}
	return wholeRunes(p)
}

// lineStart cuts p at the first line border at or after from. If that would drop more
// than half of the text, it cuts within the line.
func lineStart(p []byte, from int) []byte {
	if p[from-1] == '\n' {
		return p[from:]
	}
	p = p[from:]
	if i := bytes.IndexByte(p, '\n'); i >= 0 && i+1 <= len(p)/2 {
		return p[i+1:]
	}
	for i := 0; i < utf8.UTFMax && i < len(p); i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	return p
}

// wholeRunes drops an incomplete character at the end of p.
func wholeRunes(p []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		c := p[len(p)-i]
		if utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

func gap(e Excerpt) string {
	return markBegin + " " + Count(e.OmittedLines, "line") + ", " + Count(e.OmittedBytes, "byte") + " left out …]\n"
}

func joinEnds(head, gap, tail string) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		gap = "\n" + gap
	}
	return head + gap + tail
}
