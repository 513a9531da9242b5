package rawlog

import (
	"bytes"
	"context"
	"regexp"
	"unicode/utf8"
)

const (
	// lineCost is what a line counts beside its bytes: a number before it, and
	// its end.
	lineCost = 12

	// matchBytes is how much of a line is shown that was searched for: enough
	// around the match. Lines of a megabyte would fill every page.
	matchBytes = 2000

	// tailWindow is how much of the end is looked at first.
	tailWindow = 256 << 10
)

// A Query says what to read of a log.
type Query struct {
	From    int64          // the first line, counted from 1; 0: so many at the end
	Most    int            // lines; of a search, those that match
	Bytes   int            // of those lines, roughly
	Stream  Stream         // what was printed there only; 0: all
	Match   *regexp.Regexp // lines that it matches only; nil: all
	Context int            // lines that are shown before and behind such a one

	// Hide says what no reader sees of lines, part by part and in order. Match is
	// held against what is left, so that nobody finds out by searching what is
	// hidden. nil: nothing is.
	Hide func([]Line) ([][]Hidden, error)

	// Needs reports whether Match may match a line once it is hidden what of it is
	// to be, by what was printed: others are passed over quickly. nil: any may.
	Needs func(line []byte) bool
}

// Hidden is a part of a line's Text, and what is shown in its place.
type Hidden struct {
	From, To int
	Mask     string
}

// A Page is what was read.
type Page struct {
	Lines    []Line
	Matches  int   // how many of them match
	Next     int64 // the line to go on with; one that is not complete yet comes again
	Searched bool  // the search came to its end, or found as much as it might
}

// A Line is one of a log, or what is shown of it.
type Line struct {
	Number  int64
	Off     int64  // where in the log the line begins
	Text    []byte // without its line feed
	Skipped int64  // bytes before Text
	Omitted int64  // bytes behind it
	Lost    int64  // bytes that were printed within the line or before it and that the log does not have
	Match   bool   // false for one that is context only
}

// Read reads a page. When ctx ends, it returns what was found until then. The
// error is of a log that cannot be read any more.
func (r *Reader) Read(ctx context.Context, q Query) (Page, error) {
	if q.From <= 0 {
		return r.tail(ctx, q)
	}
	c := collector{Query: q}
	err := r.collect(ctx, q.From, &c)
	return r.page(ctx, &c, !c.full), unlessOver(ctx, err)
}

// tail reads the end. How far back that is nobody knows who asks for lines of
// one kind only, so what is looked at grows until it is enough.
func (r *Reader) tail(ctx context.Context, q Query) (Page, error) {
	var found Page
	for window := int64(tailWindow); ; window *= 4 {
		c := collector{Query: q, last: true}
		from := r.firstWithin(window)
		if q.Match == nil && q.Stream == 0 {
			from = max(from, r.Lines()-int64(q.Most)+1)
		}
		err := r.collect(ctx, from, &c)
		if ctx.Err() != nil {
			return found, nil // the first ones of this window are not the last ones of the log
		}
		found = r.page(ctx, &c, true)
		if err != nil || c.full || found.Matches >= q.Most || from == 1 {
			return found, err
		}
		found.Searched = false
	}
}

// page returns what was collected. At the end of the log the next line is the
// one behind it, or the last one, where that may be continued.
func (r *Reader) page(ctx context.Context, c *collector, toEnd bool) Page {
	p := c.page
	p.Searched = ctx.Err() == nil
	if p.Searched && toEnd {
		p.Next = r.Lines() + 1
		if r.open && !r.over {
			p.Next--
		}
	}
	p.Next = max(p.Next, c.From, 1)
	return p
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// firstWithin returns a line from which on the rest of the log has at least so
// many bytes, or all of them.
func (r *Reader) firstWithin(window int64) int64 {
	if window >= r.size {
		return 1
	}
	return r.Spans[r.span(r.size-window)].Line + 1
}

// collect gives rows of the wanted stream to a collector.
func (r *Reader) collect(ctx context.Context, from int64, c *collector) error {
	err := r.each(ctx, from, c.Stream, func(w row) bool {
		w.lost = r.lost(w)
		w, any := r.of(w, c.Stream)
		if any && !c.take(w) {
			return false
		}
		c.page.Next = w.number + 1
		return true
	})
	if !c.flush() { // what waits was searched in time, or nearly
		return c.err
	}
	return err
}

// A collector makes a page of rows.
type collector struct {
	Query
	page   Page
	last   bool   // keep the last ones and not the first
	full   bool   // there was more than it may take
	cost   int    // of the page
	before []Line // may become context
	after  int    // how many more are context

	waiting []row // their hidden parts are asked for together
	size    int   // of them
	err     error
}

// batch is how much waits: to ask line by line would be slow.
const batch = 256 << 10

// take takes a row in. False means that the page is full without it, or without
// one before it.
func (c *collector) take(w row) bool {
	switch {
	case c.Match == nil:
		return c.put(w, []int{0, 0})
	case c.Hide == nil:
		return c.put(w, c.find(w.text, nil))
	case c.Context == 0 && !c.may(w):
		return true
	}
	w.text = bytes.Clone(w.text)
	c.waiting = append(c.waiting, w)
	c.size += len(w.text) + lineCost
	return c.size < batch || c.flush()
}

// may reports whether a row can match.
func (c *collector) may(w row) bool {
	return c.Needs == nil || c.Needs(w.text)
}

// flush puts the rows that wait.
func (c *collector) flush() bool {
	rows := c.waiting
	c.waiting, c.size = nil, 0
	var lines []Line
	for _, w := range rows {
		if c.may(w) {
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
		if !c.put(w, found) {
			c.page.Next = w.number
			return false
		}
	}
	return true
}

// put puts a row on the page if it was found, or is near one that was. False means
// that the page is full without it.
func (c *collector) put(w row, found []int) bool {
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

// find returns where a text matches, or nil. A terminal ends lines with CR LF, and
// "$" means the end of what a reader sees.
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

// printed returns where in a text stands what is at an offset in what is shown of
// it.
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

// add adds a line where there is room, or makes room for it. The first one
// always fits: it was cut so that it does.
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

// line cuts a row to what may be shown of it, around what was found.
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
