package summary

import (
	"slices"
	"strings"
)

// A severity says how bad a word of trouble is.
type severity int

const (
	harmless severity = iota
	suspect           // a word that also stands in lines of no interest
	bad
	severe // something crashed or is lost
)

// words of trouble, in lower case, at least four bytes; each may continue.
var (
	severeWords = []string{
		"fatal", "panic", "crash", "segfault", "segmentation", "deadlock", "data race", "core dumped", "out of memory", "outofmemory", "oom-", "oomkilled", "corrupt",
		"unhandled", "uncaught", "killed", "abort", "bug: ", "oops: ", "null pointer", "nullpointer", "no space left", "disk full", "critical", "severe",
		"exited with code ", "exited on signal", "terminated by signal", "stack overflow", "double free", "use-after-free", "used after", "data loss",
	}
	badWords = []string{
		"error", "fail", "exception", "traceback", "cannot", "can't", "couldn't", "could not", "not found", "no such", "undefined", "denied", "refused", "timed out",
		"timeout", "unable", "invalid", "missing", "conflict", "unexpected", "rejected", "unreachable", "violat", "mismatch", "does not exist", "not defined",
		"unauthorized", "forbidden", "not allowed", "not permitted", "not supported", "not a valid", "unsupported", "unresolved", "illegal", "malformed", "exceed",
		"overflow", "exhausted", "reset by peer", "broken pipe", "rolled back", "drift", "insufficient", "back-off", "backoff", "evicted", "unhealthy", "incompatible",
		"vulnerab", "memory leak", "memory-leak", "definitely lost", "non-2xx", "bad gateway", "incomplete", "unavailable", "unrecognized", "declined", "overrun", "not exported",
		"is not ", "must be ", "must not ", "did not ", "lost connection", "disconnected", "throttl", "duplicate", "truncated", "insecure", "expired", "undeclared", "no route",
		"unsatisfi", "cyclic", "unbound", "misspelled", "stalled", "no rule", "and not used", "redeclared", "too many arguments", "not enough arguments", "issue: ", "unclosed", "unterminated", "out of range", "out of bounds", "no matching",
	}
	suspectWords = []string{"unknown", "warn", "expected", "assert", "deprecat", "lost:", "unused", "suspicious", "retry", "retri", "skipped", "ignored", "obsolete"}
)

// wordHints are the beginnings of words that suggest trouble in any line.
var wordHints = slices.Concat(severeWords, badWords, suspectWords)

// countHints are the beginnings of words with which tools count their work.
var countHints = []string{"passed", "passing", "success", "complete", "finished", "total", "listening", "written", "wrote ", "summary"}

// troubleWords are those that are bad wherever they stand.
var troubleWords = slices.Concat(severeWords, badWords, []string{"unknown", "warn"})

// markHints are signs that a tool puts before or after what failed.
var markHints = []string{"✖ ", "✗ ", "✘ ", "❌ ", "[✘]", "[✗]", "(fail)", " [e]", "high"}

// failMark matches such a sign, or a high severity.
var failMark = hinted{markHints, re(`^\W*(?:\d+:\d+\s+)?[✖✗✘❌] |\[[✘✗]\]|\(fail\)|\[E\]\s*$|\bHIGH\b|(?i:severity\W+high)`)}

// lintStyle matches a code of pylint, flake8 or ruff for style and convention, not for
// an error.
var lintStyle = re(`:\d+:(?:\d+:)? (?:[CRIWDN]\d{3,4}|E[1-7]\d\d):?\s`)

// unparsed matches a finding that hides all others of its file, which could not be read.
// Sessions and sockets are unclosed too.
var unparsed = hinted{
	[]string{"syntax", "parse", "parsing", "unclosed", "unterminated", "unexpected"},
	re(`(?i)\bsyntax ?error|\bpars(?:e|ing) error|error parsing|cannot (?:be parsed|parse) |unclosed (?:["'\x60<({[]|block|brac|paren|quot|string|comment|tag|element|delimiter|literal)|unterminated|unexpected (?:end|eof)`),
}

// severityOf returns the severity of the worst word in a line in lower case.
func severityOf(lower string) severity {
	switch {
	case hasAny(lower, severeWords):
		return severe
	case hasAny(lower, badWords):
		return bad
	case hasAny(lower, suspectWords):
		return suspect
	}
	return harmless
}

// troubled reports whether a text in lower case has a word of trouble.
func troubled(lower string) bool { return hasAny(lower, troubleWords) }

// troubleAt returns where the first word of trouble in a text begins and ends; ok is false if there is none.
func troubleAt(text string) (from, to int, ok bool) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return 0, 0, false // it has letters that change their size
	}
	for _, w := range troubleWords {
		if i := strings.Index(lower, w); i >= 0 && (!ok || i < from) {
			from, to, ok = i, i+len(w), true
		}
	}
	return from, to, ok
}

// passes reports whether a line reports success, whatever words its name has.
func passes(text, lower string) bool { return marked(text, lower) || zeroOnly(lower) }

// marked reports whether a line begins or ends with a mark of success.
func marked(text, lower string) bool {
	return passMark().MatchString(text) || passEnd.in(text, lower)
}

var (
	passMark = re(`^\s*(?:[✓✔√]|\(pass\)|ok\b|PASS\b|PASSED\b|--- PASS|=== (?:RUN|PAUSE|CONT|NAME)|\$ \S|\S+: commands\[\d+\]>|\[command\]|\[\s*OK\s*\]|\[\s*RUN\s*\]|\[\s*PASSED\s*\])`)
	passEnd  = hinted{
		[]string{"...", "pass", "# skip", "# todo", "[✔", "[✓"},
		re(`(?:\.\.\. ?(?:ok|OK|skipped|ignored|expected failure)|\bPASSED|\bPASS|\bPassed\s+[\d.]+ sec|\[[✔✓]\]|# (?:SKIP|TODO).*)(?:\s*\[\s*\d+%\])?\s*$`),
	}
)

// zeroOnly reports whether all words of trouble in a line have a count of zero.
func zeroOnly(lower string) bool {
	if !hasAny(lower, zeroHints) {
		return false
	}
	rest := zeroCount().ReplaceAllString(lower, "")
	return len(rest) < len(lower) && !troubled(rest)
}

var zeroHints = []string{"0 ", "=0", "= 0", ":0", ": 0", "\":", "no ", "zero ", "without "}

var zeroCount = re(`(?i)\b(?:0|no|zero) (?:\w+ )?(?:errors?|failures?|failed|warnings?|problems?|issues|exceptions?|timeouts?|conflicts?|misses|violations|vulnerabilities)(?:\(s\))?` +
	`|\b(?:[\w.-]*(?:error|fail|timeout|reject|denied|exceed|abort|evict|expired)[\w.-]*|(?:non-2xx|lost|dropped|ignored|rescued|unreachable|warnings?)[\w ]*)"?\s*[=:]\s*"?0\b|without (?:any )?(?:errors?|warnings?)|0% packet loss`)
