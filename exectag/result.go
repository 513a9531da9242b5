package exectag

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// The codes of the guide for a command that did not run, or not to its end.
const (
	ExecValidation    = "EXEC_VALIDATION"    // it may not run
	DockerUnavailable = "DOCKER_UNAVAILABLE" // there is no container to run it in
	ExecTimeout       = "EXEC_TIMEOUT"       // it was killed after its time limit
	ExecFailed        = "EXEC_FAILED"        // it has no exit code for another reason
)

// Output is what a command printed, as inert text without secrets.
type Output struct {
	Stdout, Stderr string
	Notes          []string // about it, such as how much is left out
}

// A Result is that of a command that ended by itself.
type Result struct {
	Command  string
	ExitCode int
	Duration time.Duration
	Output
}

// String renders the result. The guide heads every one "EXEC SUCCESSFUL", since the exit code
// tells whether the command succeeded:
//
//	=== EXEC SUCCESSFUL: go test ===
//	Exit code: 1
//	Duration: 1.234s
//	Output:
//	STDOUT:
//	--- FAIL: TestExample (0.00s)
//
//	STDERR:
//	exit status 1
//	=== END EXEC ===
//
// The streams have names if both have output, or if the command failed. Notes, which the guide
// does not have, are lines above the output.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "=== EXEC SUCCESSFUL: %s ===\nExit code: %d\nDuration: %.3fs\n", title(r.Command), r.ExitCode, r.Duration.Seconds())
	r.write(&b, r.ExitCode != 0)
	b.WriteString("=== END EXEC ===\n")
	return b.String()
}

// A Failure is that of a command that did not run, or not to its end.
type Failure struct {
	Code    string // ExecValidation and so on
	Message string
	Tag     string // the text of the tag
	Output
}

// String renders the failure. Below what the guide has is what the command printed:
//
//	=== ERROR: EXEC_VALIDATION ===
//	Message: EXEC_VALIDATION: command not in whitelist: rm
//	Command: <exec rm -rf />
//	=== END ERROR ===
//
// The line of the command is the only one with a tag. It is not live for a Scanner, also
// without the lines around it.
func (f Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "=== ERROR: %s ===\nMessage: %s: %s\n", f.Code, f.Code, oneLine(f.Message))
	tag := oneLine(strings.TrimSuffix(strings.TrimPrefix(f.Tag, opening), ">"))
	fmt.Fprintf(&b, "%s%s%s>\n", commandLine, opening, tag)
	f.write(&b, true)
	b.WriteString("=== END ERROR ===\n")
	return b.String()
}

// write writes the notes and the output.
func (o Output) write(b *strings.Builder, named bool) {
	for _, note := range o.Notes {
		note = safe(excerpt.Inert([]byte(strings.TrimSpace(note))), false)
		fmt.Fprintf(b, "Note: %s\n", strings.ReplaceAll(note, "\n", "\n  "))
	}
	if o.Stdout+o.Stderr == "" {
		return
	}
	b.WriteString("Output:\n")
	if !named && (o.Stdout == "" || o.Stderr == "") {
		lines(b, o.Stdout+o.Stderr)
		return
	}
	if o.Stdout != "" {
		b.WriteString("STDOUT:\n")
		lines(b, o.Stdout)
	}
	if o.Stdout != "" && o.Stderr != "" {
		b.WriteByte('\n')
	}
	if o.Stderr != "" {
		b.WriteString("STDERR:\n")
		lines(b, o.Stderr)
	}
}

// lines writes text as whole lines.
func lines(b *strings.Builder, text string) {
	b.WriteString(Safe(text))
	if !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
}

// maxTitle is how much of a command the first line of its result repeats, in characters: who
// reads the result has the tag.
const maxTitle = 1000

func title(command string) string { return excerpt.ClipRunes(oneLine(command), maxTitle) }

// oneLine makes text the rest of a line, which is safe.
func oneLine(text string) string {
	text = excerpt.Inert([]byte(text))
	return safe(strings.NewReplacer("\n", "␊", "\t", "␉").Replace(text), false)
}

// Safe changes the text of a box so that it has no tag, and no line or part of a line that
// looks like the frame of a result. It adds a backslash
//
//   - behind the "<" of <exec, <open, <write and <search, which are the guide's tags, also of a
//     longer word, which the guide's program takes for a tag too: <\execution>
//   - behind the "===" of a frame: ===\ END EXEC ===
//   - before a line that is STDOUT: or STDERR:
//
// whatever the case of the letters, and whatever invisible characters or backslashes are
// between them. So what looks changed had one backslash less.
func Safe(text string) string { return safe(text, true) }

// safe is Safe for a text that begins a line, or does not.
func safe(text string, begins bool) string {
	if !strings.ContainsAny(text, "<=:") {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if begins && isStream(text) {
			b.WriteByte('\\')
		}
		n := part(text)
		b.WriteString(text[:n])
		if isTag(text[:n], text[n:]) || isFrame(text[:n], text[n:]) {
			b.WriteByte('\\')
		}
		begins = text[n-1] == '\n'
		text = text[n:]
	}
	return b.String()
}

// part returns the size of the first part of a text: a "<", a newline, a run of "=", or what is
// before the next of these.
func part(text string) int {
	switch text[0] {
	case '<', '\n':
		return 1
	case '=':
		n := 1
		for {
			rest := skip(text[n:])
			if !strings.HasPrefix(rest, "=") {
				return n
			}
			n = len(text) - len(rest) + 1
		}
	}
	if n := strings.IndexAny(text, "<=\n"); n > 0 {
		return n
	}
	return len(text)
}

// isTag reports whether a "<" and what follows look like a tag of the guide.
func isTag(mark, rest string) bool {
	if mark != "<" {
		return false
	}
	rest = strings.TrimPrefix(skip(rest), "/")
	for _, name := range []string{"exec", "open", "write", "search"} {
		if _, ok := word(rest, name); ok {
			return true
		}
	}
	return false
}

// isFrame reports whether a run of "=" and what follows look like a line of the guide's forms.
func isFrame(mark, rest string) bool {
	if strings.Count(mark, "=") < 3 {
		return false
	}
	rest = strings.TrimLeftFunc(rest, func(r rune) bool { return r == '\\' || r != '\n' && excerpt.Unseen(r) })
	for _, name := range []string{"EXEC", "END", "ERROR", "FILE", "COMMAND", "WRITE", "LLM"} {
		if end, ok := word(rest, name); ok {
			r, _ := utf8.DecodeRuneInString(end)
			return !unicode.IsLetter(r)
		}
	}
	return false
}

// isStream reports whether the first line of a text looks like the name of a stream.
func isStream(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.TrimFunc(line, func(r rune) bool { return r == '\\' || excerpt.Unseen(r) })
	for _, name := range []string{"STDOUT", "STDERR"} {
		if end, ok := word(line, name); ok && skip(end) == ":" {
			return true
		}
	}
	return false
}

// word cuts a word from the beginning of a text, in any case and with invisible characters
// between its letters.
func word(text, word string) (rest string, ok bool) {
	for _, letter := range word {
		text = skip(text)
		r, n := utf8.DecodeRuneInString(text)
		if unicode.ToLower(r) != unicode.ToLower(letter) {
			return "", false
		}
		text = text[n:]
	}
	return text, true
}

// skip cuts invisible characters and backslashes from the beginning of a text.
func skip(text string) string {
	return strings.TrimLeftFunc(text, func(r rune) bool { return r == '\\' || excerpt.Unseen(r) && !unicode.IsSpace(r) })
}
