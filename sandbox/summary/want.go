package summary

import (
	"slices"
	"strings"
)

// A want is what the caller looks for in the output. The lines that have its words rank
// before others of the same importance. It finds nothing by meaning.
type want struct {
	words    []string // in lower case
	triggers *triggerSet
	first    []line
	last     []line // a ring once it is full
	next     int
	known    map[*template]bool
}

const (
	// leastWant is the length of a word that is searched for.
	leastWant = 3
	maxWant   = 12 // words
	wantFirst = 40
	wantLast  = 40
)

// fillers are words of a question that say nothing of what it is about.
var fillers = []string{
	"all", "and", "any", "are", "can", "did", "does", "each", "find", "for", "from", "get", "give", "has", "have", "her", "how", "into", "its", "lines", "list", "look", "many",
	"not", "out", "output", "print", "see", "show", "some", "such", "tell", "that", "the", "their", "them", "then", "there", "these", "this", "those", "what", "when", "where",
	"whether", "which", "who", "why", "with", "you",
}

// newWant returns what finds the words of text, or nil if it has none.
func newWant(text string) *want {
	var words []string
	for _, w := range strings.Fields(strings.ToLower(text)) {
		w = strings.Trim(w, `.,:;!?()[]{}<>"'`+"`")
		if len(w) >= leastWant && !slices.Contains(fillers, w) && !slices.Contains(words, w) && len(words) < maxWant {
			words = append(words, w)
		}
	}
	if len(words) == 0 {
		return nil
	}
	t := *triggers
	for _, w := range words {
		t.add(windows(w), wantBit)
	}
	return &want{words: words, triggers: &t, known: make(map[*template]bool)}
}

// windows returns hints of four bytes for a word. A shorter one is only found after a
// sign that separates words.
func windows(word string) (hints []string) {
	if len(word) >= 4 {
		return []string{word}
	}
	for _, sign := range " \"'([{</.:=-_,@#" {
		hints = append(hints, string(sign)+word)
	}
	return hints
}

// matches returns how many of the words a text has; nil has none.
func (w *want) matches(text string) (n int) {
	if w == nil {
		return 0
	}
	lower := strings.ToLower(text)
	for _, word := range w.words {
		if strings.Contains(lower, word) {
			n++
		}
	}
	return n
}

// add stores a line if it has a word, one of each template.
func (w *want) add(n int, text []byte, t *template, mask masker) {
	if t != nil && w.known[t] || w.matches(string(text)) == 0 {
		return
	}
	if t != nil {
		w.known[t] = true
	}
	l := line{n, mask.sample(text, loudSample)}
	switch {
	case len(w.first) < wantFirst:
		w.first = append(w.first, l)
	case len(w.last) < wantLast:
		w.last = append(w.last, l)
	default:
		w.last[w.next] = l
		w.next = (w.next + 1) % wantLast
	}
}

// pickWanted picks the lines that the caller looks for: those with most of the words
// first, then in order.
func (s *Summarizer) pickWanted(p *picker) {
	if s.want == nil {
		return
	}
	list := slices.Concat(s.want.first, s.want.last)
	slices.SortStableFunc(list, func(a, b line) int {
		if d := s.want.matches(b.text) - s.want.matches(a.text); d != 0 {
			return d
		}
		return a.n - b.n
	})
	for _, l := range list {
		note := ""
		if t := s.seen.of(l.text); t != nil {
			note = repeated(t.count, l.n, t.last)
		}
		p.pick(l, note)
	}
}

// wantedFirst moves the failures that the caller looks for before others of their
// weight, behind the most important failure of all.
func (s *Summarizer) wantedFirst(list []*failure) {
	if s.want == nil || len(list) < 3 {
		return
	}
	matches := func(f *failure) (n int) {
		for _, p := range f.parts {
			n = max(n, s.want.matches(p.text))
		}
		return n
	}
	slices.SortStableFunc(list[1:], func(a, b *failure) int {
		if a.weight != b.weight {
			return int(b.weight - a.weight)
		}
		return matches(b) - matches(a)
	})
}
