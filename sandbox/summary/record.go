package summary

import (
	"strings"
	"unicode/utf8"
)

// recordMessage matches the beginning of a string that says what happened, in a record of
// JSON. The first one counts: an error comes before the message that a request failed.
var recordMessage = re(`"(?:message|msg|description|text|err|error|reason|cause|exception|details?)": ?"`)

// recordParts returns a record that is cut to room bytes if its message comes late: the
// message, and as much of what is before it as tells where that is.
func recordParts(text string, room int) (string, bool) {
	m := recordMessage().FindStringIndex(text)
	if m == nil || m[1] <= room/2 {
		return "", false
	}
	room -= 2 * len(clip)
	from := max(0, m[0]-room*2/5)
	for from < m[0] && !utf8.RuneStart(text[from]) {
		from++
	}
	before := ""
	if from > 0 {
		before = clip
	}
	rest := text[from:]
	if len(rest) <= room {
		return before + rest, true
	}
	return before + beginning(rest, room) + clip, true
}

// withoutStack omits the stack trace in an object: it takes the room of all other members.
func withoutStack(object string) string {
	m := stackMember().FindStringIndex(object)
	if m == nil {
		return object
	}
	value := m[1] - len(`"`)
	n := stringEnd(object[value:])
	if n < 0 {
		return object
	}
	return object[:m[0]] + clip + strings.TrimPrefix(object[value+n:], ",")
}

var stackMember = re(`"(?:stack|stackTrace|stack_trace|stacktrace)": ?"`)
