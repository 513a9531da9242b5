package summary

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A candidate is a line that the summary may show, by what it alone tells.
type candidate struct {
	line
	kind  kind
	worth int
	count int // of its template; 1 where that is not known
	last  int
}

// choose fills the room with what is worth most.
func (s *Summarizer) choose(p *picker, exit Exit) {
	if s.lines == 1 && s.json.told() {
		s.json.take(p)
		return
	}
	failed := exit.Code != 0 || exit.Signal != "" || exit.TimedOut
	if !failed && len(s.finder.failures) == 0 && s.takeListing(p) {
		return
	}
	all := s.candidates()
	failures := s.failures(all)
	p.width = widthFor(p, failures)
	if failed {
		s.chooseFailed(p, all, failures)
	} else {
		s.chooseDone(p, all, failures)
	}
	s.takeKind(p, all, warned, 4)
	s.fill(p, all)
}

// chooseFailed tells of a run that failed: the tool's counts, what failed, the
// end.
func (s *Summarizer) chooseFailed(p *picker, all []candidate, failures []*failure) {
	s.takeTallies(p, all, 2, true)
	if !s.endsInFailure() {
		s.takeLast(p, 1, narrowLine)
	}
	s.takeFailures(p, failures)
	s.takeLast(p, 2, wideLine)
}

// chooseDone tells of a run that exited with 0: its counts and results, and
// then what failed all the same.
func (s *Summarizer) chooseDone(p *picker, all []candidate, failures []*failure) {
	p.width = min(p.width, 200) // many lines say more here than long ones
	s.takeTallies(p, all, 4, false)
	s.takeFirst(p)
	s.takeLast(p, 1, narrowLine)
	s.takeKind(p, all, erred, 4)
	s.takeKind(p, all, warned, 2)
	s.takeLast(p, 2, narrowLine)
	s.takeKind(p, all, resultLine, 8)
	s.takeFailures(p, failures)
}

// endsInFailure reports whether the last lines are of a failure, so that they
// are shown at its width.
func (s *Summarizer) endsInFailure() bool {
	for _, f := range s.finder.failures {
		if len(f.parts) > 0 && f.parts[len(f.parts)-1].n >= s.lines-1 {
			return true
		}
	}
	return false
}

// candidates weighs the lines that are at hand: one of each template, and the
// counts among the last. They are in order.
func (s *Summarizer) candidates() []candidate {
	if s.weighed != nil {
		return s.weighed
	}
	var list []candidate
	for _, t := range s.samples() {
		c := candidate{line: line{t.first, t.sample}, count: t.count, last: t.last}
		c.kind, c.worth = weigh(t.sample)
		list = append(list, c)
	}
	for n := s.tail.from(); n <= s.tail.last; n++ {
		l, _ := s.tail.at(n)
		if t := s.seen.of(l.text); t != nil && (t.first == n || t.count > 3) {
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

// These bound the time that a summary takes at the end.
const (
	maxLoudWeighed  = 200 // from either end
	maxQuietWeighed = 60
	maxWeighed      = 10 << 10 // bytes of them, from either end
)

// samples returns the templates to weigh: the first and the last of
// those that are loud and of those that are not.
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
	return append(bothEnds(loud, maxLoudWeighed), bothEnds(quiet, maxQuietWeighed)...)
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

// failures are those that rules found, then lines that look like trouble: the
// weightiest first, then what was rare, then what came first.
func (s *Summarizer) failures(all []candidate) []*failure {
	var list []*failure
	known := make(map[int]bool)
	for _, f := range s.finder.failures {
		for _, p := range f.parts {
			known[p.n] = true
		}
		if f.count == 0 {
			continue
		}
		if t := s.seen.of(f.parts[0].text); t != nil && f.name == "" {
			f.count = max(f.count, t.louds)
			if t.louds == t.count {
				f.last = t.last
			}
		}
		slices.SortStableFunc(f.parts, func(a, b piece) int { return cmp.Compare(a.role, b.role) })
		list = append(list, f)
	}
	for _, c := range all {
		if c.kind != erred && c.kind != doubtful || known[c.n] {
			continue
		}
		f := &failure{count: c.count, first: c.n, last: c.last, parts: []piece{{c.line, title}}}
		if c.kind == erred {
			f.weight = logged
		}
		list = append(list, f)
	}
	slices.SortStableFunc(list, func(a, b *failure) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(rarity(a.count), rarity(b.count)), cmp.Compare(a.first, b.first))
	})
	return list
}

// rarity is coarse: one and three are alike, a thousand is not.
func rarity(count int) int {
	n := 0
	for ; count > 3; count /= 8 {
		n++
	}
	return n
}

// widthFor is how wide lines may be so that all that was found fits.
func widthFor(p *picker, list []*failure) int {
	for _, width := range []int{wideLine, 200, 140} {
		need := 150
		for _, f := range list {
			if f.weight < logged {
				continue
			}
			for _, x := range f.parts {
				if x.role >= again {
					continue
				}
				need += p.cost(x.line, width)
			}
		}
		if need <= p.room {
			return width
		}
	}
	return 140
}

// takeFailures tells all of the first failure, what the others are, where they
// are, and what more there is about them.
func (s *Summarizer) takeFailures(p *picker, list []*failure) {
	strong := 0
	for strong < len(list) && list[strong].weight >= logged {
		strong++
	}
	reserve := namesRoom(p, list[:strong])
	p.room -= reserve
	s.takeRounds(p, list[:strong])
	p.room += reserve
	s.takeNames(p, list[:strong])
	s.takeRounds(p, list[strong:])
	s.takeParts(p, list, again, again)
	if s.finder.before.n > 0 {
		p.take(s.finder.before, "")
	}
}

func (s *Summarizer) takeRounds(p *picker, list []*failure) {
	if len(list) == 0 {
		return
	}
	reserve := 0
	if slices.ContainsFunc(list[1:], hasPlace) {
		reserve = p.room / 4
	}
	s.takeParts(p, list[:1], title, detail)
	rest := list[1:]
	for i, f := range rest {
		if p.room < reserve && i > 0 {
			rest = rest[:i]
			break
		}
		s.takeParts(p, []*failure{f}, title, message)
	}
	s.takeParts(p, rest, place, place)
	s.takeParts(p, list[1+len(rest):], title, message)
	s.takeParts(p, rest, detail, detail)
}

func hasPlace(f *failure) bool {
	return slices.ContainsFunc(f.parts, func(p piece) bool { return p.role == place })
}

func (s *Summarizer) takeParts(p *picker, list []*failure, from, to role) {
	for _, f := range list {
		for _, x := range f.parts {
			if x.role < from || x.role > to {
				continue
			}
			p.take(x.line, f.note(x))
		}
	}
}

// note tells behind its first line how often a failure without a name was told of.
func (f *failure) note(x piece) string {
	if x.role != title || f.name != "" {
		return ""
	}
	return repeated(f.count, f.first, f.last)
}

// repeated tells how often a line stands in the output, but for numbers.
func repeated(count, first, last int) string {
	if count < 2 || last <= first {
		return ""
	}
	return fmt.Sprintf(" [×%d, %d-%d]", count, first, last)
}

// takeTallies takes the tool's own counts, those that count most first. Of a
// failed run, what counts nothing bad comes last.
func (s *Summarizer) takeTallies(p *picker, all []candidate, most int, failed bool) {
	var list []candidate
	for _, c := range all {
		if c.kind == tally && !(failed && goodOnly().MatchString(c.text)) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(b.n, a.n))
	})
	s.takeSome(p, list, most)
}

var goodOnly = re(`^ok\s`)

func (s *Summarizer) takeKind(p *picker, all []candidate, k kind, most int) {
	var list []candidate
	for _, c := range all {
		if c.kind == k {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(rarity(a.count), rarity(b.count)), cmp.Compare(b.worth, a.worth))
	})
	s.takeSome(p, list, most)
}

func (s *Summarizer) takeSome(p *picker, list []candidate, most int) {
	for _, c := range list[:min(most, len(list))] {
		p.take(c.line, repeated(c.count, c.n, c.last))
	}
}

// takeLast takes the last lines that say something.
func (s *Summarizer) takeLast(p *picker, most, width int) {
	old := p.width
	p.width = min(old, width)
	defer func() { p.width = old }()
	shown := make(map[*template]bool) // one line of each
	for n := s.tail.last; n >= s.tail.from() && most > 0; n-- {
		l, _ := s.tail.at(n)
		k, _ := weigh(l.text)
		t := s.seen.of(l.text)
		if k == noise || t != nil && shown[t] {
			continue
		}
		shown[t] = true
		p.take(l, "")
		most--
	}
}

// takeFirst takes the first line that says something.
func (s *Summarizer) takeFirst(p *picker) {
	old := p.width
	p.width = min(old, 140)
	defer func() { p.width = old }()
	for _, l := range s.head {
		if k, _ := weigh(l.text); k != noise {
			p.take(l, "")
			return
		}
	}
}

// fill spends the room that is left on lines unlike those shown: from the end,
// from the beginning, and the rare.
func (s *Summarizer) fill(p *picker, all []candidate) {
	p.width = min(p.width, 140)
	list := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.kind == noise })
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Compare(s.appeal(b), s.appeal(a))
	})
	for _, c := range list {
		if p.room < stubLine {
			return
		}
		p.take(c.line, repeated(c.count, c.n, c.last))
	}
	s.fillEnds(p)
}

// fillEnds spends what is left after all kinds of lines were shown on a few
// more of the last lines. More of the same tells nothing.
func (s *Summarizer) fillEnds(p *picker) {
	for n := s.tail.last; n > s.tail.last-6 && n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		if k, _ := weigh(l.text); k != noise {
			p.take(l, "")
		}
	}
}

// appeal orders lines that nothing but their place speaks for.
func (s *Summarizer) appeal(c candidate) int {
	n := 3*c.worth - 4*rarity(c.count)
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
