package summary

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A candidate is a line that the summary may show, classified by its own text.
type candidate struct {
	line
	kind  kind
	worth int
	count int // of its template; 1 if unknown
	last  int
	final string // the last line, if it is known and not the only one
	odd   bool   // most lines of the output have another form
}

// candidates weighs the retained lines: one of each template, and the tallies among
// the last lines. They are in order.
func (s *Summarizer) candidates() []candidate {
	if s.weighed != nil {
		return s.weighed
	}
	var list []candidate
	uniform := s.seen.forms.uniform()
	for _, t := range s.samples() {
		c := candidate{line: line{t.first, t.sample}, count: t.count, last: t.last, final: string(t.final), odd: uniform && t.form.rare()}
		if c.kind, c.worth = weigh(t.sample); c.kind == tally && t.form.common() {
			c.kind, c.worth = plainLine, 0 // one of many
		}
		list = append(list, c)
	}
	for n := s.tail.from(); n <= s.tail.last; n++ {
		l, _ := s.tail.at(n)
		if t := s.seen.of(l.text); t != nil && (t.first == n || t.count > 3 || t.form.common()) && !s.turnsBad(t, l) {
			continue
		}
		if k, worth := weigh(l.text); k == tally {
			list = append(list, candidate{line: l, kind: k, worth: worth, count: 1, last: n})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.n, b.n) })
	s.weighed = list
	return list
}

// turnsBad reports whether a line counts failures, unlike the first one of its template:
// one of the rows of a table.
func (s *Summarizer) turnsBad(t *template, l line) bool {
	return t.first != l.n && badCount().MatchString(l.text) && !badCount().MatchString(t.sample) && !passes(l.text, strings.ToLower(l.text))
}

// These bound the time to finish a summary.
const (
	maxLoudWeighed  = 200 // templates from either end
	maxQuietWeighed = 60
	maxWeighed      = 10 << 10 // bytes of samples from either end
)

// samples returns the templates to weigh: the first and the last of the loud ones, and
// of the others.
func (s *Summarizer) samples() []*template {
	all := slices.SortedFunc(maps.Values(s.seen.table), func(a, b *template) int { return cmp.Compare(a.first, b.first) })
	var loud, quiet []*template
	for _, t := range all {
		if t.louds > 0 {
			loud = append(loud, t)
		} else {
			quiet = append(quiet, t)
		}
	}
	return append(bothEnds(loud, maxLoudWeighed), s.seen.odd(quiet)...)
}

// odd returns the first and the last of the templates, and those that have a form of
// their own while most have the same.
func (t templates) odd(list []*template) []*template {
	ends := bothEnds(list, maxQuietWeighed)
	if len(ends) == len(list) && len(t.forms) < maxForms || !t.forms.uniform() {
		return ends
	}
	var rare []*template
	for _, e := range list {
		if e.form.rare() && !slices.Contains(ends, e) {
			rare = append(rare, e)
		}
	}
	for _, f := range t.forms {
		if f.only != nil {
			rare = append(rare, f.only)
		}
	}
	slices.SortFunc(rare, func(a, b *template) int { return cmp.Compare(a.first, b.first) })
	return append(ends, bothEnds(rare, maxQuietWeighed)...)
}

func bothEnds(list []*template, most int) []*template {
	first, last := 0, len(list)
	for size := 0; first < min(most, last) && size < maxWeighed; first++ {
		size += len(list[first].sample)
	}
	for size := 0; last > max(first, len(list)-most) && size < maxWeighed; {
		last--
		size += len(list[last].sample)
	}
	return slices.Concat(list[:first], list[last:])
}

// latest returns the last line of a group, which says how far the command came, or the
// only one.
func (c candidate) latest() line {
	if (c.kind <= resultLine || c.kind == tally) && c.count > 3 && c.final != "" {
		return line{c.last, c.final}
	}
	return c.line
}

// appeal orders lines by worth, rarity and position.
func (s *Summarizer) appeal(c candidate) int {
	n := 3*c.worth - 4*rarity(c.count)
	if c.odd {
		n += 8
	}
	switch {
	case s.lines-c.n < 12:
		n += 6 + (c.n-s.lines)/2
	case c.n <= 3:
		n += 6 - c.n
	}
	if strings.HasPrefix(c.text, "  ") {
		n--
	}
	return n
}
