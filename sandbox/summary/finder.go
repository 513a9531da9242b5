package summary

import (
	"slices"
	"strings"
)

// A failure is one thing that went wrong, as told in one place of the output or
// in several.
type failure struct {
	key         string
	name        string
	weight      weight
	count       int // how often it was told of, where it has no name
	first, last int
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
	before   line // the last one of what still went well; its number is 0 if there is none

	open  *failure // lines now may belong to it
	rules []*rule  // by which it is open; the innermost is last
	left  int

	looked int // lines that rules were tried on
}

const (
	// maxFailures is far more than a summary has room for, so that the
	// weightiest are at hand.
	maxFailures = 128
	// maxLooked and one in lookShare lines are looked at closely while no
	// failure is open. That bounds the time spent on an output of nothing but
	// failures.
	maxLooked = 4096
	lookShare = 256
	// lookedAt is how much of a long line rules see: its message stands before.
	lookedAt = 512
)

// take reads a line and reports whether a failure begins there. Only the rules
// in set may tell so; a line that none of them knows matters while a failure is
// open.
func (f *finder) take(n int, raw []byte, set ruleSet) bool {
	if f.open == nil && !f.looks(n, set) {
		return false
	}
	f.looked++
	l := line{n, string(raw)}
	text := unprefixed(beginning(l.text, lookedAt))
	if f.open != nil {
		f.close(text)
	}
	if f.open == nil && !f.looks(n, set) {
		return false
	}
	lower := " " + strings.ToLower(text) // the trigger set sees a blank before a line, too
	if f.begin(l, text, lower, set, false) {
		return true
	}
	if f.open != nil && f.add(l, text) {
		return false
	}
	return f.begin(l, text, lower, set, true)
}

// looks reports whether a line may begin a failure, and there is time to see.
func (f *finder) looks(n int, set ruleSet) bool {
	return set.anyRule() && f.looked < maxLooked+n/lookShare
}

func (f *finder) end() { f.open, f.rules = nil, nil }

// close ends what text belongs to no more.
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
		if name, ok := r.begins(text, lower); ok && !passes(text, lower) {
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
	f.open, f.rules, f.left = f.failure(r, l, text, name), []*rule{r}, r.reach
	if r.back != nil {
		for _, p := range r.back(f.tail, name) {
			f.open.add(p, 3)
		}
	}
}

// failure returns a new one, or the one that the line tells of again.
func (f *finder) failure(r *rule, l line, text, name string) *failure {
	key := name
	if key == "" {
		key = masked(text)
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
	e := &failure{key: key, name: name, weight: r.weight, count: 1, first: l.n, last: l.n, parts: []piece{{l, title}}}
	if len(f.failures) == 0 {
		f.before, _ = f.tail.at(l.n - 1)
	}
	f.keep(e)
	return e
}

// retitle puts a line first that has a message behind the name. The message on
// its own is then worth less, and more where that line cuts it short.
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

// known finds a failure by its key. Some tools tell the name of a test in one
// place and more of its path in another.
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

func (f *finder) keep(e *failure) {
	if len(f.failures) >= maxFailures {
		return // open it is all the same, so that its lines open no other
	}
	if f.byKey == nil {
		f.byKey = make(map[string]*failure)
	}
	f.byKey[e.key] = e
	f.failures = append(f.failures, e)
	f.dropParent(e.name)
}

// dropParent forgets a test that failed only because one within it did.
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

// add takes a line into the open failure, if a rule says what it is there.
func (f *finder) add(l line, text string) bool {
	for i := len(f.rules) - 1; i >= 0; i-- {
		for _, p := range f.rules[i].parts {
			if p.re().MatchString(text) {
				f.open.take(p, l, text)
				return true
			}
		}
	}
	return false
}

func (e *failure) take(p part, l line, text string) {
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

// withoutMore drops all but the first piece of a role.
func withoutMore(parts []piece, r role) []piece {
	first := true
	return slices.DeleteFunc(parts, func(p piece) bool {
		drop := p.role == r && !first
		first = first && p.role != r
		return drop
	})
}

// add appends a piece unless the failure has enough of its role, or has it.
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

// masked is a text in which numbers are alike.
func masked(text string) string {
	return digitRuns().ReplaceAllString(strings.TrimSpace(text), "0")
}

var digitRuns = re(`0x[0-9a-fA-F]+|\d+`)

// streamPrefix is what a tool puts before each line of another one: docker
// build, CI systems, compose, terraform, clocks.
var streamPrefix = re(`^(?:#\d+ (?:\d+\.\d+ )?|\d+\.\d+ |[│|╷╵] |\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)? |\[\d[\d:.]*\] |[\w.-]+ +\| )`)

func unprefixed(text string) string { return text[len(streamPrefix().FindString(text)):] }

// passes reports lines that tell of something that went well, whatever words
// its name has.
func passes(text, lower string) bool { return marked(text, lower) || zeroOnly(text, lower) }

// marked reports lines that bear a mark of having passed, before or behind.
func marked(text, lower string) bool {
	return passMark().MatchString(text) || passEnd.in(text, lower)
}

var (
	passMark = re(`^\s*(?:[✓✔√]|ok\b|PASS\b|PASSED\b|--- PASS|=== (?:RUN|PAUSE|CONT|NAME)|\[\s*OK\s*\]|\[\s*RUN\s*\]|\[\s*PASSED\s*\])`)
	passEnd  = hinted{
		[]string{"...", "pass", "# skip", "# todo"},
		re(`(?:\.\.\. ?(?:ok|skipped|ignored|expected failure)|\bPASSED|\bPASS|\bPassed\s+[\d.]+ sec|# (?:SKIP|TODO).*)(?:\s*\[\s*\d+%\])?\s*$`),
	}
)

// zeroOnly reports lines whose words of trouble all count nothing.
func zeroOnly(text, lower string) bool {
	if !hasAny(lower, zeroHints) {
		return false
	}
	rest := zeroCount().ReplaceAllString(text, "")
	return len(rest) < len(text) && !trouble().MatchString(rest)
}

var zeroHints = []string{"0 ", "=0", "= 0", ":0", ": 0", "\":", "no ", "zero ", "without "}

var (
	zeroCount = re(`(?i)\b(?:0|no|zero) (?:\w+ )?(?:errors?|failures?|failed|warnings?|problems?|issues|exceptions?|timeouts?|conflicts?)(?:\(s\))?|\b(?:errors?|failures?|failed|warnings?|timeouts?|unreachable|rescued|ignored|dropped|lost)"?\s*[=:]\s*0\b|without (?:any )?(?:errors?|warnings?)`)
	trouble   = re(`(?i)error|fail|fatal|panic|exception|warn|cannot|can't|couldn't|not found|no such|undefined|denied|refused|abort|killed|timed out|timeout|unable|invalid|missing|conflict|unexpected|unknown|rejected|critical|unreachable|violat|corrupt|mismatch|does not exist|not defined|unauthorized|forbidden`)
)
