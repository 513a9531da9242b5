package summary

import (
	"cmp"
	"slices"
	"strings"
)

// failures returns the failures that rules found and the lines with words of trouble:
// by weight, then rare ones first, then in order.
func (s *Summarizer) failures(all []candidate) []*failure {
	if s.ranked != nil {
		return s.ranked
	}
	var list []*failure
	known := make(map[int]bool)
	for _, f := range s.finder.failures {
		for _, p := range f.parts {
			known[p.n] = true
		}
		if f.count == 0 {
			continue
		}
		switch t := s.seen.of(f.parts[0].text); {
		case t == nil || f.name != "":
		case f.exact && t.hits < t.louds:
			f.count = 1 // unknown
		default:
			f.count = max(f.count, t.louds)
			if t.louds == t.count {
				f.last = t.last
			}
		}
		list = append(list, f)
	}
	for _, c := range all {
		if c.kind != erred && c.kind != doubtful || known[c.n] || s.explains(c) {
			continue
		}
		f := &failure{severity: severity(c.worth), count: c.count, first: c.n, last: c.last, parts: []piece{{c.line, title}}}
		if c.kind == erred {
			f.weight = logged
		}
		list = append(list, f)
	}
	demoteEntries(list)
	for _, f := range list {
		f.severity = f.stated()
		if f.severity == suspect && f.weight == found && f.name == "" {
			f.weight = logged // so that an error in a log comes first
		}
	}
	rank(list)
	list = spread(list)
	for i, f := range list {
		if i < mostAround {
			s.complete(f, known)
		}
	}
	s.addStep(list, known)
	for _, f := range list {
		slices.SortStableFunc(f.parts, func(a, b piece) int { return cmp.Compare(a.role, b.role) })
	}
	slices.SortStableFunc(list, func(a, b *failure) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.severity, a.severity))
	})
	s.ranked = list
	s.wantedFirst(s.ranked)
	return s.ranked
}

// demoteEntries ranks numbered titles behind failures if there are many and none has a
// message: they are a list, of steps or of choices.
func demoteEntries(list []*failure) {
	var entries []*failure
	for _, f := range list {
		if f.entry && len(f.parts) > 1 {
			return
		}
		if f.entry {
			entries = append(entries, f)
		}
	}
	if len(entries) < leastEntries {
		return
	}
	for _, f := range entries {
		f.weight, f.severity = weak, suspect
	}
}

// leastEntries is more than the failures of which a runner prints only the titles, such
// as one that is killed before its report.
const leastEntries = 10

// explains reports whether a line is a part of the finding above it, by its indentation.
func (s *Summarizer) explains(c candidate) bool {
	above, ok := s.nearby.headings[c.n]
	if !ok || c.kind != doubtful || c.n-above.n > nearReach || placed().MatchString(c.text) {
		return false
	}
	text := unwrapped(above.text)
	if !placedTitle().MatchString(text) {
		return false
	}
	k, _ := weigh(text)
	return k >= warned
}

// rank sorts failures by importance: by weight, then severe ones first, then rare ones,
// then in order.
func rank(list []*failure) {
	slices.SortStableFunc(list, func(a, b *failure) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.severity, a.severity), cmp.Compare(rarity(a.count), rarity(b.count)), cmp.Compare(a.first, b.first))
	})
}

// stated returns the severity by the words of a failure's title.
func (f *failure) stated() severity {
	title := beginning(f.parts[0].text, maxRuleText)
	if lintStyle().MatchString(title) {
		return suspect
	}
	if lower := strings.ToLower(title); unparsed.in(title, lower) && (placed().MatchString(unwrapped(title)) || failMark.in(title, lower)) {
		return severe
	}
	return max(f.severity, severityOf(strings.ToLower(title)))
}

// mostAround bounds the failures that are completed by the lines around them.
const mostAround = 32

// complete adds the parts of a failure that no rule found, and the severity that a line
// below the title states. known are the lines of all failures.
func (s *Summarizer) complete(f *failure, known map[int]bool) {
	parts, rated := s.around(f.parts[0].line)
	if rated != harmless {
		f.severity = rated
	}
	var has [again + 1]bool
	for _, p := range f.parts {
		has[p.role] = true
	}
	for _, p := range parts {
		if !has[p.role] && !known[p.n] {
			f.parts = append(f.parts, p)
		}
	}
}

// addStep adds the step during which the command ended to the failure that ended it: the
// first one in the last lines, if nothing else says where that was.
func (s *Summarizer) addStep(list []*failure, known map[int]bool) {
	var f *failure
	for _, e := range list[:min(mostAround, len(list))] {
		if s.lines-e.parts[0].n < lastSteps && (f == nil || e.parts[0].n < f.parts[0].n) {
			f = e
		}
	}
	if f == nil || f.name != "" || hasPlace(f) {
		return
	}
	if l, ok := s.stepBefore(f.parts[0].n); ok && !known[l.n] {
		f.parts = append(f.parts, piece{l, place})
		if t := s.seen.of(l.text); t != nil {
			f.during = repeated(t.count, t.first, t.last)
		}
	}
}

// stepBefore returns the line above a title, if it is neither noise nor trouble itself.
func (s *Summarizer) stepBefore(n int) (line, bool) {
	for i := n - 1; i >= max(n-2, s.tail.from()); i-- {
		l, _ := s.tail.at(i)
		if !worded().MatchString(l.text) {
			continue
		}
		k, _ := weigh(l.text)
		return l, k == plainLine || k == resultLine
	}
	return line{}, false
}

// lastSteps is how many of the last lines tell of the end of the command.
const lastSteps = 12

// rarity classifies a count coarsely: one and three are equal, a thousand is not.
func rarity(count int) int {
	n := 0
	for ; count > 3; count /= 8 {
		n++
	}
	return n
}
