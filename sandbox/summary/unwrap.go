package summary

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unwrapped returns a line without what the tool that passes it on put around it: a
// clock, the name of a host or container, an envelope of JSON.
func unwrapped(text string) string {
	for range maxWraps {
		if !mayWrap(text) {
			break
		}
		n := len(wrapPrefix().FindString(text))
		if n == 0 || tableRow().MatchString(text) {
			break
		}
		text = text[n:]
	}
	if strings.HasPrefix(text, `{"`) {
		return members(text)
	}
	if head, object, ok := strings.Cut(text, ` => {"`); ok { // ansible
		if inner := members(`{"` + object); inner != `{"`+object {
			return head + " => " + clip + inner
		}
	}
	return text
}

// mayWrap reports whether a line may begin with a prefix, much faster than the regexp.
func mayWrap(text string) bool {
	if text == "" {
		return false
	}
	head := text[:min(len(text), 64)]
	switch b := text[0]; {
	case b == '#' || b == '[' || b >= utf8.RuneSelf || classes[b] == digit:
		return true
	case classes[b] == separator && b != '@' && b != '.' && b != '_' && b != '-':
		return false
	}
	return strings.Contains(head, " | ") || strings.Count(head, ":") >= 2
}

// maxWraps is the number of nested prefixes: compose adds one to a line that a service
// has stamped, and a CI system another.
const maxWraps = 3

// wrapPrefix matches the prefix that a tool adds to the lines of another one: docker
// build, CI systems, compose, terraform, syslog, monorepo runners, clocks.
var wrapPrefix = re(`^(?:#\d+ (?:\d+\.\d+ )?|\d+\.\d+ |[│|╷╵] |[A-Za-z][\w.-]* +\| ` +
	`|\[?` + clockDate + `[T ]` + clockTime + `\]?:? +(?:\[\d+\] )?|\[?` + clockTime + `\]? |\[ *\d[\d:.]*\] ` +
	`|[A-Z][a-z]{2} [ \d]\d ` + clockTime + ` [\w.-]+ |\d+:[A-Z] \d\d [A-Z][a-z]{2} \d{4} ` + clockTime + ` [.*#-] |[IWEF]\d{4} ` + clockTime + ` +\d+ ` +
	`|[@\w./-]+:(?:build|test|lint|dev|check|typecheck): )`)

// tableRow matches a row of at least four cells. The first one looks like the name of a
// service that compose puts before a line.
var tableRow = re(`^[A-Za-z][\w.-]* +\|(?:[^|]{1,40}\|){2}`)

const (
	clockDate = `(?:\d{2}|\d{4})[-/]\d\d[-/]\d\d`
	clockTime = `\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?`
)

// shownForm returns a line as it is shown. A log line keeps its time of day, since it
// tells what came first, and loses the rest of its prefix.
func shownForm(text string) string {
	inner := unwrapped(text)
	if m := timeOfDay().FindStringIndex(text); m != nil && m[1] < len(text)-len(inner)+1 && inner != "" && strings.HasSuffix(text, inner) {
		if k := levelOf(inner, strings.ToLower(inner)); k != plainLine {
			return squeezed(text[m[0]:])
		}
	}
	return squeezed(strings.TrimSpace(inner))
}

// timeOfDay matches the clock of a log; CI systems print more digits of a second.
var timeOfDay = re(`\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\b`)

// envelopes are members whose value is the line of another program.
var envelopes = []string{"Output", "log", "rendered"}

// boring are members of a log line or a result that say nothing of what happened.
var boring = []string{
	"ts", "time", "timestamp", "@timestamp", "@version", "date", "datetime", "host", "hostname", "pid", "tid", "thread", "thread_name", "v", "logger", "logger_name",
	"Time", "stream", "service", "env", "version", "trace_id", "traceId", "span_id", "spanId", "request_id", "requestId",
	"changed", "delta", "start", "end", "invocation", "stdout_lines", "stderr_lines", "ansible_facts",
}

// members returns the text of an object on one line: the value of its envelope, or its
// members without the boring and the empty ones.
func members(text string) string {
	var b strings.Builder
	end := 0 // of the last member, if it is shown
	for at := 1; at < len(text) && text[at:] != "}"; {
		m, ok := memberAt(text, at)
		if !ok {
			return text
		}
		if slices.Contains(envelopes, m.key) && text[m.value] == '"' {
			return strings.TrimRight(decoded(text[m.value+1:m.end-1]), " ")
		}
		switch at = m.end; {
		case slices.Contains(boring, m.key) || slices.Contains(empty, text[m.value:m.end]):
			end = 0
		case b.Len() == 0:
			b.WriteString(m.shown(text))
			end = m.end
		case end > 0:
			b.WriteString(text[end:m.start] + m.shown(text))
			end = m.end
		default:
			b.WriteString(clip + m.shown(text))
			end = m.end
		}
	}
	if b.Len() == 0 {
		return text
	}
	return b.String()
}

// empty are values without content.
var empty = []string{`""`, "[]", "{}", "null"}

// A place of a member in an object: where its key and its value begin, and where it ends.
type memberPlace struct {
	key               string
	start, value, end int
}

func (m memberPlace) shown(text string) string {
	if text[m.value] == '"' && m.end-m.value > maxMember {
		return text[m.start:m.value] + beginning(text[m.value:m.end], maxMember) + clip
	}
	if text[m.value] == '{' {
		return text[m.start:m.value] + withoutStack(text[m.value:m.end])
	}
	return text[m.start:m.end]
}

// memberAt returns the place of the first member of an object from an index on.
func memberAt(text string, at int) (m memberPlace, ok bool) {
	m.start = skip(text, at, ", ")
	n := stringEnd(text[m.start:])
	if n < 0 {
		return m, false
	}
	m.key = text[m.start+1 : m.start+n-1]
	colon := skip(text, m.start+n, " ")
	if colon == len(text) || text[colon] != ':' {
		return m, false
	}
	m.value = skip(text, colon+1, " ")
	n = valueEnd(text[m.value:])
	if n <= 0 {
		return m, false
	}
	m.end = m.value + n
	next := skip(text, m.end, " ")
	return m, next < len(text) && (text[next] == ',' || next == len(text)-1 && text[next] == '}')
}

// skip returns the index of the next byte that is none of some signs.
func skip(text string, at int, signs string) int {
	for at < len(text) && strings.IndexByte(signs, text[at]) >= 0 {
		at++
	}
	return at
}

// stringEnd returns where the string at the beginning of a text ends, or -1.
func stringEnd(text string) int {
	if !strings.HasPrefix(text, `"`) {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// valueEnd returns where the value at the beginning of a text ends, or -1.
func valueEnd(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			n := stringEnd(text[i:])
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// decoded returns the text of a string of JSON as one line: what is not printable in
// it becomes a blank. Of one that is not valid it returns the source.
func decoded(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var text string
	if json.Unmarshal([]byte(`"`+s+`"`), &text) != nil {
		return s
	}
	return strings.Map(printed, colours().ReplaceAllString(text, ""))
}

var colours = re(`\x1b\[[0-9;:?]*[ -/]*[@-~]`)

func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// squeezed shortens rulers and columns: of a run of one sign, its beginning is left.
func squeezed(text string) string {
	var b strings.Builder
	run, before := 0, rune(0)
	cut := 0 // of the text, what is written
	for i, r := range text {
		if r != before {
			cut = squeeze(&b, text, cut, i, run, before)
			run, before = 0, r
		}
		run++
	}
	cut = squeeze(&b, text, cut, len(text), run, before)
	b.WriteString(text[cut:])
	return b.String()
}

const (
	longRun = 6 // a longer run is a ruler or a gap between columns
	leftRun = 2 // of it that is left
)

// squeeze writes the text before the end of a run, shortened if it is long.
func squeeze(b *strings.Builder, text string, from, to, run int, sign rune) int {
	if run < longRun || unicode.IsLetter(sign) || unicode.IsDigit(sign) {
		return from
	}
	size := utf8.RuneLen(sign)
	b.WriteString(text[from : to-(run-leftRun)*size])
	if sign != ' ' {
		b.WriteString(clip)
	}
	return to
}
