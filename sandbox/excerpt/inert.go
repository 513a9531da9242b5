package excerpt

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Inert converts bytes of a box to text that is safe to show anywhere. Invalid UTF-8
// and characters that change the direction of text become U+FFFD, and a control
// character becomes its picture (ESC is ␛). Tabs and newlines stay; the carriage
// return of a CR LF is removed.
func Inert(p []byte) string {
	if plain(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p) + len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		if r != '\r' || len(p) < 2 || p[1] != '\n' {
			b.WriteRune(inert(r))
		}
		p = p[n:]
	}
	return b.String()
}

// plain reports whether p is ASCII that Inert does not change. Nearly all output is.
func plain(p []byte) bool {
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

func inert(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r < ' ':
		return '␀' + r // the control pictures have the order of the characters
	case r == 0x7f:
		return '␡'
	case r > 0x7f && r < 0xa0:
		return utf8.RuneError
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029:
		return utf8.RuneError
	}
	return r
}

// Count formats a number with a noun: "1 line", "1,204 lines".
func Count(n int64, noun string) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n == 1 {
		return s + " " + noun
	}
	return s + " " + noun + "s"
}
