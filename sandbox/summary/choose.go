package summary

import (
	"cmp"
	"fmt"
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
	p.width = widthFor(p, failures)
	if failed {
		s.chooseFailed(p, all, failures)
	} else {
		s.chooseDone(p, all, failures)
	}
	s.pickKind(p, all, warned, 4)
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
	s.pickKind(p, all, resultLine, 8)
	s.pickFailures(p, failures)
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
	return t.first != l.n && badCount().MatchString(l.text) && !badCount().MatchString(t.sample)
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
		if t := s.seen.of(f.parts[0].text); t != nil && f.name == "" {
			f.count = max(f.count, t.louds)
			if t.louds == t.count {
				f.last = t.last
			}
		}
		list = append(list, f)
	}
	for _, c := range all {
		if c.kind != erred && c.kind != doubtful || known[c.n] {
			continue
		}
		f := &failure{severity: severity(c.worth), count: c.count, first: c.n, last: c.last, parts: []piece{{c.line, title}}}
		if c.kind == erred {
			f.weight = logged
		}
		list = append(list, f)
	}
	for _, f := range list {
		f.severity = f.stated()
	}
	rank(list)
	list = spread(list)
	for i, f := range list {
		if i < mostAround {
			s.complete(f, known)
		}
		slices.SortStableFunc(f.parts, func(a, b piece) int { return cmp.Compare(a.role, b.role) })
	}
	slices.SortStableFunc(list, func(a, b *failure) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(b.severity, a.severity))
	})
	s.ranked = list
	s.wantedFirst(s.ranked)
	return s.ranked
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
	title := f.parts[0].text
	if lintStyle().MatchString(title) {
		return suspect
	}
	return max(f.severity, severityOf(strings.ToLower(title)))
}

// mostAround bounds the failures that are completed by the lines around them.
const mostAround = 80

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

// rarity classifies a count coarsely: one and three are equal, a thousand is not.
func rarity(count int) int {
	n := 0
	for ; count > 3; count /= 8 {
		n++
	}
	return n
}

// widthFor returns the maximum length of lines with which all found failures fit.
func widthFor(p *picker, list []*failure) int {
	var sizes []int
	for _, f := range list {
		if f.weight < logged || len(sizes) > p.room/stubLine {
			break
		}
		for _, x := range f.parts {
			if x.role < again {
				sizes = append(sizes, len(shownForm(x.text)))
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
// often it occurred.
func (f *failure) repeatNote(x piece) string {
	if x.role != title || f.name != "" {
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

// unlike returns the first of each group of similar candidates.
func unlike(list []candidate) []candidate {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(c candidate) bool {
		key := shape(unwrapped(c.text))
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
		if key := shape(unwrapped(c.text)); shown[key] && len(list) > few {
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
		if key := shape(unwrapped(l.text)); ok && !shown[key] && worded().MatchString(l.text) {
			shown[key] = true
			p.pick(l, "")
		}
	}
}

// few lines are shown even if they are similar.
const few = 12

// latest returns the last line of a group, which says how far the command came, or the
// only one.
func (c candidate) latest() line {
	if (c.kind <= resultLine || c.kind == tally) && c.count > 3 && c.final != "" {
		return line{c.last, c.final}
	}
	return c.line
}

// fillEnds uses the rest of the budget for a few more of the last lines.
func (s *Summarizer) fillEnds(p *picker) {
	for n := s.tail.last; n > s.tail.last-6 && n >= s.tail.from(); n-- {
		l, _ := s.tail.at(n)
		if k, _ := weigh(l.text); k != noise {
			p.pick(l, "")
		}
	}
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
