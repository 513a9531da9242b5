package redact

import (
	"bytes"
	"slices"
)

// A Merger puts two streams together in the order of their arrival, and masks
// the secrets that this cuts: behind the other stream's line, half of a secret
// has no form any more. It masks nothing else, since whoever shows the text masks
// what is whole. Text that no secret can be cut in costs a copy at most.
//
// A line of ours ends where one of the output does, and the lines keep their
// order and their number. What Next returns does not depend on how the pieces were cut, nor on
// when it was called, as long as unfinished lines are shorter than 16 KiB, and
// the other stream prints less than 64 KiB before they go on.
//
// Fill Redactor, then call. It is not safe for use by several goroutines.
type Merger struct {
	Redactor *Redactor

	queue Pieces // not given yet
	last  int    // the stream that the last given byte is of
	given [2]given
}

// Pieces are the pieces of two streams, 0 and 1, in the order of their arrival.
type Pieces struct {
	text  []byte
	parts []part
}

type part struct{ stream, len int }

// A given is what is remembered of a stream's text that was given.
type given struct {
	before []byte // the unit that had not ended
	hidden int    // so many of the next bytes are of a secret whose mask was given
	kind   string // of that secret
}

const (
	// margin is how far from a cut a secret is looked for.
	margin = maxKey

	// maxHold bounds how much waits for a line to go on.
	maxHold = 64 << 10
)

// Add adds a piece.
func (p *Pieces) Add(stream int, text []byte) {
	p.text = append(p.text, text...)
	p.extend(stream, len(text))
}

func (p *Pieces) extend(stream, n int) {
	if k := len(p.parts) - 1; k >= 0 && p.parts[k].stream == stream {
		p.parts[k].len += n
	} else if n > 0 {
		p.parts = append(p.parts, part{stream, n})
	}
}

// Size is how much memory they take.
func (p *Pieces) Size() int { return len(p.text) + 16*len(p.parts) }

// Reset forgets them and keeps the memory.
func (p *Pieces) Reset() { p.text, p.parts = p.text[:0], p.parts[:0] }

// Next takes pieces, and returns what can be given of all that was taken, with
// the number of bytes that it stands for. With all set, that is everything.
// The text is valid until the next call or until p changes.
func (m *Merger) Next(p *Pieces, all bool) (text []byte, raw int) {
	q := p
	if len(m.queue.text) > 0 {
		q = &m.queue
		q.text = append(q.text, p.text...)
		for _, x := range p.parts {
			q.extend(x.stream, x.len)
		}
	}
	if len(q.parts) == 0 {
		return nil, 0
	}
	text, raw = m.next(q, all)
	rest := Pieces{}
	if raw < len(q.text) {
		rest.text = slices.Clone(q.text[raw:])
		skip := raw
		for _, x := range q.parts {
			n := max(0, x.len-skip)
			skip -= x.len - n
			rest.extend(x.stream, n)
		}
	}
	m.queue = rest
	return text, raw
}

func (m *Merger) next(q *Pieces, all bool) ([]byte, int) {
	if s := q.parts[0].stream; len(q.parts) == 1 && (m.last == s || len(m.given[s].before) == 0) && m.given[s].hidden == 0 {
		return m.alone(q.text, s, all)
	}
	var tracks [2]*track
	for s := range tracks {
		tracks[s] = m.track(q, s)
	}
	end := len(q.text)
	if !all {
		end = settled(q, tracks)
	}
	return m.weave(q, tracks, end), end
}

// alone gives the text of a stream that the other one does not cut.
func (m *Merger) alone(text []byte, s int, all bool) ([]byte, int) {
	end := len(text)
	if !all {
		end = unfinished(text)
	}
	if end > 0 {
		m.last = s
		m.given[s].remember(m.given[s].before, text[:end])
	}
	return text[:end], end
}

// remember keeps what has not ended of a text that two slices are.
func (g *given) remember(before, text []byte) {
	if len(text) < margin {
		text = slices.Concat(before, text)
	}
	g.before = append(g.before[:0:0], text[unfinished(text):]...)
}

// unfinished returns where the last unit of a text begins, if it has not ended: a
// line, or a private key. It looks at the last bytes only.
func unfinished(text []byte) int {
	off := max(0, len(text)-margin)
	tail := text[off:]
	start := bytes.LastIndexByte(tail, '\n') + 1
	begin := []byte(dashes + "BEGIN ")
	if !bytes.Contains(tail, begin) { // far quicker than LastIndex
		return off + start
	}
	i := bytes.LastIndex(tail, begin)
	key, last, ends := bytes.Cut(tail[i:], []byte(dashes+"END "))
	if bytes.Contains(key, []byte(keyLabel)) && (!ends || !bytes.Contains(last, []byte{'\n'})) {
		start = min(start, bytes.LastIndexByte(tail[:i], '\n')+1)
	}
	return off + start
}

// A track is what is at hand of one stream.
type track struct {
	text  []byte
	from  int   // where what is not given begins
	seams []int // where the other stream stands within it
	ends  int   // where in the merged text its last byte stands
	spans []Span
}

func (m *Merger) track(q *Pieces, s int) *track {
	g := &m.given[s]
	t := &track{text: slices.Clone(g.before), from: len(g.before)}
	off := 0
	for i, x := range q.parts {
		if x.stream == s {
			if len(t.text) > 0 && (i > 0 || m.last != s) {
				t.seams = append(t.seams, len(t.text))
			}
			t.text = append(t.text, q.text[off:off+x.len]...)
			t.ends = off + x.len
		}
		off += x.len
	}
	if t.ends > 0 && t.ends < off { // it is cut there, unless it has ended
		t.seams = append(t.seams, len(t.text))
	}
	t.spans = m.Redactor.cut(t.text, t.seams)
	if g.hidden > 0 {
		t.spans = merge(append(t.spans, Span{t.from, min(t.from+g.hidden, len(t.text)), g.kind}))
	}
	return t
}

// cut returns the secrets of lines that are cut, and private keys that are.
func (r *Redactor) cut(text []byte, seams []int) (spans []Span) {
	if len(seams) > 0 && bytes.Contains(text, []byte(keyLabel)) {
		for _, x := range r.Find(text) {
			if x.Kind == privateKey && x.touches(seams) {
				spans = append(spans, x)
			}
		}
	}
	for len(seams) > 0 {
		from, to := lineAround(text, seams[0])
		n := 1
		for ; n < len(seams) && seams[n] < to; n++ {
			to = lineEnd(text, to, seams[n]+margin)
		}
		if from < to {
			spans = append(spans, r.near(text, from, to, seams[:n])...)
		}
		seams = seams[n:]
	}
	return merge(spans)
}

// lineAround returns the line that a seam is in, as far as it matters. Between two
// lines there is none.
func lineAround(text []byte, seam int) (from, to int) {
	if text[seam-1] == '\n' {
		return seam, seam
	}
	from = max(0, seam-margin)
	from += bytes.LastIndexByte(text[from:seam], '\n') + 1
	return from, lineEnd(text, seam, seam+margin)
}

// lineEnd returns where the line ends that a byte is in, at the latest at most.
func lineEnd(text []byte, from, most int) int {
	most = max(from, min(len(text), most))
	if i := bytes.IndexByte(text[from:most], '\n'); i >= 0 {
		return from + i
	}
	return most
}

// near returns the secrets in a line. Where the line goes on, one that only
// seems to end there is left to who sees all of it.
func (r *Redactor) near(text []byte, from, to int, seams []int) (spans []Span) {
	for _, x := range r.Find(text[from:to]) {
		x.From, x.To = x.From+from, x.To+from
		more := to < len(text) && text[to] != '\n' && x.To == to || from > 0 && text[from-1] != '\n' && x.From == from
		if !more || x.touches(seams) {
			spans = append(spans, x)
		}
	}
	return spans
}

func (s Span) touches(seams []int) bool {
	i, _ := slices.BinarySearch(seams, s.From)
	return i < len(seams) && seams[i] <= s.To
}

// settled returns how much of the merged text can be given: up to the first unit
// that may go on, unless it has been waited for long enough.
func settled(q *Pieces, tracks [2]*track) int {
	end := len(q.text)
	for s, t := range tracks {
		open := len(t.text) - unfinished(t.text)
		at := offset(q, s, len(t.text)-t.from-min(open, len(t.text)-t.from))
		if open > 0 && t.ends > 0 && (t.ends == len(q.text) || len(q.text)-at <= maxHold) {
			end = min(end, at)
		}
	}
	return end
}

// offset returns where in the merged text the nth byte of a stream stands.
func offset(q *Pieces, s, n int) int {
	off := 0
	for _, x := range q.parts {
		if x.stream == s {
			if n < x.len {
				return off + n
			}
			n -= x.len
		}
		off += x.len
	}
	return off
}

// weave returns the merged text up to an offset.
func (m *Merger) weave(q *Pieces, tracks [2]*track, end int) []byte {
	out := make([]byte, 0, end)
	at := [2]int{tracks[0].from, tracks[1].from}
	off := 0
	for _, x := range q.parts {
		n := min(x.len, end-off)
		if n <= 0 {
			break
		}
		out = tracks[x.stream].appendMasked(out, at[x.stream], at[x.stream]+n)
		at[x.stream] += n
		off += n
		m.last = x.stream
	}
	for s, t := range tracks {
		m.given[s].leave(t, at[s])
	}
	return out
}

// leave remembers a track from which all before an offset is given.
func (g *given) leave(t *track, at int) {
	g.remember(nil, t.text[:at])
	g.hidden = 0
	for _, x := range t.spans {
		if x.From < at && at < x.To {
			g.hidden, g.kind = x.To-at, x.Kind
		}
	}
}

// appendMasked appends a part of the track, with the ends of the lines that its
// masks stand for.
func (t *track) appendMasked(out []byte, from, to int) []byte {
	for len(t.spans) > 0 && t.spans[0].To <= from {
		t.spans = t.spans[1:]
	}
	for _, x := range t.spans {
		if x.From >= to {
			break
		}
		if x.From > from {
			out = append(out, t.text[from:x.From]...)
			from = x.From
		}
		rest := min(x.To, to)
		out = append(out, x.Mask()...)
		out = append(out, bytes.Repeat([]byte{'\n'}, bytes.Count(t.text[from:rest], []byte{'\n'}))...)
		from = rest
	}
	return append(out, t.text[from:to]...)
}
