package summary

import (
	"fmt"
	"slices"
	"strings"
)

// namesShare is the part of the room that is kept for names of failures where
// not all that is known of them fits.
const namesShare = 4

// namesRoom is what to keep of the room for the names of failures.
func namesRoom(p *picker, list []*failure) int {
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

// takeNames tells the names of the failures that there was no room to tell more
// of. Those that there is no room for either are at least counted.
func (s *Summarizer) takeNames(p *picker, list []*failure) {
	names := p.hidden(list)
	text := fmt.Sprintf("%d more failed: ", len(names))
	if len(s.finder.failures) >= maxFailures {
		text = "more failed, among them " // how many is not known
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

// hidden returns the names of failures that no line shown has. A name that is
// not as it stands in what may be shown of its line has a secret in it.
func (p *picker) hidden(list []*failure) (names []string) {
	for _, f := range list {
		title := f.parts[0]
		shown := slices.ContainsFunc(p.picks, func(k pick) bool { return k.n == title.n || mentions(k.text, f.name) })
		if f.name != "" && !shown && strings.Contains(p.mask.line(title.text), f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// mentions reports whether a text has a name, and not only one that begins so.
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
