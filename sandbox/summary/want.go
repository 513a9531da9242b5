package summary

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// A want is what the caller looks for in the output. The lines that have its words rank
// before others of the same importance: a word that few lines have counts more than one
// that many have. It finds nothing by meaning.
type want struct {
	words    []wantWord
	triggers *triggerSet
	lines    []wantedLine
	same     map[wantedKind]int // how many lines of a kind have come
}

// A wantedKind is what lines have in common that differ only in numbers and other names.
type wantedKind struct {
	template *template
	hits     uint32 // a bit for each word that they have
	whole    uint32 // a bit for each that stands alone
}

// A wantWord is a word in lower case, without the ending of a plural or a past tense.
type wantWord struct {
	stem  string
	count int // of lines that have it
}

// A wantedLine is a line with words of a want.
type wantedLine struct {
	line
	wantedKind
	worth int // set by sort
}

const (
	// leastWant is the length of a word that is searched for.
	leastWant = 3
	maxWant   = 12 // words

	// maxWanted is how many lines are kept. Twice as many are collected before the
	// least of them are dropped, since a word turns out to be frequent only later.
	maxWanted = 128

	// maxAlike is how many lines of one kind are collected. Of a list that has the word
	// in each line, more would take the place of others.
	maxAlike = 16

	// maxNamed is how many lines a Digest names as wanted.
	maxNamed = 8
)

// fillers are words of a question that say nothing of what it is about.
var fillers = []string{
	"after", "all", "and", "any", "are", "been", "before", "can", "could", "did", "does", "each", "find", "for", "from", "get", "give", "has", "have", "her", "how", "into", "its",
	"lines", "list", "look", "many", "may", "might", "must", "not", "out", "output", "print", "see", "should", "show", "since", "some", "such", "tell", "that", "the", "their",
	"them", "then", "there", "these", "this", "those", "was", "were", "what", "when", "where", "whether", "which", "who", "why", "will", "with", "would", "you",
}

// newWant returns what finds the words of text, or nil if it has none.
func newWant(text string) *want {
	w := &want{same: make(map[wantedKind]int)}
	t := *triggers
	for _, word := range strings.Fields(strings.ToLower(text)) {
		word = strings.Trim(word, `.,:;!?()[]{}<>"'`+"`")
		stem := stemOf(word)
		known := slices.ContainsFunc(w.words, func(x wantWord) bool { return x.stem == stem })
		if len(stem) >= leastWant && !slices.Contains(fillers, word) && !known && len(w.words) < maxWant {
			w.words = append(w.words, wantWord{stem: stem})
			t.add(windows(stem), wantBit)
		}
	}
	if len(w.words) == 0 {
		return nil
	}
	w.triggers = &t
	return w
}

// stemOf returns a word without the ending of a plural or of a verb, if enough is left.
func stemOf(word string) string {
	for _, ending := range []string{"ing", "ed", "s"} {
		if stem, ok := strings.CutSuffix(word, ending); ok && len(stem) > leastWant && !strings.HasSuffix(stem, "s") {
			return stem
		}
	}
	return word
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

// find returns which of the words a text has, and which of them stand alone there.
func (w *want) find(text string) (hits, whole uint32) {
	lower := strings.ToLower(text)
	for i, word := range w.words {
		for rest := lower; ; {
			before, after, found := strings.Cut(rest, word.stem)
			if !found {
				break
			}
			hits |= 1 << i
			if !endsInWord(before) && !beginsWithWord(after) {
				whole |= 1 << i
				break
			}
			rest = after
		}
	}
	return hits, whole
}

func endsInWord(s string) bool     { return s != "" && inWord(s[len(s)-1]) }
func beginsWithWord(s string) bool { return s != "" && inWord(s[0]) }

// inWord reports whether a byte joins words to one name.
func inWord(b byte) bool { return b == '-' || b == '_' || classes[b] != separator }

// matches returns how many of the words a text has; nil has none.
func (w *want) matches(text string) int {
	if w == nil {
		return 0
	}
	hits, _ := w.find(text)
	return bits.OnesCount32(hits)
}

// add stores a line if it has a word.
func (w *want) add(n int, text []byte, t *template, mask masker) {
	hits, whole := w.find(string(text))
	if hits == 0 {
		return
	}
	for i := range w.words {
		w.words[i].count += int(hits >> i & 1)
	}
	kind := wantedKind{t, hits, whole}
	if t != nil {
		if w.same[kind]++; w.same[kind] > maxAlike {
			return
		}
	}
	w.lines = append(w.lines, wantedLine{line: line{n, mask.sample(text, loudSample)}, wantedKind: kind})
	if len(w.lines) >= 2*maxWanted {
		w.sort()
		w.lines = w.lines[:maxWanted]
	}
}

// sort puts the lines with the rarest and the most words first, and those of the same worth in
// order.
func (w *want) sort() {
	most := 1
	for _, word := range w.words {
		most = max(most, word.count)
	}
	for n := range w.lines {
		l := &w.lines[n]
		l.worth = 0
		for i, word := range w.words {
			if l.hits>>i&1 == 1 {
				rarity := 1 + bits.Len(uint(most)) - bits.Len(uint(word.count))
				l.worth += rarity * (2 + int(l.whole>>i&1))
			}
		}
	}
	slices.SortFunc(w.lines, func(a, b wantedLine) int { return cmp.Or(b.worth-a.worth, a.n-b.n) })
}

// named returns the numbers of the lines that are worth at least half of the best one.
func (w *want) named() (list []int) {
	if w == nil {
		return nil
	}
	w.sort()
	for _, l := range w.lines[:min(len(w.lines), maxNamed)] {
		if 2*l.worth >= w.lines[0].worth {
			list = append(list, l.n)
		}
	}
	return list
}

// pickWanted picks the lines that the caller looks for, the best first. The first of more lines
// of one kind than were collected says how many they are.
func (s *Summarizer) pickWanted(p *picker) {
	if s.want == nil {
		return
	}
	s.want.sort()
	told := map[wantedKind]bool{}
	for _, l := range s.want.lines {
		note := ""
		if t := l.template; t != nil && s.want.same[l.wantedKind] > maxAlike && !told[l.wantedKind] {
			told[l.wantedKind] = true
			note = repeated(t.count, l.n, t.last)
		}
		p.pick(l.line, note)
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
