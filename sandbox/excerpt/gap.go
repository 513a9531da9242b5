package excerpt

import (
	"fmt"
	"strings"
	"unicode"
)

// A Gap is what an excerpt leaves out of a stream at one place.
type Gap struct {
	First, Last int64  // lines of the log
	Bytes       int64  // of the stream
	Stream      string // its name if the excerpt of the other stream shows some of these lines, else ""
	Partial     bool   // a part of the first or the last line is shown
}

// Mark returns the line that stands for a gap. The lines have the numbers of the log. Guard keeps
// lines of a box from looking like it.
func (g Gap) Mark() string {
	lines := fmt.Sprintf("lines %d-%d", g.First, g.Last)
	if g.First == g.Last {
		lines = fmt.Sprintf("line %d", g.First)
	}
	switch {
	case g.Partial:
		lines = Count(g.Bytes, "byte") + " of " + lines
	case g.Stream != "":
		lines = g.Stream + " of " + lines
	}
	return markBegin + " " + lines + " left out …]\n"
}

// markBegin begins each line of ours within an excerpt.
const markBegin = "[…"

// Guard puts a backslash before the mark in each line of an excerpt that begins like one of ours,
// also behind or around invisible characters, and behind backslashes.
func Guard(text string) string {
	if !strings.Contains(text, "…") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		rest := strings.TrimLeftFunc(line, func(r rune) bool { return r == '\\' || Unseen(r) })
		inner, ok := strings.CutPrefix(rest, "[")
		if ok && strings.HasPrefix(strings.TrimLeftFunc(inner, Unseen), "…") {
			line = line[:len(line)-len(rest)] + `\` + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

// GuardMarks puts a backslash before each mark within a line, of a text that has marks of ours at
// its ends.
func GuardMarks(line string) string { return strings.ReplaceAll(line, markBegin, `\`+markBegin) }

// Unseen reports whether a character leaves no mark of its own on a screen.
func Unseen(r rune) bool {
	const fillers = "\u115f\u1160\u3164\uffa0\u2800␍"
	return unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me) || strings.ContainsRune(fillers, r)
}
