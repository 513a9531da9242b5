package summary

// A triggerSet finds in one fast pass the rules that may match a line: those with a
// hint whose first four bytes are in the line. It never misses a rule; the rule then
// checks the whole hint.
type triggerSet struct {
	bits  [1 << 12]uint64 // a hash set of four bytes
	rules [1 << 11]triggerRules
}

// triggerRules are the rules of four bytes, at the slot of their hash or the next free
// one.
type triggerRules struct {
	window uint32
	set    ruleSet
}

// A ruleSet has a bit for each rule, by its index in rules, and one for words.
type ruleSet [2]uint64

// Bits that are not rules.
const (
	wantBit  = 125 // a word that the caller looks for
	countBit = 126 // a word with which tools count
	wordBit  = 127 // a word of trouble
	rulesEnd = wantBit
)

func (s *ruleSet) add(bit int)         { s[bit>>6] |= 1 << (bit & 63) }
func (s ruleSet) has(bit int) bool     { return s[bit>>6]>>(bit&63)&1 != 0 }
func (s ruleSet) anyRule() bool        { s[1] &^= 1<<(wordBit&63) | 1<<(countBit&63); return s != ruleSet{} }
func (s ruleSet) troubled() bool       { s[1] &^= 1 << (countBit & 63); return s != ruleSet{} }
func (s ruleSet) any() bool            { return s != ruleSet{} }
func (s ruleSet) or(t ruleSet) ruleSet { return ruleSet{s[0] | t[0], s[1] | t[1]} }

// triggers are built from the hints of the rules, so that they cover all rules.
var triggers = newTriggers()

func newTriggers() *triggerSet {
	t := new(triggerSet)
	for i, r := range rules {
		t.add(r.hints, i)
	}
	t.add(wordHints, wordBit)
	t.add(markHints, wordBit)
	t.add(countHints, countBit)
	return t
}

// split returns the set without the bit for words that the caller looks for, and
// whether it had it.
func (s ruleSet) split() (ruleSet, bool) {
	had := s.has(wantBit)
	s[1] &^= 1 << (wantBit & 63)
	return s, had
}

func (t *triggerSet) add(hints []string, bit int) {
	for _, hint := range hints {
		var w uint32
		for i := range 4 {
			w = fold(w, hint[i])
		}
		e := t.at(w)
		e.window = w
		e.set.add(bit)
		t.bits[slot(w)>>6] |= 1 << (slot(w) & 63)
	}
}

// fold adds a byte to a window of four and ignores the case of letters.
func fold(w uint32, b byte) uint32 { return w<<8 | uint32(b|0x20) }

func slot(w uint32) uint32 { return w * 0x9e3779b1 >> 14 }

func (t *triggerSet) has(w uint32) bool {
	return t.bits[slot(w)>>6]>>(slot(w)&63)&1 != 0
}

// at returns the entry of four bytes, or the free entry for them.
func (t *triggerSet) at(w uint32) *triggerRules {
	for i := slot(w); ; i++ {
		e := &t.rules[i%uint32(len(t.rules))]
		if e.window == w || e.window == 0 {
			return e
		}
	}
}

// in returns the rules that may match a line.
func (t *triggerSet) in(text []byte) (set ruleSet) {
	w := uint32(' ') // a hint can begin with a blank to match the beginning of a line
	for i, b := range text {
		if w = fold(w, b); t.has(w) && i >= 2 {
			set = set.or(t.at(w).set)
		}
	}
	return set
}
