package rawlog

import (
	"bytes"
	"context"
	"iter"
	"regexp"
	"time"
	"unicode/utf8"
)

const (
	// lineCost is what a line costs in addition to its bytes: its number and its
	// end.
	lineCost = 12

	// matchBytes bounds the part of a matching line that is shown, around the match.
	// Lines of a megabyte would fill every page.
	matchBytes = 2000

	// firstWindow is how many bytes at the end of a log tail reads first.
	firstWindow = 256 << 10
)

// A Query says what to read from a log.
type Query struct {
	From    int64          // the first line, counted from 1; 0: the last lines of the log
	Most    int            // limit of lines; with Match, of matching lines
	Bytes   int            // limit of their bytes, roughly
	Stream  Stream         // only output of this stream; 0: all
	Match   *regexp.Regexp // only matching lines; nil: all
	Context int            // lines to show before and after a match

	// FromByte skips so many bytes of the line From. A search finds only what begins after
	// them.
	FromByte int64

	// CountFor is how long matches are counted after the page is full; 0: they are not.
	CountFor time.Duration

	// Hide returns the parts of each line that must not be shown, in order. Match
	// is applied to the text with masks, so that a search cannot find out what is
	// hidden. nil: nothing is hidden.
	Hide func([]Line) ([][]Hidden, error)

	// Needs reports whether Match may match a line once its parts are hidden, given
	// what was printed. Other lines are skipped quickly. nil: any line may match.
	Needs func(line []byte) bool

	// NeedsParts is Needs for a long line, whose parts overlap. It is nil if Needs is.
	NeedsParts func(parts iter.Seq[[]byte]) bool
}

// Hidden is a part of a line's Text, and what is shown instead.
type Hidden struct {
	From, To int
	Mask     string
}

// A Page is the result of a Query.
type Page struct {
	Lines    []Line
	Matches  int   // how many of them match
	Total    int   // how many lines match: of the whole log, or from the line From on
	Counted  bool  // Total is exact; else it is a lower bound
	Next     int64 // the line to continue with; an incomplete line is read again
	NextByte int64 // bytes of Next to skip, since they were searched; 0 unless a search was stopped within a long line
	Searched bool  // the search reached the end of the log or a limit
	Full     bool  // there were more lines than the limits allow
}

// A Line is a line of a log, or the part of it that is shown.
type Line struct {
	Number  int64
	Off     int64  // offset in the log where the line begins
	Text    []byte // without its line feed
	Skipped int64  // bytes of the line before Text
	Omitted int64  // bytes of the line after Text
	Size    int64  // bytes of the whole line
	Lost    int64  // bytes printed within the line or before it that the log does not have
	Match   bool   // false: the line is context
}

// Read reads a page. When ctx ends, it returns what it found until then. An error
// means that the log cannot be read.
func (r *Reader) Read(ctx context.Context, q Query) (Page, error) {
	if q.From <= 0 {
		return r.tail(ctx, q)
	}
	c := collector{log: r, Query: q}
	err := r.collect(ctx, q.From, &c)
	return r.page(ctx, &c, !c.full), unlessDone(ctx, err)
}

// tail reads the end of the log. Lines of one stream, or matching ones, can be far
// back, so it reads a growing part of the end until it has enough of them.
func (r *Reader) tail(ctx context.Context, q Query) (Page, error) {
	var found Page
	for window := int64(firstWindow); ; window *= 4 {
		c := collector{log: r, Query: q, last: true}
		from := r.firstWithin(window)
		if q.Match == nil && q.Stream == 0 {
			from = max(from, r.Lines()-int64(q.Most)+1)
		}
		err := r.collect(ctx, from, &c)
		if ctx.Err() != nil { // the first lines of this window are not the last ones of the log
			found.Next, found.Searched, found.Counted = 1, false, false
			return found, nil
		}
		found = r.page(ctx, &c, true)
		switch {
		case err != nil || from == 1:
			return found, err
		case c.full || found.Matches >= q.Most:
			return found, r.countBefore(ctx, from, q, &found)
		}
		found.Searched, found.Counted = false, false
	}
}

// countBefore adds the matches before a line to those that a page counts from there on.
func (r *Reader) countBefore(ctx context.Context, line int64, q Query, found *Page) error {
	found.Counted = false
	if q.Match == nil || q.CountFor <= 0 {
		return nil
	}
	c := collector{log: r, Query: q, until: line, counting: true}
	err := r.collect(ctx, 1, &c)
	found.Total += c.page.Total
	found.Counted = c.page.Counted
	return unlessDone(ctx, err)
}

// page returns the collected page. At the end of the log, Next is the line after
// the last one, or the last one itself if it may still grow.
func (r *Reader) page(ctx context.Context, c *collector, toEnd bool) Page {
	p := c.page
	p.Full = c.full
	p.Searched = c.counting || ctx.Err() == nil && !c.stopped
	if p.Searched && toEnd {
		p.Next = r.Lines() + 1
		if r.partial && !r.ended {
			p.Next--
		}
	}
	p.Next = max(p.Next, c.From, 1)
	return p
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// firstWithin returns a line such that it and the lines after it have at least
// window bytes, or are the whole log.
func (r *Reader) firstWithin(window int64) int64 {
	if window >= r.size {
		return 1
	}
	return r.Spans[r.span(r.size-window)].Line + 1
}

// collect passes the rows of c.Stream to a collector.
func (r *Reader) collect(ctx context.Context, from int64, c *collector) error {
	ctx, c.cancel = context.WithCancel(ctx)
	defer c.endCount()
	if c.counting {
		c.count()
	}
	toEnd := true
	err := r.each(ctx, from, c.Stream, func(w row) bool {
		if c.until > 0 && w.number >= c.until {
			return false
		}
		w.lost = r.lost(w)
		w, any := r.onStream(w, c.Stream)
		if any && !c.accept(ctx, w) {
			toEnd = false
			return false
		}
		if !c.counting {
			c.page.Next = w.number + 1
		}
		return true
	})
	if !c.flush() { // the pending rows were read before ctx ended
		toEnd = false
	}
	if c.err != nil {
		return c.err
	}
	c.page.Counted = toEnd && ctx.Err() == nil
	if c.counting && ctx.Err() != nil {
		return nil
	}
	return err
}

// A collector builds a page from rows.
type collector struct {
	Query
	log   *Reader
	page  Page
	last  bool   // collect the last rows instead of the first
	full  bool   // there were more rows than the limits allow
	cost  int    // of the page
	above []Line // become context if the next row matches
	after int    // how many of the next rows are context

	until    int64       // the line to stop before; 0: none
	counting bool        // the page is full; matches are only counted
	limit    *time.Timer // of the counting; nil before
	cancel   func()      // ends the reading
	stopped  bool        // a search was stopped within a row

	pending     []row // Hide gets them in one call
	pendingSize int
	err         error
}

// maxPendingRows bounds the bytes of rows in one call of Hide. A call for each line
// would be slow.
const maxPendingRows = 256 << 10

// accept adds a row. It returns false if the page is full without it, or without an
// earlier row.
func (c *collector) accept(ctx context.Context, w row) bool {
	switch {
	case c.Match == nil:
		return c.place(w, 0)
	case w.len > int64(len(w.text)) || c.skipped(w) > 0:
		return c.flush() && c.acceptLong(ctx, w)
	case c.Hide == nil:
		return c.place(w, c.find(w.text, nil))
	case (c.Context == 0 || c.counting) && !c.mayMatch(w):
		return true
	}
	w.text = bytes.Clone(w.text)
	c.pending = append(c.pending, w)
	c.pendingSize += len(w.text) + lineCost
	return c.pendingSize < maxPendingRows || c.flush()
}

// acceptLong is accept for a row that is searched in parts.
func (c *collector) acceptLong(ctx context.Context, w row) bool {
	at, err := c.search(ctx, w, c.skipped(w))
	c.err = err
	return err == nil && !c.stopped && c.place(w, at)
}

// skipped returns how many bytes of a row the query skips.
func (c *collector) skipped(w row) int64 {
	if c.FromByte > 0 && w.number == c.From {
		return min(c.FromByte, w.len)
	}
	return 0
}

// mayMatch reports whether Match may match a row.
func (c *collector) mayMatch(w row) bool {
	return c.Needs == nil || c.Needs(w.text)
}

// flush places the pending rows.
func (c *collector) flush() bool {
	rows := c.pending
	c.pending, c.pendingSize = nil, 0
	var lines []Line
	for _, w := range rows {
		if c.mayMatch(w) {
			lines = append(lines, Line{Number: w.number, Off: w.off, Text: w.text})
		}
	}
	var hidden [][]Hidden
	if len(lines) > 0 {
		if hidden, c.err = c.Hide(lines); c.err != nil {
			return false
		}
	}
	for _, w := range rows {
		at := int64(-1)
		if len(lines) > 0 && lines[0].Number == w.number {
			at = c.find(w.text, hidden[0])
			lines, hidden = lines[1:], hidden[1:]
		}
		if !c.place(w, at) {
			if c.err == nil {
				c.page.Next = w.number
			}
			return false
		}
	}
	return true
}

// place adds a row to the page if it matches, at an offset, or is context. It returns false
// if the page is full without it and matches need not be counted.
func (c *collector) place(w row, at int64) bool {
	if at >= 0 && c.Match != nil {
		c.page.Total++
	}
	if c.counting || c.placed(w, at) {
		return true
	}
	if c.err != nil || c.Match == nil || c.CountFor <= 0 {
		return false
	}
	c.page.Next = w.number
	c.count()
	return true
}

// count makes a collector only count matches from now on, for a limited time.
func (c *collector) count() {
	c.counting = true
	c.limit = time.AfterFunc(c.CountFor, c.cancel)
}

func (c *collector) endCount() {
	c.cancel()
	if c.limit != nil {
		c.limit.Stop()
	}
}

// placed adds a row to the page. It returns false if the page is full without it.
func (c *collector) placed(w row, at int64) bool {
	switch {
	case at >= 0:
		l := c.line(w, at)
		return c.err == nil && c.addMatch(l)
	case c.after > 0:
		c.after--
		l := c.line(w, -1)
		return c.err == nil && c.add(l)
	case c.Context > 0:
		if len(c.above) == c.Context {
			c.above = c.above[1:]
		}
		c.above = append(c.above, c.line(w, -1))
		return c.err == nil
	}
	return true
}

// find returns where a text matches, or -1. It ignores the CR of a CR LF, which
// terminals print, so that "$" matches the end of the line that a reader sees.
func (c *collector) find(text []byte, hidden []Hidden) int64 {
	text = bytes.TrimSuffix(text, carriageReturn)
	found := c.Match.FindIndex(mask(text, hidden))
	if found == nil {
		return -1
	}
	return int64(printed(found[0], hidden))
}

// mask returns a text as it is shown.
func mask(text []byte, hidden []Hidden) []byte {
	if len(hidden) == 0 {
		return text
	}
	var shown []byte
	from := 0
	for _, h := range hidden {
		shown = append(append(shown, text[from:min(h.From, len(text))]...), h.Mask...)
		from = min(h.To, len(text))
	}
	return append(shown, text[from:]...)
}

// printed converts an offset in a text with masks to one in the printed text.
func printed(at int, hidden []Hidden) int {
	for _, h := range hidden {
		switch {
		case at < h.From:
			return at
		case at < h.From+len(h.Mask):
			return h.From
		}
		at += h.To - h.From - len(h.Mask)
	}
	return at
}

var carriageReturn = []byte{'\r'}

func (c *collector) addMatch(l Line) bool {
	if c.page.Matches >= c.Most && !c.last {
		c.full = true
		return false
	}
	l.Match = true
	for _, b := range c.above {
		if !c.add(b) {
			return false
		}
	}
	c.above = nil
	if !c.add(l) {
		return false
	}
	c.after = c.Context
	return true
}

// add adds a line if the limits allow, or drops earlier lines for it if c.last. The
// first line always fits, since line cuts it.
func (c *collector) add(l Line) bool {
	cost := len(l.Text) + lineCost
	if !c.last && c.cost+cost > c.Bytes && len(c.page.Lines) > 0 {
		c.full = true
		return false
	}
	c.page.Lines = append(c.page.Lines, l)
	c.cost += cost
	if l.Match {
		c.page.Matches++
	}
	for c.page.Matches > c.Most || c.cost > c.Bytes && len(c.page.Lines) > 1 {
		c.full = true
		c.drop()
	}
	return true
}

// drop drops the first line.
func (c *collector) drop() {
	first := c.page.Lines[0]
	c.page.Lines = c.page.Lines[1:]
	c.cost -= len(first.Text) + lineCost
	if first.Match {
		c.page.Matches--
	}
}

// line cuts a row to the part that may be shown: its beginning, or that around a match at an
// offset.
func (c *collector) line(w row, at int64) Line {
	most := int64(max(1, c.Bytes-lineCost))
	if c.Match != nil {
		most = min(most, matchBytes)
	}
	from := c.skipped(w)
	if c.Match != nil && w.len > most && at >= 0 {
		from = max(0, min(at-most/4, w.len-most))
	}
	text, from := c.cut(w, from, min(from+most, w.len))
	return Line{
		Number: w.number, Off: w.off, Text: text,
		Skipped: from, Omitted: w.len - from - int64(len(text)), Size: w.len, Lost: w.lost,
	}
}

// cut returns the text of a row between two offsets, and where it begins: at a character, and
// it ends at one.
func (c *collector) cut(w row, from, to int64) ([]byte, int64) {
	first, last := max(0, from-utf8.UTFMax+1), min(w.len, to+1)
	p := make([]byte, last-first)
	if last <= int64(len(w.text)) {
		copy(p, w.text[first:last])
	} else if c.err = c.log.lineText(w, c.Stream).read(p, first); c.err != nil {
		return nil, from
	}
	for from > first && !runeStart(p, from-first) {
		from--
	}
	for to > from+1 && to < w.len && !utf8.RuneStart(p[to-first]) {
		to--
	}
	return p[from-first : to-first : to-first], from
}

// runeStart reports whether a character begins at an offset, or the text ends there.
func runeStart(p []byte, at int64) bool { return at == int64(len(p)) || utf8.RuneStart(p[at]) }
