package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// choose fills the budget with the most valuable lines.
func (s *Summarizer) choose(p *picker, exit Exit) {
	if s.lines == 1 && s.json.hasMembers() {
		s.json.pick(p)
		return
	}
	failed := exit.Code != 0 || exit.Signal != "" || exit.TimedOut
	if !failed && len(s.finder.failures) == 0 && s.pickListing(p) {
		return
	}
	all := s.candidates()
	failures := s.failures(all)
	if len(failures) == 0 || failures[0].severity < bad || failures[0].weight < logged {
		p.width = narrowLine
		p.holding(p.room/2, func() { s.pickCounts(p) })
	}
	p.width = widthFor(p, failures)
	if failed {
		s.chooseFailed(p, all, failures)
	} else {
		s.chooseDone(p, all, failures)
	}
	s.pickKind(p, all, warned, 6)
	s.fill(p, all, failures)
}

// chooseFailed picks lines of a failed run: the tool's counts, the failures, the end.
func (s *Summarizer) chooseFailed(p *picker, all []candidate, failures []*failure) {
	s.pickTallies(p, all, 2, true)
	if !s.endsInFailure() {
		s.pickLast(p, 1, narrowLine)
	}
	if s.want != nil {
		p.holding(p.room/2, func() { s.pickFailures(p, failures) })
		s.pickWanted(p)
	}
	s.pickFailures(p, failures)
	s.pickLast(p, 2, wideLine)
}

// chooseDone picks lines of a run with exit code 0: its counts and results, or its
// failures if there are real ones.
func (s *Summarizer) chooseDone(p *picker, all []candidate, failures []*failure) {
	real := real(failures)
	if len(real) > 0 {
		s.pickTallies(p, all, 2, false)
		s.pickLast(p, 1, narrowLine)
		p.holding(p.room/s.othersShare(), func() { s.pickFailures(p, real) })
		s.pickKind(p, all, warned, 4)
		s.pickWanted(p)
		s.pickLast(p, 2, narrowLine)
		s.pickFailures(p, real)
	}
	s.pickWanted(p)
	p.width = min(p.width, 200) // here many lines say more than long ones
	s.pickTallies(p, all, 4, false)
	s.pickFirst(p)
	s.pickLast(p, 1, narrowLine)
	s.pickKind(p, all, warned, 2)
	s.pickLast(p, 2, narrowLine)
	s.pickKind(p, all, resultLine, 2)
	p.holding(p.room/2, func() { s.pickFailures(p, atLeast(failures, bad)) })
	s.pickKind(p, all, resultLine, 8)
	s.pickFailures(p, failures)
}

// atLeast returns the failures of a severity and worse.
func atLeast(list []*failure, least severity) []*failure {
	return slices.DeleteFunc(slices.Clone(list), func(f *failure) bool { return f.severity < least })
}

// othersShare is the part of the budget that the failures of a run with exit code 0
// leave: one in so many bytes.
func (s *Summarizer) othersShare() int {
	if s.want != nil {
		return 2
	}
	return 5
}

// real returns the failures that are more than a word of trouble.
func real(list []*failure) []*failure {
	n := 0
	for n < len(list) && list[n].weight >= logged {
		n++
	}
	return list[:n]
}

// endsInFailure reports whether the last lines belong to a failure, so that they are
// shown in its width.
func (s *Summarizer) endsInFailure() bool {
	for _, f := range s.finder.failures {
		if len(f.parts) > 0 && f.parts[len(f.parts)-1].n >= s.lines-1 {
			return true
		}
	}
	return false
}

// widthFor returns the maximum length of lines with which all found failures fit.
func widthFor(p *picker, list []*failure) int {
	var sizes []int
	for _, f := range list {
		if f.weight < logged || len(sizes) > p.room/stubLine {
			break
		}
		for _, x := range f.parts {
			if x.role < again && f.like == nil {
				sizes = append(sizes, len(shownForm(beginning(x.text, maxRuleText))))
			}
		}
	}
	for _, width := range widths {
		need := restOfRoom
		for _, size := range sizes {
			need += len("1234: \n") + min(width, size)
		}
		if need <= p.room {
			return width
		}
	}
	return widths[len(widths)-1]
}

var widths = []int{wideLine, 200, 140, 110}

// restOfRoom is for the lines that are not part of failures.
const restOfRoom = 150

// pickFailures picks all parts of the first failure, then the titles, places and
// details of the others.
func (s *Summarizer) pickFailures(p *picker, list []*failure) {
	strong := 0
	for strong < len(list) && list[strong].weight >= logged {
		strong++
	}
	reserve := namesReserve(p, list[:strong])
	p.room -= reserve
	s.pickRounds(p, list[:strong])
	p.room += reserve
	s.pickNames(p, list[:strong])
	s.pickRounds(p, list[strong:])
	s.pickParts(p, list, aside, aside)
	s.pickParts(p, list, again, again)
	if k, _ := weigh(s.finder.before.text); k != noise {
		p.pick(s.finder.before, "")
	}
}

func (s *Summarizer) pickRounds(p *picker, list []*failure) {
	if len(list) == 0 {
		return
	}
	reserve := 0
	if slices.ContainsFunc(list[1:], hasPlace) {
		reserve = p.room / 4
	}
	s.pickParts(p, list[:1], title, place)
	// The details of one failure leave room for the others.
	if len(list) > 1 {
		p.holding(p.room/2, func() { s.pickParts(p, list[:1], detail, list[0].deepest()) })
	}
	rest := list[1:]
	for i, f := range rest {
		if p.room < reserve && i > 0 {
			rest = rest[:i]
			break
		}
		s.pickParts(p, []*failure{f}, title, message)
	}
	s.pickParts(p, rest, place, place)
	s.pickParts(p, list[1+len(rest):], title, message)
	s.pickParts(p, rest, detail, detail)
	s.pickParts(p, list[:1], detail, list[0].deepest())
}

// deepest returns the last role that is shown of the first failure before the others.
// One without a message needs the lines below it.
func (f *failure) deepest() role {
	if f.severity == severe || f.weight < found && !slices.ContainsFunc(f.parts, func(p piece) bool { return p.role == message }) {
		return aside
	}
	return detail
}

func hasPlace(f *failure) bool {
	return slices.ContainsFunc(f.parts, func(p piece) bool { return p.role == place })
}

func (s *Summarizer) pickParts(p *picker, list []*failure, from, to role) {
	for _, f := range list {
		for _, x := range f.parts {
			if x.role < from || x.role > to {
				continue
			}
			p.pick(x.line, f.repeatNote(x))
		}
	}
}

// repeatNote returns the note after the first line of a failure without a name: how
// often it occurred, and after the step during which it did.
func (f *failure) repeatNote(x piece) string {
	switch {
	case x.role == place && f.name == "":
		return f.during
	case x.role != title || f.name != "":
		return ""
	}
	return repeated(f.count, f.first, f.last)
}

// repeated returns a note on how often a line occurs, if numbers are ignored.
func repeated(count, first, last int) string {
	if count < 2 || last <= first {
		return ""
	}
	return fmt.Sprintf(" [×%d, %d-%d]", count, first, last)
}

// pickTallies picks the tool's own counts, the most informative first. For a failed
// run it skips lines that only report success.
func (s *Summarizer) pickTallies(p *picker, all []candidate, most int, failed bool) {
	var list []candidate
	for _, c := range all {
		if c.kind == tally && !(failed && goodOnly().MatchString(c.text)) {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.worth, a.worth), cmp.Compare(b.n, a.n))
	})
	s.pickSome(p, list, most)
}

var goodOnly = re(`^ok\s`)

func (s *Summarizer) pickKind(p *picker, all []candidate, k kind, most int) {
	var list []candidate
	for _, c := range all {
		if c.kind == k {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(rarity(a.count), rarity(b.count)), cmp.Compare(b.worth, a.worth))
	})
	if k == warned {
		list = unlike(list)
	}
	s.pickSome(p, list, most)
}

// unlike returns the first of each group of similar candidates. Each unknown name is a
// mistake of its own.
func unlike(list []candidate) []candidate {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(c candidate) bool {
		key := shapeOf(c.line)
		if unknownName.in(c.text, strings.ToLower(c.text)) {
			key += strings.Join(quotedText().FindAllString(c.text, 4), " ")
		}
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

func (s *Summarizer) pickSome(p *picker, list []candidate, most int) {
	for _, c := range list[:min(most, len(list))] {
		p.pick(c.latest(), repeated(c.count, c.n, c.last))
	}
}

// pickLast picks the last lines that are not noise.
func (s *Summarizer) pickLast(p *picker, most, width int) {
	old := p.width
	p.width = min(old, width)
	defer func() { p.width = old }()
	shown := make(map[*template]bool) // one line of each template
	for n := s.tail.last; n >= s.tail.from() && most > 0; n-- {
		l, _ := s.tail.at(n)
		k, _ := weigh(l.text)
		t := s.seen.of(l.text)
		if k == noise || t != nil && shown[t] {
			continue
		}
		if p.width = min(old, width); k == doubtful || k == erred || k == tally {
			p.width = old
		}
		shown[t] = true
		p.pick(l, "")
		most--
	}
}

// pickFirst picks the first line that is not noise.
func (s *Summarizer) pickFirst(p *picker) {
	old := p.width
	p.width = min(old, 140)
	defer func() { p.width = old }()
	for _, l := range s.head {
		if k, _ := weigh(l.text); k != noise {
			p.pick(l, "")
			return
		}
	}
}
