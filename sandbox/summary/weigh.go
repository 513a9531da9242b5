package summary

import (
	"slices"
	"strings"
)

// A kind classifies a line by its own text.
type kind int

const (
	plainLine  kind = iota
	noise           // advice and decoration
	resultLine      // a result: something made, found or measured
	warned
	doubtful // contains a word of trouble
	erred    // an error by its log level
	tally    // the tool's own count of successes and failures
)

// weigh returns the kind of a line, and its worth among lines of that kind.
func weigh(text string) (kind, int) {
	text = beginning(text, maxRuleText)
	level, info := levelOf(text, strings.ToLower(text)), quietLevel.in(text, strings.ToLower(text)) // the prefix may say it
	text = unwrapped(text)
	lower := strings.ToLower(text)
	if level == plainLine && !info {
		level = levelOf(text, lower)
	}
	if !worded().MatchString(text) || isNoise(text, lower) || libraryFrame(text) {
		return noise, 0
	}
	if level != plainLine && !tallied().MatchString(text) {
		return level, int(max(bad, severityOf(lower)))
	}
	passed := marked(text, lower)
	quiet := info || quietLevel.in(text, lower)
	if !quiet && (!passed || goodOnly().MatchString(text)) && (tallyLine().MatchString(text) || rated().MatchString(text) || tallyCount.in(text, lower)) {
		return tally, tallyWorth(text)
	}
	troubled := hasAny(lower, wordHints)
	if troubled && (passed || zeroOnly(lower)) {
		return plainLine, 0
	}
	if troubled && !quiet {
		if warning.in(text, lower) || unknownName.in(text, lower) {
			return warned, 1
		}
		if worst := severityOf(lower); worst > suspect && !inNameOnly(lower) {
			return doubtful, int(worst)
		}
	}
	if !quiet && !passed && failMark.in(text, lower) {
		return doubtful, int(bad)
	}
	if !quiet && !passed && placedTitle().MatchString(text) {
		return doubtful, int(suspect)
	}
	if !quiet && shouted().MatchString(text) {
		return resultLine, 4
	}
	if measuredRow().MatchString(text) {
		return resultLine, 4
	}
	if n := results.count(text, lower); n > 0 {
		return resultLine, n
	}
	return plainLine, 0
}

// isNoise reports whether a line is advice or decoration. One that reports an error
// before it gives advice is not.
func isNoise(text, lower string) bool {
	if !hasAny(lower, boilerplate.hints) {
		return false
	}
	m := boilerplate.re().FindStringIndex(text)
	return m != nil && !troubled(strings.ToLower(text[:m[0]]))
}

// libraryFrame reports whether a line is a stack frame outside of the user's code.
func libraryFrame(text string) bool {
	return frame().MatchString(text) && !isOwn(text) || strings.HasPrefix(text, "goroutine ") || strings.HasPrefix(text, "created by ") || lispFrame().MatchString(text)
}

// inNameOnly reports whether all words of trouble are in names: of files, of settings.
func inNameOnly(lower string) bool {
	rest := lower
	for _, w := range strings.Fields(lower) {
		if strings.Contains(w, "/") || fileName().MatchString(w) || compound().MatchString(w) {
			rest = strings.Replace(rest, w, "", 1)
		}
	}
	return !troubled(rest)
}

// placedTitle matches a line that begins with its place, as findings of most tools do. A
// line number alone needs a colon: stack frames have none. After more than one blank, compilers
// continue the finding before.
var placedTitle = re(`^(?:[A-Za-z]:)?[^\s:(]+\.[A-Za-z]\w{0,5}(?::\d+:\d+:?|:\d+:|\(\d+(?:,\d+)?\):)\s\S`)

var (
	lispFrame = re(`^\s*\d+: (?:\(|0x[0-9a-f]+ |(?:core|std|alloc|test)::)`)
	frame     = re(`^\s+(?:at |from |File "|#\d+ |\S+:\d+)`)
	fileName  = re(`\.\w{1,5}$`)
	// compound matches a name of several words, as settings and counters have.
	compound = re(`^\W*[a-z0-9]+(?:[_-][a-z0-9]+)+(?:\W.*)?$`)
)

// levelOf returns the kind of a log line with a level of warning or worse.
func levelOf(text, lower string) kind {
	m := level.find(text, lower)
	switch {
	case strings.HasPrefix(text, "W: "):
		return warned
	case strings.HasPrefix(text, "E: "), strings.HasPrefix(text, "F: "):
		return erred
	case m == nil:
		return plainLine
	case strings.ContainsAny(strings.Join(m[1:], ""), "wW4"):
		return warned
	}
	return erred
}

// A hinted regexp is tried only on lines that contain one of its hints, in lower case.
type hinted struct {
	hints []string
	re    pattern
}

func (h hinted) in(text, lower string) bool {
	return hasAny(lower, h.hints) && h.re().MatchString(text)
}

func (h hinted) find(text, lower string) []string {
	if !hasAny(lower, h.hints) {
		return nil
	}
	return h.re().FindStringSubmatch(text)
}

// count returns the number of matches, at most four.
func (h hinted) count(text, lower string) int {
	if !hasAny(lower, h.hints) {
		return 0
	}
	return len(h.re().FindAllString(text, 4))
}

func hasAny(lower string, hints []string) bool {
	return slices.ContainsFunc(hints, func(h string) bool { return strings.Contains(lower, h) })
}

// tallyWorth ranks a tally by its number of counts: the tally of the whole run has most.
func tallyWorth(text string) int {
	return 1 + len(counted().FindAllString(text, 3)) + 2*len(badCount().FindAllString(text, 2)) - 3*len(rateOnly().FindAllString(text, 1))
}

var (
	worded = re(`[\pL\pN]{2}|[\pL\pN]$|\pL ?=.*\d`) // a variable may have one letter

	// measuredRow matches a row of a table of measurements: a name, and three numbers or
	// more in columns.
	measuredRow = re(`^\s*(?:.*\s)?\pL[\w./-]*(?:\s{2,}-?[\d,]*\.?\d+(?:[kKMG]|%)?){3,}\s*$`)

	// shouted matches a sentence in capitals: solvers and old tools print their verdict so.
	shouted = re(`^\W*\p{Lu}{2,}(?: \p{Lu}{2,}){2,}\W*$`)

	boilerplate = hinted{
		[]string{"npm ", "log of", "help", "maven", "trace", "information", "at ", "--scan", "ran all", "hint:", "run", "try", "use ", "mean", " |", "-- ", "% ", "goos", "goarch", "done", "::", "##[", "== ", "more", "[error]"},
		re(`^npm notice|A complete log of this run|\[Help 1\]|Re-run Maven|full stack trace of the errors|For more info|^npm warn (?:Unknown|config)|^\s*at |RUST_BACKTRACE` +
			`|--stacktrace|--scan|Get more help|^\[ERROR\]\s*$|^Ran all test suites|^hint: |npm fund|looking for funding|To run update` +
			`|^(?:Run|Try|Use) .* for more|[Dd]id you mean|^\s*>? *\d* \||^-- (?:Detecting|Check for|Looking for|Performing)|^\s*%\s+Total` +
			`|^(?:goos|goarch):|- done$|^(?:::|##\[)(?:group|endgroup|section|command)|^[=_*-]{3,} (?i:failures|errors|short test summary info|warnings summary|test session starts) [=_*-]{3,}$` +
			`|^\s*(?:\.{3}|…)?(?:and )?\d+ more\b`),
	}

	// The regexp is split in two: the second part is anchored at the line's beginning and
	// fails fast.
	tallyCount = hinted{
		[]string{"pass", "fail", "error", "problem", "example", "vulnerab", "generated", "lost:", "changed", "newly", "warning", "build ", "tests: "},
		re(`(?i)\b\d+ (?:\w+ )?(?:passed|failed|failing|passing|failures?|errors?|problems?|examples?|vulnerabilities|warnings? generated)\b` +
			`|\bbuild (?:failed|success)|error summary:|definitely lost:|\d+ files? changed|\d+% tests passed|\d+ upgraded, \d+ newly` +
			`|\d+ (?:error|warning)\(s\)|tests: +\d+|\bok=\d+ +changed=`),
	}
	tallyLine = re(`(?i)^(?:\s*(?:\[\w+\] +)?tests?(?: files| suites| run)?:? +\d+|# (?:tests|pass|fail) \d+|ran \d+ tests?|test result:|(?:OK|FAILED) \(|\W*(?:found|detected|processed|scanned|checked) \d+ \w+` +
		`|(?:apply|destroy) complete|plan: \d+|result: (?:fail|pass)|files=\d+, tests=|ok\s+\S+\s+(?:[\d.]+s|\(cached\))|added \d+ packages` +
		`|\(\d+ rows?\)|(?:insert \d|update|delete|copy) \d+$|collected \d+ items / |\d+ tests? completed|\s*\d+ (?:pass|fail|skip)(?:ed|ing)?$)`)
	rated    = re(`^\s*(?i:critical|high|errors?|fail(?:ed|ures?)?): +[1-9]\d*$`)
	tallied  = re(`(?i)tests run:|errors? summary|build fail`) // tallies with a level before them
	counted  = re(`\d+`)
	badCount = re(`(?i)\b[1-9]\d* (?:\w+ )?(?:fail(?:ed|ing|ures?)?|errors?)\b|(?:failures?|errors?|failed|unreachable)[=:] ?[1-9]`)
	rateOnly = re(`(?i)snapshots:|^(?:test )?suites?:|test files`)

	level = hinted{
		[]string{"err", "fatal", "crit", "panic", "emerg", "alert", "warn", "wrn", "severe", " e ", " f ", " w ", "error::", "##[", "e0", "e1", "f0", "f1", "w0", "w1", "level\":"},
		re(`(?i)(?:"?(?:level|lvl|severity|log\.level|levelname)"?\s*[=:]\s*"?(err(?:or)?|fatal|crit(?:ical)?|panic|emerg|alert|warn(?:ing)?)\b)` +
			`|(?:^|[\s\[|<(:])((?-i:ERROR|ERR|FATAL|CRITICAL|CRIT|SEVERE|PANIC|EMERG|ALERT|WARN|WARNING|WRN|E|F|W))(?:[\]|>):]|\s|$)` +
			`|^\S+ \S+ \[(error|crit|alert|emerg|warn)\]|^(?:::|##\[)(error|warning)\b|^([EFW])\d{4} \d\d:\d\d:|"level":([456]0)\b`),
	}
	quietLevel = hinted{
		[]string{"info", "debug", "trace", "notice", "inf", "dbg", "note: ", "log: ", "i0", "i1", "level\":"},
		re(`^I\d{4} \d\d:\d\d:|^[\w.-]+: (?:debug|info|trace|notice): |\[(?:info|debug|trace|notice)\b|"level":[123]0\b|\bLOG: {1,2}|(?i)(?:"?(?:level|lvl|severity)"?\s*[=:]\s*"?(?:info|debug|trace|notice)\b)|: note: |(?:^|[\s\[|<(])(?-i:INFO|INF|DEBUG|DBG|TRACE|NOTICE)(?:[\]|>):]|\s)`),
	}
	// debugLine matches a message for who looks for faults in the tool itself.
	debugLine = hinted{[]string{"debug", "trace"}, re(`(?i)^(?:[\w.-]+: )?\[?(?:debug|trace)(?:\]|: )`)}

	warning = hinted{[]string{"warn", "deprecat"}, re(`(?i)\bwarn(?:ing)?\b|deprecat`)}

	// unknownName matches a name that the tool does not know, so that it has no effect.
	unknownName = hinted{[]string{"unknown "}, re(`(?i)(?:^|[:\]] )unknown (?:[\w-]+ )?(?:parameter|option|key|field|directive|setting|property|keyword|attribute|argument|flag)\b`)}

	results = hinted{[]string{
		"succ", "complete", "done", "finish", "built", "emitted", "creat", "generat", "wr", "saved", "install", "listen", "serv", "start", "ready", "running",
		"upload", "publish", "deploy", "export", "output", "report", "total", "accuracy", "loss", "score", "elapsed", "took", "transform", "version",
		"summary", "status", "optim", "feasib", "converg", "objective", "satisfi", "connect", "endpoint", "passed", "avera", "mean", "median", "max", "rate", "throughput", "requests/", "http", "127.", "localhost", "0.0.0.0",
		"diff --git", "ns/op", "ms", "kb", "mb", "gb", "kib", "mib", "gib", "%",
	}, re(`(?i)\b(?:success(?:fully)?|completed?|done|finished|built|emitted|created|generated|wrote|written|saved|installed|listening|serving|started|ready|running on|uploaded|published|deployed|exported|outputs?|report|totals?|accuracy|loss|score|elapsed|took|transformed|version|summary|optimal|objective|(?:in)?feasible|converged|(?:un)?satisfiable|connected|endpoint|passed|average|mean|median|max|rate|throughput|requests/sec)\b` +
		`|\bstatus:\s*\S|^diff --git \S+|https?://\S+|\b(?:127\.0\.0\.1|localhost|0\.0\.0\.0):\d+|\d+(?:\.\d+)? ?(?:ns/op|ms|s|kB|MB|GB|KiB|MiB|GiB|%)(?:\W|$)`)}
)
