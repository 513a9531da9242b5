package summary

import "slices"

// A trigger set finds in one quick pass whether a line may interest a rule: it
// has one bit for each four bytes that a hint of some rule begins with. It
// never misses a hint; now and then it sees one where there is none.
type triggerSet [1 << 12]uint64

// triggers are made of the rules' own hints, so that no rule can be forgotten.
var triggers = newTriggers(ruleHints(), wordHints, countHints)

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

func newTriggers(lists ...[]string) *triggerSet {
	set := new(triggerSet)
	for _, hint := range slices.Concat(lists...) {
		var w uint32
		for i := range 4 {
			w = fold(w, hint[i])
		}
		bit := slot(w)
		set[bit>>6] |= 1 << (bit & 63)
	}
	return set
}

// fold takes one more byte into a window of four; letters lose their case.
func fold(w uint32, b byte) uint32 { return w<<8 | uint32(b|0x20) }

func slot(w uint32) uint32 { return w * 0x9e3779b1 >> 14 }

func (t *triggerSet) has(w uint32) bool {
	bit := slot(w)
	return t[bit>>6]>>(bit&63)&1 != 0
}

func (t *triggerSet) in(text []byte) bool {
	w := uint32(' ') // so that a hint can be of a line's beginning
	for i, b := range text {
		w = fold(w, b)
		if t.has(w) && i >= 2 {
			return true
		}
	}
	return false
}
