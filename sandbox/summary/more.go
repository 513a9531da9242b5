package summary

import (
	"fmt"
	"slices"
	"strings"
)

// namesShare is the part of the budget that is reserved for names of failures if not
// all their messages fit.
const namesShare = 4

// namesReserve returns how much of the budget to reserve for names of failures.
func namesReserve(p *picker, list []*failure) int {
	need, named := 0, 0
	for _, f := range list {
		for _, x := range f.parts {
			if x.role <= message {
				need += p.cost(x.line, p.width)
			}
		}
		if f.name != "" {
			named++
		}
	}
	if need <= p.room || named < 3 {
		return 0
	}
	return p.room / namesShare
}

// pickNames lists the names of the failures that are not shown otherwise. It counts the
// names that do not fit either.
func (s *Summarizer) pickNames(p *picker, list []*failure) {
	names := p.unshown(list)
	text := fmt.Sprintf("%d more failed: ", len(names))
	if len(s.finder.failures) >= maxFailures {
		text = "more failed, among them " // their number is unknown
	}
	told := 0
	for room := p.room - len(text) - len(", …\n"); told < len(names); told++ {
		if room -= len(names[told]) + len(", "); room < 0 {
			break
		}
	}
	if told == 0 {
		return
	}
	if text += strings.Join(names[:told], ", "); told < len(names) {
		text += ", " + clip
	}
	p.more = text
	p.room -= len(text) + 1
}

// unshown returns the names of failures that are not in a picked line. It omits a name
// that masking changes, since it contains a secret.
func (p *picker) unshown(list []*failure) (names []string) {
	for _, f := range list {
		title := f.parts[0]
		shown := slices.ContainsFunc(p.picks, func(k pick) bool { return k.n == title.n || mentions(k.text, f.name) })
		if f.name != "" && !shown && strings.Contains(p.mask.line(title.text), f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// mentions reports whether a text contains a name, not only as a prefix of another one.
func mentions(text, name string) bool {
	for name != "" {
		_, rest, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if rest == "" || classes[rest[0]] == separator {
			return true
		}
		text = rest
	}
	return false
}
