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
	// maxBytes is far above what people and models write in one command. A
	// parser that calls itself for each level can otherwise be led to overflow its
	// stack, which ends a Go program for good.
	maxBytes = 16 << 10

	maxCalls = 256 // simple commands in a line
	maxDepth = 32  // levels of nesting
)

// gate refuses, before anything is parsed, what parsers are known to disagree
// about and what a person who reads the command does not see.
func gate(cmd string) error {
	const write = "Write the command as plain text; what is special in data can come from a file."
	switch {
	case strings.TrimSpace(cmd) == "":
		return denied("", "the command is empty")
	case len(cmd) > maxBytes:
		return denied("Put the data into a file, or make several calls.", "the command has %d bytes; at most %d are checked", len(cmd), maxBytes)
	case !utf8.ValidString(cmd):
		return denied(write, "the command is not valid UTF-8")
	}
	if at := strings.IndexFunc(cmd, hidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(cmd[at:])
		return denied(write, "the command has the character %U at byte %d, which is not seen and not allowed", r, at)
	}
	return nil
}

// hidden tells control characters and those that only format: zero-width ones,
// those that turn the direction of text, tags.
func hidden(r rune) bool {
	return r != '\t' && r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// A shallowReader gives a parser its text as long as the parser is not nested
// too deep. It sees that by how many calls lie between them: the parser calls
// itself for each level, and what opens a level only the parser can tell. Without
// it, 16 KiB of opening parentheses take the parser a fifth of a second.
type shallowReader struct{ text string }

const (
	// maxFrames is some times what maxDepth levels need.
	maxFrames = 1000
	// chunk bounds how much deeper a parser can get between two looks.
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
