package policy

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxBytes is far above the length of commands that people and models write. A
	// longer one could make a recursive parser overflow its stack, which a Go program
	// cannot recover from.
	maxBytes = 16 << 10

	maxCalls = 256 // simple commands in a line
	maxDepth = 32  // levels of nesting
)

// checkText refuses, before parsing, text that parsers are known to read differently
// and characters that a person who reads the command does not see.
func checkText(cmd string) error {
	const write = "Write the command as plain text, and put special characters in data into a file."
	switch {
	case strings.TrimSpace(cmd) == "":
		return denied("", "the command is empty")
	case len(cmd) > maxBytes:
		return denied("Put the data into a file, or make several calls.", "the command must have at most %d bytes, got %d", maxBytes, len(cmd))
	case !utf8.ValidString(cmd):
		return denied(write, "the command must be valid UTF-8")
	}
	if at := strings.IndexFunc(cmd, hidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(cmd[at:])
		return denied(write, "the command must not contain invisible characters, got %U at byte %d", r, at)
	}
	return nil
}

// hidden reports whether a character is a control or format character: zero-width
// characters, those that change the direction of text, tags.
func hidden(r rune) bool {
	return r != '\t' && r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// A shallowReader passes text to a parser until the parser is nested too deep. It
// measures the depth by the call stack: the parser calls itself for each level, and
// only the parser knows what opens one. Without the limit, the parser needs a fifth
// of a second for 16 KiB of opening parentheses.
type shallowReader struct{ text string }

const (
	// maxFrames is several times what maxDepth levels need.
	maxFrames = 1000
	// chunk bounds how much deeper a parser can get between two measurements.
	chunk = 128
)

var errDeep = errors.New("nested too deep")

func (r *shallowReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	var frames [maxFrames]uintptr
	if runtime.Callers(0, frames[:]) == maxFrames {
		return 0, errDeep
	}
	n := copy(p[:min(len(p), chunk)], r.text)
	r.text = r.text[n:]
	return n, nil
}
