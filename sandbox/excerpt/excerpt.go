// Package excerpt keeps the ends of a command's output while it streams by, and
// cuts from them what a reader is shown: all of it where it is small, else its
// head and its tail on line borders, with true counts of what is left out.
//
// It keeps raw bytes and shows text: what it returns is valid UTF-8 without
// control characters, so that a terminal, a log viewer or JSON can bear it. It
// does not judge what matters in the output, and it does not keep the output;
// the raw log does.
//
// A progress bar that is drawn a thousand times in one line would take all the
// room. So what a line overwrites of itself is taken out as it is written, before
// any cut, and counted. Lines that are redrawn by moving the cursor up stay.
package excerpt

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Keeper takes one stream of output and keeps its first and its last Limit
// bytes for showing. Its zero value with a Limit is ready. It is not safe for use by
// several goroutines at once.
type Keeper struct {
	Limit int

	// Mask hides what no reader may see: it returns p[from:to] without it. The
	// rest of p tells what lies across the borders; what was overwritten is not in
	// it. nil hides nothing.
	Mask func(p []byte, from, to int) []byte

	line  line // the last one, as far as it may still be overwritten
	head  []byte
	tail  []byte // a ring once it is Limit long; its oldest byte is at start
	start int
	stays int64 // bytes that went to head and tail
	total int64
	lines int64 // newlines
	last  byte
}

// Write keeps what is to be kept of p. It never fails.
func (k *Keeper) Write(p []byte) (int, error) {
	n := len(p)
	if n == 0 {
		return 0, nil
	}
	k.total += int64(n)
	k.lines += int64(bytes.Count(p, newline))
	k.last = p[n-1]
	k.line.write(p, k.keep)
	return n, nil
}

// keep keeps what is not overwritten.
func (k *Keeper) keep(p []byte) {
	k.stays += int64(len(p))
	if room := k.kept() - len(k.head); room > 0 {
		take := min(room, len(p))
		k.head = append(k.head, p[:take]...)
		p = p[take:]
	}
	k.ring(p)
}

// settled returns a Keeper that has the last line too, as it stands.
func (k *Keeper) settled() *Keeper {
	if len(k.line.now) == 0 && !k.line.cr {
		return k
	}
	c := *k
	c.head, c.tail = slices.Clip(k.head), slices.Clone(k.tail)
	k.line.finish(c.keep)
	return &c
}

var newline = []byte{'\n'}

// margin is how much more than its Limit a Keeper with a Mask keeps at each end,
// so that the Mask sees all of what a cut goes through: an RSA key of 8,192 bits
// has 6,400 bytes.
const margin = 8 << 10

// kept is how much is kept of each end.
func (k *Keeper) kept() int {
	if k.Mask == nil {
		return k.Limit
	}
	return k.Limit + margin
}

func (k *Keeper) ring(p []byte) {
	kept := k.kept()
	if len(p) >= kept {
		k.tail = append(k.tail[:0], p[len(p)-kept:]...)
		k.start = 0
		return
	}
	if grow := min(kept-len(k.tail), len(p)); grow > 0 {
		k.tail = append(k.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		n := copy(k.tail[k.start:], p)
		k.start = (k.start + n) % kept
		p = p[n:]
	}
}

// Bytes returns how much was written in all.
func (k *Keeper) Bytes() int64 { return k.total }

// Lines returns how many lines that is; a last one without its newline counts.
func (k *Keeper) Lines() int64 {
	if k.total > 0 && k.last != '\n' {
		return k.lines + 1
	}
	return k.lines
}

// whole returns all that stays of what was written, where it is still at hand.
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

// Limits says how much a reader is shown.
type Limits struct {
	Whole int // up to so many bytes, of both streams together, are shown as they are
	Cut   int // else so many of both together
}

// An Excerpt is what is shown of one stream.
type Excerpt struct {
	Text         string // with one line of ours where something is left out
	Bytes        int64  // of the whole stream
	Lines        int64
	OmittedBytes int64 // raw bytes that Text does not show
	OmittedLines int64
	Overwritten  int64 // raw bytes that the stream has itself overwritten; they are not omitted
}

// Cut makes the excerpts of a run's two streams. Where both do not fit, the
// smaller one gets what it needs up to half of the room, the larger the rest.
func Cut(stdout, stderr *Keeper, l Limits) (out, err Excerpt) {
	stdout, stderr = stdout.settled(), stderr.settled()
	if stdout.stays+stderr.stays <= int64(l.Whole) {
		return stdout.cut(l.Whole), stderr.cut(l.Whole)
	}
	small := min(stdout.stays, stderr.stays, int64(l.Cut/2))
	if stdout.stays <= stderr.stays {
		return stdout.cut(int(small)), stderr.cut(l.Cut - int(small))
	}
	return stdout.cut(l.Cut - int(small)), stderr.cut(int(small))
}

func (k *Keeper) cut(room int) Excerpt {
	e := Excerpt{Bytes: k.total, Lines: k.Lines(), Overwritten: k.total - k.stays}
	if all, ok := k.whole(); ok && len(all) <= room {
		e.Text = k.show(all, 0, len(all))
		return e
	}
	// Beyond Limit lies the margin, whose far end may be half of a secret.
	head, tail := k.ends(min(room/4, k.Limit), min(room-room/4, k.Limit))
	shown := bytes.Count(head, newline) + bytes.Count(tail, newline)
	if len(tail) > 0 && tail[len(tail)-1] != '\n' {
		shown++
	}
	e.OmittedBytes = k.stays - int64(len(head)+len(tail))
	e.OmittedLines = max(0, e.Lines-int64(shown))
	before, after := k.sides()
	e.Text = joinEnds(k.show(before, 0, len(head)), gap(e), k.show(after, len(after)-len(tail), len(after)))
	return e
}

// show renders p[from:to].
func (k *Keeper) show(p []byte, from, to int) string {
	if k.Mask != nil {
		return Inert(k.Mask(p, from, to))
	}
	return Inert(p[from:to])
}

// sides returns what is at hand from the first byte on and what is up to the
// last: the same where nothing is lost between.
func (k *Keeper) sides() (before, after []byte) {
	if all, ok := k.whole(); ok {
		return all, all
	}
	return k.head, k.end()
}

// ends returns the first and the last bytes of the stream, at most so many,
// on line borders where there are any near, never within a character.
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

// lineEnd cuts p after its last newline. A first line that is longer than all
// the room is shown in part.
func lineEnd(p []byte) []byte {
	if i := bytes.LastIndexByte(p, '\n'); i >= 0 {
		return p[:i+1]
	}
	return wholeRunes(p)
}

// lineStart cuts p at the first line border from from on, unless that would
// take more than half of what is there: then within the line.
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

// wholeRunes drops a character that p's end cuts in two.
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
	return "[… " + Count(e.OmittedLines, "line") + ", " + Count(e.OmittedBytes, "byte") + " left out …]\n"
}

func joinEnds(head, gap, tail string) string {
	if head != "" && !strings.HasSuffix(head, "\n") {
		gap = "\n" + gap
	}
	return head + gap + tail
}

// Clip returns s where it has at most so many bytes, or else its first ones, cut
// between two characters, and "…". What is no UTF-8 at the cut is left out.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
