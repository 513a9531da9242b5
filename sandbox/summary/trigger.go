package summary

// A triggerSet finds in one quick pass which rules may have to do with a line:
// those that have a hint whose first four bytes are in it. It never misses one;
// the rule itself looks closer.
type triggerSet struct {
	bits  [1 << 12]uint64 // one for each four bytes, nearly
	rules [1 << 11]triggerRules
}

// triggerRules are the rules of four bytes, at the place of their hash or at the
// next that was free.
type triggerRules struct {
	window uint32
	set    ruleSet
}

// A ruleSet has a bit for each rule, by its place in rules, and one for words.
type ruleSet [2]uint64

// wordBit is set where a word of trouble, or one that tools count with, may be.
const wordBit = 127

func (s *ruleSet) add(bit int)         { s[bit>>6] |= 1 << (bit & 63) }
func (s ruleSet) has(bit int) bool     { return s[bit>>6]>>(bit&63)&1 != 0 }
func (s ruleSet) anyRule() bool        { s[1] &^= 1 << (wordBit & 63); return s != ruleSet{} }
func (s ruleSet) any() bool            { return s != ruleSet{} }
func (s ruleSet) or(t ruleSet) ruleSet { return ruleSet{s[0] | t[0], s[1] | t[1]} }

// triggers are made of the rules' own hints, so that no rule can be forgotten.
var triggers = newTriggers()

// wordHints are the beginnings of words that tell of trouble wherever they
// stand.
var wordHints = []string{
	"error", "fail", "fatal", "panic", "exception", "warn", "cannot", "can't", "couldn't", "not found",
	"no such", "undefined", "denied", "refused", "abort", "killed", "segmentation", "timed out", "timeout",
	"unable", "invalid", "missing", "conflict", "unexpected", "unknown", "rejected", "critical", "expected", "assert",
	"traceback", "core dumped", "out of memory", "deprecated", "unresolved", "does not exist", "not defined", "severe",
	"overflow", "violat", "corrupt", "mismatch", "unreachable", "unauthorized", "forbidden", "lost:",
}

// countHints are the beginnings of words that tools count their work with.
var countHints = []string{"passed", "passing", "success", "complete", "finished", "total", "listening", "written", "wrote ", "summary"}

func newTriggers() *triggerSet {
	t := new(triggerSet)
	for i, r := range rules {
		t.add(r.hints, i)
	}
	t.add(wordHints, wordBit)
	t.add(countHints, wordBit)
	return t
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

// fold takes one more byte into a window of four; letters lose their case.
func fold(w uint32, b byte) uint32 { return w<<8 | uint32(b|0x20) }

func slot(w uint32) uint32 { return w * 0x9e3779b1 >> 14 }

func (t *triggerSet) has(w uint32) bool {
	return t.bits[slot(w)>>6]>>(slot(w)&63)&1 != 0
}

// at returns the entry of four bytes, or the free one where it is to be.
func (t *triggerSet) at(w uint32) *triggerRules {
	for i := slot(w); ; i++ {
		e := &t.rules[i%uint32(len(t.rules))]
		if e.window == w || e.window == 0 {
			return e
		}
	}
}

// in returns the rules that a line may have to do with.
func (t *triggerSet) in(text []byte) (set ruleSet) {
	w := uint32(' ') // so that a hint can be of a line's beginning
	for i, b := range text {
		if w = fold(w, b); t.has(w) && i >= 2 {
			set = set.or(t.at(w).set)
		}
	}
	return set
}
