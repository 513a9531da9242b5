package rawlog

import (
	"context"
	"io"
	"iter"
	"regexp"
	"unicode/utf8"
)

const (
	// partBytes is how much of a long line is in memory at once.
	partBytes = 128 << 10

	// partOverlap is how much of a part the next one repeats for NeedsParts: more than any
	// text that a pattern can require.
	partOverlap = 16 << 10

	// resumeOverlap is how much of a line is searched again where the time of a search ended
	// within it. A longer match that began before is not found.
	resumeOverlap = 64 << 10
)

// A lineText reads the text of a row, or its part of one stream, at any offset. Reading
// forward is fast.
type lineText struct {
	log    *Reader
	row    row
	stream Stream
	span   int   // the current span
	before int64 // bytes of the text before that span
}

func (r *Reader) lineText(w row, stream Stream) *lineText {
	return &lineText{log: r, row: w, stream: stream, span: r.span(w.off)}
}

// read fills p with the text from an offset on.
func (t *lineText) read(p []byte, from int64) error {
	if t.stream == 0 {
		return t.log.readFull(p, t.row.off+from)
	}
	if from < t.before {
		t.span, t.before = t.log.span(t.row.off), 0
	}
	for len(p) > 0 {
		if t.span == len(t.log.Spans) {
			return io.ErrUnexpectedEOF
		}
		start, size := t.row.part(t.log.Spans[t.span], t.stream)
		if skip := from - t.before; skip < size {
			n := min(size-skip, int64(len(p)))
			if err := t.log.readFull(p[:n], start+skip); err != nil {
				return err
			}
			p, from = p[n:], from+n
			continue
		}
		t.span, t.before = t.span+1, t.before+size
	}
	return nil
}

// part returns the part of a row that a span has, if it may have output of the stream.
func (w row) part(s Span, stream Stream) (start, size int64) {
	if !s.mayHold(stream) {
		return s.Off, 0
	}
	start = max(s.Off, w.off)
	return start, max(0, min(s.end(), w.end)-start)
}

// readFull fills p with bytes of the log.
func (r *Reader) readFull(p []byte, off int64) error {
	n, err := r.file.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == io.EOF:
		return io.ErrUnexpectedEOF // the file was truncated meanwhile
	}
	return err
}

// search returns where in a row the first match begins that begins at or after an offset, or
// -1. It holds only a part of the row in memory, and finds a match of any length. If ctx ends
// before the search does, the page says where to go on.
func (c *collector) search(ctx context.Context, w row, from int64) (at int64, err error) {
	if c.NeedsParts != nil && !c.NeedsParts(c.parts(ctx, w, from)) || c.stopped || c.err != nil {
		return -1, c.err
	}
	match := c.Match
	start := from
	if from > 0 {
		// The character before is not part of the match, but tells that the line does not
		// begin here, and whether a word does.
		if match, err = regexp.Compile("(?s:.)(?:" + match.String() + ")"); err != nil {
			return -1, err
		}
		if start, err = c.before(w, from); err != nil {
			return -1, err
		}
	}
	text := c.shownText(ctx, w, start)
	found := match.FindReaderIndex(text)
	if text.err != nil {
		return -1, c.stop(ctx, w, from, text.at, text.err)
	}
	if found == nil {
		return -1, nil
	}
	if !text.hid {
		return max(from, start+int64(found[0])), nil
	}
	text = c.shownText(ctx, w, start)
	at, err = text.printed(int64(found[0]))
	if err != nil {
		return -1, c.stop(ctx, w, from, from, err)
	}
	return max(from, at), nil
}

// stop records that a search of a row that began at from came only to an offset, if it was
// because ctx has ended. Else it returns the error.
func (c *collector) stop(ctx context.Context, w row, from, at int64, err error) error {
	if ctx.Err() == nil {
		return err
	}
	c.stopped = true
	if c.counting {
		return nil
	}
	c.page.Next, c.page.NextByte = w.number, at
	if at-resumeOverlap > from {
		c.page.NextByte = at - resumeOverlap
	}
	return nil
}

// before returns the offset of the character before an offset.
func (c *collector) before(w row, at int64) (int64, error) {
	p := make([]byte, min(at, utf8.UTFMax))
	err := c.log.lineText(w, c.Stream).read(p, at-int64(len(p)))
	_, n := utf8.DecodeLastRune(p)
	return at - int64(n), err
}

// parts returns the text of a row from an offset on, in parts that overlap.
func (c *collector) parts(ctx context.Context, w row, from int64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		text, p := c.log.lineText(w, c.Stream), make([]byte, partBytes)
		for at := from; at < w.len; at += partBytes - partOverlap {
			err := ctx.Err()
			p = p[:min(partBytes, w.len-at)]
			if err == nil {
				err = text.read(p, at)
			}
			if err != nil {
				c.err = c.stop(ctx, w, from, at, err)
				return
			}
			if !yield(p) || at+int64(len(p)) == w.len {
				return
			}
		}
	}
}

// A shownText reads the text of a row as it is shown, with masks, as an io.RuneReader.
type shownText struct {
	ctx  context.Context // of the one search that reads
	hide func([]Line) ([][]Hidden, error)
	text *lineText
	at   int64 // what is read next
	end  int64
	raw  []byte
	buf  []byte // the text to return next, in hold
	hold []byte
	open string // the mask that the last part ended with
	hid  bool   // a part had a mask
	err  error  // the text is not complete
}

// shownText returns the text of a row from an offset on. It does not have the CR of a CR LF.
func (c *collector) shownText(ctx context.Context, w row, from int64) *shownText {
	t := &shownText{ctx: ctx, hide: c.Hide, text: c.log.lineText(w, c.Stream), at: from, end: w.len}
	if last := make([]byte, 1); w.len > from {
		if t.err = c.log.lineText(w, c.Stream).read(last, w.len-1); last[0] == carriageReturn[0] {
			t.end--
		}
	}
	return t
}

// ReadRune returns the next character, and io.EOF also if the text is not complete.
func (t *shownText) ReadRune() (r rune, size int, err error) {
	for len(t.buf) == 0 || t.buf[0] >= utf8.RuneSelf && !utf8.FullRune(t.buf) {
		shown, _, ok := t.next()
		if !ok {
			break
		}
		t.hold = append(append(t.hold[:0], t.buf...), shown...)
		t.buf = t.hold
	}
	if len(t.buf) == 0 || t.err != nil {
		return 0, 0, io.EOF
	}
	if r = rune(t.buf[0]); r < utf8.RuneSelf {
		t.buf = t.buf[1:]
		return r, 1, nil
	}
	r, size = utf8.DecodeRune(t.buf)
	t.buf = t.buf[size:]
	return r, size, nil
}

// next returns the next part of the text, and what is hidden in it. A mask that two parts
// share is only in the first.
func (t *shownText) next() (shown []byte, hidden []Hidden, ok bool) {
	if t.err == nil && t.at < t.end {
		t.err = t.ctx.Err()
	}
	if t.err != nil || t.at >= t.end {
		return nil, nil, false
	}
	if t.raw == nil {
		t.raw = make([]byte, partBytes)
	}
	part := t.raw[:min(partBytes, t.end-t.at)]
	if t.err = t.text.read(part, t.at); t.err != nil {
		return nil, nil, false
	}
	if hidden, t.err = t.hidden(part); t.err != nil {
		return nil, nil, false
	}
	t.at += int64(len(part))
	return mask(part, hidden), hidden, true
}

// hidden returns what is hidden in a part.
func (t *shownText) hidden(part []byte) ([]Hidden, error) {
	if t.hide == nil {
		return nil, nil
	}
	w := t.text.row
	all, err := t.hide([]Line{{Number: w.number, Off: w.off, Text: part, Skipped: t.at}})
	if err != nil {
		return nil, err
	}
	hidden, open := all[0], ""
	if n := len(hidden); n > 0 {
		t.hid = true
		if hidden[n-1].To == len(part) {
			open = hidden[n-1].Mask
		}
		if hidden[0].From == 0 && hidden[0].Mask == t.open {
			hidden[0].Mask = ""
		}
	}
	t.open = open
	return hidden, nil
}

// printed converts an offset in the shown text to one in the row.
func (t *shownText) printed(at int64) (int64, error) {
	for {
		begin := t.at
		shown, hidden, ok := t.next()
		if !ok {
			return t.at, t.err
		}
		if at < int64(len(shown)) {
			return begin + int64(printed(int(at), hidden)), nil
		}
		at -= int64(len(shown))
	}
}
