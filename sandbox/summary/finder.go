package summary

import (
	"slices"
	"strconv"
	"strings"
)

// A failure is one thing that went wrong. One or several places of the output report
// it.
type failure struct {
	key         string
	name        string
	weight      weight
	severity    severity
	similar     int      // later failures that differ only in names
	like        *failure // the first of these
	count       int      // how often it was told of, where it has no name
	first, last int
	entry       bool   // of a rule with entry
	during      string // the note after its place, if that is the line above it
	exact       bool   // of a rule with exact
	each        bool   // of a rule with each, and not yet settled
	parts       []piece
}

type piece struct {
	line
	role role
}

// A finder reads lines and finds failures by the rules.
type finder struct {
	tail *ring

	failures []*failure
	byKey    map[string]*failure
	before   line // the last line before the first failure; its number is 0 if there is none

	open  *failure // the current lines may belong to it
	rules []*rule  // the rules that opened it; the innermost is last
	left  int

	examined int // lines that rules were tried on
}

const (
	// maxFailures is far more than a summary can show, so that the most important
	// ones are among them.
	maxFailures = 128
	// maxExamined lines, and one more for each examineShare lines, are examined while no
	// failure is open. That bounds the time spent on an output of nothing but
	// failures.
	maxExamined  = 4096
	examineShare = 256
	// maxRuleText bounds the part of a long line that rules match: its message is in it.
	maxRuleText = 512
)

// read reads a line and reports whether a failure begins there. Only the rules in set
// can match its beginning. While a failure is open, any line may belong to it.
func (f *finder) read(n int, raw []byte, set ruleSet) bool {
	if f.open == nil && !f.mayBegin(n, set) {
		return false
	}
	f.examined++
	l := line{n, string(raw)}
	text := unwrapped(beginning(l.text, maxRuleText))
	if f.open != nil {
		f.close(text)
	}
	if f.open == nil && !f.mayBegin(n, set) {
		return false
	}
	lower := " " + strings.ToLower(text) // the trigger set also adds a blank before a line
	if f.begin(l, text, lower, set, false) {
		return true
	}
	if f.open != nil && f.add(l, text) {
		return false
	}
	return f.begin(l, text, lower, set, true)
}

// mayBegin reports whether a line may begin a failure and the limit is not reached.
func (f *finder) mayBegin(n int, set ruleSet) bool {
	return set.anyRule() && f.examined < maxExamined+n/examineShare
}

func (f *finder) end() {
	f.settle()
	f.open, f.rules = nil, nil
}

// settle merges the open failure with an earlier one if all their parts are alike. It
// does so only for rules whose first line does not tell failures apart.
func (f *finder) settle() {
	if f.open == nil || !f.open.each || f.open.key == "" {
		return
	}
	key := ""
	for _, p := range f.open.parts {
		key += masked(p.text) + "\n"
	}
	e := f.byKey[key]
	switch last := len(f.failures) - 1; {
	case e == nil:
		f.byKey[key] = f.open
	case e != f.open && f.failures[last] == f.open:
		e.count, e.last = e.count+1, f.open.last
		delete(f.byKey, f.open.key)
		f.failures = f.failures[:last]
	}
	f.open.each = false
}

// close ends the rules to which text does not belong.
func (f *finder) close(text string) {
	f.left--
	for i, r := range f.rules {
		if r.ends(text) {
			f.rules = f.rules[:i]
			break
		}
	}
	if f.left < 0 || len(f.rules) == 0 {
		f.end()
	}
}

// begin opens a failure if text is the first line of one.
func (f *finder) begin(l line, text, lower string, set ruleSet, inner bool) bool {
	for i := range rules {
		r := &rules[i]
		if r.inner != inner || !set.has(i) {
			continue
		}
		if name, ok := r.begins(text, lower); ok && !passes(text, lower) && !debugLine.in(text, lower) {
			f.start(r, l, text, name)
			return true
		}
	}
	return false
}

func (f *finder) start(r *rule, l line, text, name string) {
	if r.inner && len(f.rules) > 0 && f.rules[0].holds {
		f.rules = append(f.rules[:1], r)
		f.left = max(f.left, r.reach)
		f.open.add(piece{l, message}, 2)
		return
	}
	f.settle()
	f.open, f.rules, f.left = f.failure(r, l, text, name), []*rule{r}, r.reach
	if r.back != nil {
		for _, p := range r.back(f.tail, name) {
			f.open.add(p, 3)
		}
	}
}

// failure returns a new failure, or the known one that the line reports again.
func (f *finder) failure(r *rule, l line, text, name string) *failure {
	key := name
	if key == "" {
		key = masked(text)
	}
	if name == "" && r.each {
		key += "\x00" + strconv.Itoa(l.n)
	}
	if e := f.known(key); e != nil {
		e.last = l.n
		if e.weight = max(e.weight, r.weight); name == "" {
			e.count++
			e.add(piece{l, again}, 2)
		}
		if r.retitle {
			e.retitle(l)
		}
		return e
	}
	e := &failure{key: key, name: name, weight: r.weight, severity: bad, count: 1, first: l.n, last: l.n, each: name == "" && r.each, entry: r.entry, exact: r.exact, parts: []piece{{l, title}}}
	if r.mild {
		e.severity = suspect
	}
	if len(f.failures) == 0 {
		f.before, _ = f.tail.at(l.n - 1)
	}
	f.register(e)
	return e
}

// retitle replaces the title by a line that has a message after the name. A separate
// message is then worth less, or more if the line cuts the message.
func (e *failure) retitle(l line) {
	e.parts[0] = piece{l, title}
	for i := range e.parts {
		if p := &e.parts[i]; p.role == message && strings.HasSuffix(l.text, "...") {
			p.role = place
		} else if p.role == message {
			p.role = detail
		}
	}
}

// known finds a failure by its key. Some tools print the name of a test in one place
// and more of its path in another.
func (f *finder) known(key string) *failure {
	if e := f.byKey[key]; e != nil {
		return e
	}
	for _, sep := range []string{"::", "."} {
		if i := strings.LastIndex(key, sep); i >= 0 {
			if e := f.byKey[key[i+len(sep):]]; e != nil {
				return e
			}
		}
	}
	return nil
}

func (f *finder) register(e *failure) {
	if len(f.failures) >= maxFailures {
		return // the failure stays open, so that its lines do not open another
	}
	if f.byKey == nil {
		f.byKey = make(map[string]*failure)
	}
	f.byKey[e.key] = e
	f.failures = append(f.failures, e)
	f.dropParent(e.name)
}

// dropParent drops a test that failed only because one of its subtests did.
func (f *finder) dropParent(name string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return
	}
	if p := f.byKey[name[:i]]; p != nil && len(p.parts) == 1 {
		p.weight = weak
		p.count = 0
	}
}

// add adds a line to the open failure, if a rule knows its role.
func (f *finder) add(l line, text string) bool {
	for i := len(f.rules) - 1; i >= 0; i-- {
		for _, p := range f.rules[i].parts {
			if p.re().MatchString(text) {
				f.open.addLine(p, l, text)
				return true
			}
		}
	}
	return false
}

func (e *failure) addLine(p part, l line, text string) {
	if p.max < 0 || p.own && !isOwn(text) {
		return
	}
	if p.anew {
		e.parts = withoutMore(e.parts, place)
	}
	if p.last {
		e.parts = withoutRole(e.parts, p.role)
	}
	e.add(piece{l, p.role}, max(1, p.max))
}

func withoutRole(parts []piece, r role) []piece {
	return slices.DeleteFunc(parts, func(p piece) bool { return p.role == r })
}

// withoutMore removes all but the first piece of a role.
func withoutMore(parts []piece, r role) []piece {
	first := true
	return slices.DeleteFunc(parts, func(p piece) bool {
		drop := p.role == r && !first
		first = first && p.role != r
		return drop
	})
}

// add appends a piece, unless the failure has the piece or enough of its role.
func (e *failure) add(p piece, most int) {
	for _, have := range e.parts {
		if have.role == p.role {
			most--
		}
		if have.n == p.n || strings.TrimSpace(have.text) == strings.TrimSpace(p.text) {
			return
		}
	}
	if most > 0 {
		e.parts = append(e.parts, p)
	}
}

// masked returns a text with each number replaced by 0.
func masked(text string) string {
	return digitRuns().ReplaceAllString(strings.TrimSpace(text), "0")
}

var digitRuns = re(`0x[0-9a-fA-F]+|\d+`)
