package excerpt

import (
	"math"
	"slices"
)

// A Line is where a line of a log lies.
type Line struct {
	Number   int64
	Off, End int64 // offsets in the log; End is after its line feed
}

// A Passage is a part of a log that an excerpt shows.
type Passage struct {
	Off, End    int64
	First, Last int64 // the lines of its first and its last byte
	Cut, Broken bool  // it begins, or ends, within a line
}

// A Log tells where lines are.
type Log interface {
	// Lines returns lines from a number on, and Last the last ones, in order: at most so many,
	// and no more when these have size bytes together. They return one if there is one.
	Lines(from int64, most, size int) ([]Line, error)
	Last(most, size int) ([]Line, error)
	Size() int64
}

const (
	// shortHead and shortTail are what every excerpt has of both ends: what the command is
	// about, and how it ended.
	shortHead = 300
	shortTail = 1200

	// gapCost is about the size of the mark in a gap.
	gapCost = 40

	// smallGap is a gap that takes less to show than to name, or not much more.
	smallGap = 2 * gapCost

	// maxNear bounds a line near a failure. A minified line would fill the excerpt.
	maxNear = 300

	// maxFailures bounds the work. A summary has fewer.
	maxFailures = 32
)

// How many lines before and after a line of a failure are shown: some of each, and more where
// there is room, most of the first one, which may be the beginning of a function or a section.
var tight, wide, deep = around{2, 4}, around{5, 10}, around{10, 30}

type around struct{ before, after int64 }

// Choose returns the passages of a log that an excerpt shows, in order: those that are given, if
// there is room, then what is near the lines of failures, the most important of which come first,
// then the two ends of the log. Together they have at most l.Cut bytes, or up to l.Whole if the
// others and short ends need that, or if nearly all of the log is then shown.
func Choose(log Log, given []Passage, failures []int64, l Limits) ([]Passage, error) {
	most, fill := max(l.Whole, l.Cut), l.Cut
	if log.Size() <= int64(most)*3/2 {
		fill = most
	}
	ends := min(shortHead+shortTail, fill/2)
	c := chooser{log: log}
	c.read(failures[:min(len(failures), maxFailures)])
	c.room = most - ends
	for _, p := range given {
		c.add(p)
	}
	c.near(c.failures, tight)
	c.room = fill - ends
	c.near(c.failures[:min(1, len(c.failures))], deep)
	c.near(c.failures, wide)
	c.closeGaps()
	c.room = max(fill, min(most, c.cost()+ends))
	c.ends()
	return c.list, c.err
}

// A chooser collects passages within a number of bytes.
type chooser struct {
	log  Log
	room int
	list []Passage // in order, apart from each other
	err  error

	failures []failure
}

// A failure is a line of one, with the lines around it.
type failure struct {
	line  int64
	lines []Line
}

// cost returns how much of the room the passages take. An excerpt of both ends has a gap anyway.
func (c *chooser) cost() int {
	n := gapCost * max(0, len(c.list)-2)
	for _, p := range c.list {
		n += int(p.End - p.Off)
	}
	return n
}

// read reads the lines around those of failures.
func (c *chooser) read(failures []int64) {
	for _, n := range failures {
		from := max(1, n-deep.before)
		most := int(n + deep.after - from + 1)
		c.failures = append(c.failures, failure{n, c.lines(from, most, math.MaxInt)})
	}
}

// near adds lines around those of some failures.
func (c *chooser) near(failures []failure, w around) {
	for _, f := range failures {
		for _, l := range f.lines {
			if l.Number >= f.line-w.before && l.Number <= f.line+w.after {
				c.add(beginning(l, maxNear))
			}
		}
	}
}

func (c *chooser) lines(from int64, most, size int) []Line {
	if c.err != nil {
		return nil
	}
	var list []Line
	list, c.err = c.log.Lines(from, most, size)
	return list
}

// beginning returns the first bytes of a line.
func beginning(l Line, most int64) Passage {
	p := Passage{Off: l.Off, End: l.End, First: l.Number, Last: l.Number}
	if p.End-p.Off > most {
		p.End, p.Broken = p.Off+most, true
	}
	return p
}

// end returns the last bytes of a line.
func end(l Line, most int64) Passage {
	p := Passage{Off: l.Off, End: l.End, First: l.Number, Last: l.Number}
	if p.End-p.Off > most {
		p.Off, p.Cut = p.End-most, true
	}
	return p
}

// add adds a passage if there is room for it.
func (c *chooser) add(p Passage) bool {
	before := c.list
	c.list = join(c.list, p)
	if c.cost() > c.room {
		c.list = before
		return false
	}
	return true
}

// join returns a list of passages with one more. It does not change the list.
func join(list []Passage, p Passage) []Passage {
	from, _ := slices.BinarySearchFunc(list, p.Off, func(x Passage, off int64) int { return int(min(1, max(-1, x.End-off))) })
	to := from
	for ; to < len(list) && list[to].Off <= p.End; to++ {
		p = merged(p, list[to])
	}
	return slices.Concat(list[:from], []Passage{p}, list[to:])
}

// merged returns the passage that two make which touch each other.
func merged(a, b Passage) Passage {
	if b.Off < a.Off {
		a.Off, a.First, a.Cut = b.Off, b.First, b.Cut
	}
	if b.End > a.End {
		a.End, a.Last, a.Broken = b.End, b.Last, b.Broken
	}
	return a
}

// closeGaps adds what is in small gaps.
func (c *chooser) closeGaps() {
	for i := 1; i < len(c.list); i++ {
		a, b := c.list[i-1], c.list[i]
		if b.Off-a.End <= smallGap && c.add(Passage{Off: a.End, End: b.Off, First: a.Last, Last: b.First}) {
			i--
		}
	}
}

// ends spends the rest of the room on both ends, three quarters of it on the last lines.
func (c *chooser) ends() {
	room := c.room
	c.room -= (room - c.cost()) * 3 / 4
	c.head()
	c.room = room
	c.tail()
}

func (c *chooser) head() {
	free := c.room - c.cost()
	for _, line := range c.lines(1, free+1, free) {
		if c.add(beginning(line, line.End-line.Off)) {
			continue
		}
		if left := c.room - c.cost() - gapCost; left > free/2 {
			c.add(beginning(line, int64(left)))
		}
		return
	}
}

func (c *chooser) tail() {
	if c.err != nil {
		return
	}
	free := c.room - c.cost()
	var list []Line
	list, c.err = c.log.Last(free+1, free)
	for _, line := range slices.Backward(list) {
		if c.add(end(line, line.End-line.Off)) {
			continue
		}
		if left := c.room - c.cost() - gapCost; left > free/2 {
			c.add(end(line, int64(left)))
		}
		return
	}
}
