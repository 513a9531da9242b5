package summary

import (
	"cmp"
	"slices"
)

// fill uses the rest of the budget for lines that differ from those shown: from the
// end, from the beginning, and rare ones.
func (s *Summarizer) fill(p *picker, all []candidate, failures []*failure) {
	p.width = min(p.width, 140)
	list := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.kind == noise })
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Compare(s.appeal(b), s.appeal(a))
	})
	shown := p.shapes()
	for _, c := range list {
		if p.room < stubLine {
			return
		}
		if key := shapeOf(c.line); shown[key] && len(list) > few {
			continue
		} else {
			shown[key] = true
		}
		p.pick(c.latest(), repeated(c.count, c.n, c.last))
	}
	s.fillEnds(p)
	s.fillBelow(p, failures)
	for _, c := range list {
		p.pick(c.latest(), repeated(c.count, c.n, c.last))
	}
}

// fillBelow uses the rest of the budget for the lines below the first failure, such as
// stack frames.
func (s *Summarizer) fillBelow(p *picker, failures []*failure) {
	if len(failures) == 0 {
		return
	}
	first, shown := failures[0].parts[0].n, p.shapes()
	for n := first + 1; n <= first+nearReach; n++ {
		l, ok := s.nearby.lines.at(n)
		if key := shapeOf(l); ok && !shown[key] && worded().MatchString(l.text) {
			shown[key] = true
			p.pick(l, "")
		}
	}
}

// few lines are shown even if they are similar.
const few = 12

// fillEnds uses the rest of the budget for a few more of the last lines.
func (s *Summarizer) fillEnds(p *picker) {
	for n := s.tail.last; n > s.tail.last-6 && n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		if k, _ := weigh(l.text); k != noise {
			p.pick(l, "")
		}
	}
}
