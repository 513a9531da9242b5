package redact

import (
	"bytes"
	"slices"
)

// A Merger merges two streams in order of arrival and masks the secrets that a line
// of the other stream interrupts: half of a secret has no recognizable form. It masks
// nothing else; the caller masks complete secrets when it shows the text. Text
// without an interrupted line costs at most a copy.
//
// The merged text has the lines of the output, in order and number. The results of
// Next do not depend on how the pieces were split or when Next was called, as long as
// incomplete lines are shorter than 16 KiB and the other stream prints less than
// 64 KiB before they continue.
//
// Set Redactor before the first call. A Merger is not safe for concurrent use.
type Merger struct {
	Redactor *Redactor

	queue   Pieces // not emitted yet
	last    int    // the stream of the last emitted byte
	emitted [2]emitted
}

// Pieces are the pieces of two streams, 0 and 1, in the order of their arrival.
type Pieces struct {
	text  []byte
	parts []part
}

type part struct{ stream, len int }

// An emitted is the state of a stream after the emitted part of its text.
type emitted struct {
	before []byte // the incomplete unit at the end of the emitted text
	hidden int    // the number of next bytes that belong to a secret whose mask was emitted
	kind   string // the kind of that secret
}

const (
	// margin is the distance from an interruption in which secrets are searched.
	margin = maxKey

	// maxHold bounds the text that is held back until a line continues.
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

// Text returns all text, by arrival.
func (p *Pieces) Text() []byte { return p.text }

// Mixed reports whether the pieces are of both streams.
func (p *Pieces) Mixed() bool { return len(p.parts) > 1 }

// Streams returns the text of each stream.
func (p *Pieces) Streams() (text [2][]byte) {
	off := 0
	for _, x := range p.parts {
		text[x.stream] = append(text[x.stream], p.text[off:off+x.len]...)
		off += x.len
	}
	return text
}

// Size returns the memory that the pieces use.
func (p *Pieces) Size() int { return len(p.text) + 16*len(p.parts) }

// Reset removes all pieces and reuses the memory.
func (p *Pieces) Reset() { p.text, p.parts = p.text[:0], p.parts[:0] }

// Next adds pieces and returns the part of all added text that can be emitted, with
// the number of raw bytes that it represents. If all is set, it returns everything.
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
	if s := q.parts[0].stream; len(q.parts) == 1 && (m.last == s || len(m.emitted[s].before) == 0) && m.emitted[s].hidden == 0 {
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

// alone emits the text of a stream that the other one does not interrupt.
func (m *Merger) alone(text []byte, s int, all bool) ([]byte, int) {
	end := len(text)
	if !all {
		end = unfinished(text)
	}
	if end > 0 {
		m.last = s
		m.emitted[s].remember(m.emitted[s].before, text[:end])
	}
	return text[:end], end
}

// remember stores the incomplete unit at the end of a text, which consists of two slices.
func (g *emitted) remember(before, text []byte) {
	if len(text) < margin {
		text = slices.Concat(before, text)
	}
	g.before = append(g.before[:0:0], text[unfinished(text):]...)
}

// unfinished returns where the incomplete last unit of a text begins: a line, or a
// private key. It reads only the last bytes.
func unfinished(text []byte) int {
	off := max(0, len(text)-margin)
	tail := text[off:]
	start := bytes.LastIndexByte(tail, '\n') + 1
	begin := []byte(dashes + "BEGIN ")
	if !bytes.Contains(tail, begin) { // much faster than LastIndex
		return off + start
	}
	i := bytes.LastIndex(tail, begin)
	key, last, ends := bytes.Cut(tail[i:], []byte(dashes+"END "))
	if bytes.Contains(key, []byte(keyLabel)) && (!ends || !bytes.Contains(last, []byte{'\n'})) {
		start = min(start, bytes.LastIndexByte(tail[:i], '\n')+1)
	}
	return off + start
}

// A track is the available text of one stream.
type track struct {
	text  []byte
	from  int   // where the text begins that is not emitted yet
	seams []int // where the other stream interrupts it
	ends  int   // the offset after its last byte in the merged text
	spans []Span
}

func (m *Merger) track(q *Pieces, s int) *track {
	g := &m.emitted[s]
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
	if t.ends > 0 && t.ends < off { // the other stream interrupts it there
		t.seams = append(t.seams, len(t.text))
	}
	t.spans = m.Redactor.cut(t.text, t.seams)
	if g.hidden > 0 {
		t.spans = merge(append(t.spans, Span{t.from, min(t.from+g.hidden, len(t.text)), g.kind}))
	}
	return t
}

// cut returns the secrets of interrupted lines, and interrupted private keys.
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

// lineAround returns the line that contains a seam, up to margin from it. The line is
// empty if the seam is between two lines.
func lineAround(text []byte, seam int) (from, to int) {
	if text[seam-1] == '\n' {
		return seam, seam
	}
	from = max(0, seam-margin)
	from += bytes.LastIndexByte(text[from:seam], '\n') + 1
	return from, lineEnd(text, seam, seam+margin)
}

// lineEnd returns the end of the line that contains a byte, but at most most.
func lineEnd(text []byte, from, most int) int {
	most = max(from, min(len(text), most))
	if i := bytes.IndexByte(text[from:most], '\n'); i >= 0 {
		return from + i
	}
	return most
}

// near returns the secrets in a part of a line. It skips a secret that may continue
// beyond the part: the caller masks it when it shows the whole line.
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

// settled returns how much of the merged text can be emitted: up to the first unit
// that may continue, unless maxHold bytes followed it.
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

// offset returns the offset of the nth byte of a stream in the merged text.
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
		m.emitted[s].record(t, at[s])
	}
	return out
}

// record stores the state of a track whose text before an offset is emitted.
func (g *emitted) record(t *track, at int) {
	g.remember(nil, t.text[:at])
	g.hidden = 0
	for _, x := range t.spans {
		if x.From < at && at < x.To {
			g.hidden, g.kind = x.To-at, x.Kind
		}
	}
}

// appendMasked appends a part of the track. For a masked secret of several lines it
// also appends the line feeds.
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
