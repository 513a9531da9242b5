package rawlog

import (
	"bytes"
	"context"
	"regexp"
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

	// Hide returns the parts of each line that must not be shown, in order. Match
	// is applied to the text with masks, so that a search cannot find out what is
	// hidden. nil: nothing is hidden.
	Hide func([]Line) ([][]Hidden, error)

	// Needs reports whether Match may match a line once its parts are hidden, given
	// what was printed. Other lines are skipped quickly. nil: any line may match.
	Needs func(line []byte) bool
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
	Next     int64 // the line to continue with; an incomplete line is read again
	Searched bool  // the search reached the end of the log or a limit
}

// A Line is a line of a log, or the part of it that is shown.
type Line struct {
	Number  int64
	Off     int64  // offset in the log where the line begins
	Text    []byte // without its line feed
	Skipped int64  // bytes of the line before Text
	Omitted int64  // bytes of the line after Text
	Lost    int64  // bytes printed within the line or before it that the log does not have
	Match   bool   // false: the line is context
}

// Read reads a page. When ctx ends, it returns what it found until then. An error
// means that the log cannot be read.
func (r *Reader) Read(ctx context.Context, q Query) (Page, error) {
	if q.From <= 0 {
		return r.tail(ctx, q)
	}
	c := collector{Query: q}
	err := r.collect(ctx, q.From, &c)
	return r.page(ctx, &c, !c.full), unlessDone(ctx, err)
}

// tail reads the end of the log. Lines of one stream, or matching ones, can be far
// back, so it reads a growing part of the end until it has enough of them.
func (r *Reader) tail(ctx context.Context, q Query) (Page, error) {
	var found Page
	for window := int64(firstWindow); ; window *= 4 {
		c := collector{Query: q, last: true}
		from := r.firstWithin(window)
		if q.Match == nil && q.Stream == 0 {
			from = max(from, r.Lines()-int64(q.Most)+1)
		}
		err := r.collect(ctx, from, &c)
		if ctx.Err() != nil {
			return found, nil // the first lines of this window are not the last ones of the log
		}
		found = r.page(ctx, &c, true)
		if err != nil || c.full || found.Matches >= q.Most || from == 1 {
			return found, err
		}
		found.Searched = false
	}
}

// page returns the collected page. At the end of the log, Next is the line after
// the last one, or the last one itself if it may still grow.
func (r *Reader) page(ctx context.Context, c *collector, toEnd bool) Page {
	p := c.page
	p.Searched = ctx.Err() == nil
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
	err := r.each(ctx, from, c.Stream, func(w row) bool {
		w.lost = r.lost(w)
		w, any := r.onStream(w, c.Stream)
		if any && !c.accept(w) {
			return false
		}
		c.page.Next = w.number + 1
		return true
	})
	if !c.flush() { // the pending rows were read before ctx ended
		return c.err
	}
	return err
}

// A collector builds a page from rows.
type collector struct {
	Query
	page   Page
	last   bool   // collect the last rows instead of the first
	full   bool   // there were more rows than the limits allow
	cost   int    // of the page
	before []Line // become context if the next row matches
	after  int    // how many of the next rows are context

	pending     []row // Hide gets them in one call
	pendingSize int
	err         error
}

// maxPendingRows bounds the bytes of rows in one call of Hide. A call for each line
// would be slow.
const maxPendingRows = 256 << 10

// accept adds a row. It returns false if the page is full without it, or without an
// earlier row.
func (c *collector) accept(w row) bool {
	switch {
	case c.Match == nil:
		return c.place(w, []int{0, 0})
	case c.Hide == nil:
		return c.place(w, c.find(w.text, nil))
	case c.Context == 0 && !c.mayMatch(w):
		return true
	}
	w.text = bytes.Clone(w.text)
	c.pending = append(c.pending, w)
	c.pendingSize += len(w.text) + lineCost
	return c.pendingSize < maxPendingRows || c.flush()
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
		var found []int
		if len(lines) > 0 && lines[0].Number == w.number {
			found = c.find(w.text, hidden[0])
			lines, hidden = lines[1:], hidden[1:]
		}
		if !c.place(w, found) {
			c.page.Next = w.number
			return false
		}
	}
	return true
}

// place adds a row to the page if it matches or is context. It returns false if the
// page is full without it.
func (c *collector) place(w row, found []int) bool {
	switch {
	case found != nil:
		return c.addMatch(c.line(w, found))
	case c.after > 0:
		c.after--
		return c.add(c.line(w, nil))
	case c.Context > 0:
		if len(c.before) == c.Context {
			c.before = c.before[1:]
		}
		c.before = append(c.before, c.line(w, nil))
	}
	return true
}

// find returns where a text matches, or nil. It ignores the CR of a CR LF, which
// terminals print, so that "$" matches the end of the line that a reader sees.
func (c *collector) find(text []byte, hidden []Hidden) []int {
	text = bytes.TrimSuffix(text, carriageReturn)
	if len(hidden) == 0 {
		return c.Match.FindIndex(text)
	}
	var shown []byte
	from := 0
	for _, h := range hidden {
		shown = append(append(shown, text[from:min(h.From, len(text))]...), h.Mask...)
		from = min(h.To, len(text))
	}
	found := c.Match.FindIndex(append(shown, text[from:]...))
	if found != nil {
		found[0], found[1] = printed(found[0], hidden), printed(found[1], hidden)
	}
	return found
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
	for _, b := range c.before {
		if !c.add(b) {
			return false
		}
	}
	c.before = nil
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

// line cuts a row to the part that may be shown, around the match.
func (c *collector) line(w row, found []int) Line {
	most := max(1, c.Bytes-lineCost)
	if c.Match != nil {
		most = min(most, matchBytes)
	}
	from := 0
	if len(w.text) > most && found != nil {
		from = max(0, min(found[0]-most/4, len(w.text)-most))
	}
	for from > 0 && !utf8.RuneStart(w.text[from]) {
		from--
	}
	to := min(from+most, len(w.text))
	for to > from+1 && to < len(w.text) && !utf8.RuneStart(w.text[to]) {
		to--
	}
	return Line{
		Number: w.number, Off: w.off, Text: append([]byte(nil), w.text[from:to]...),
		Skipped: int64(from), Omitted: w.len - int64(to), Lost: w.lost,
	}
}
