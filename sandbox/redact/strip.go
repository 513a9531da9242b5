package redact

import (
	"slices"
	"strings"
)

// A seam is a position in a stripped text from which on the offset to the raw text
// differs.
type seam struct{ clean, raw int }

// strip removes control characters and colour codes from s. If there are none, it
// returns no seams.
func strip(s string) (clean string, seams []seam) {
	i := nextControl(s, 0)
	if i == len(s) {
		return "", nil
	}
	var b strings.Builder
	seams = []seam{{}}
	for from := 0; ; i = nextControl(s, from) {
		b.WriteString(s[from:i])
		if i == len(s) {
			return b.String(), seams
		}
		from = i + controlLen(s[i:])
		if last := &seams[len(seams)-1]; last.clean == b.Len() {
			last.raw = from
		} else {
			seams = append(seams, seam{b.Len(), from})
		}
	}
}

func nextControl(s string, i int) int {
	for ; i < len(s); i++ {
		c := s[i]
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c == 0xc2 && isC1(s[i:]) {
			break
		}
	}
	return i
}

// isC1 reports whether s begins with one of U+0080 to U+009F.
func isC1(s string) bool { return len(s) > 1 && s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0 }

// controlLen returns the length of the code at the beginning of s: a colour code
// (ESC [ … m), the code that clears a line (ESC [ K), or one character. Other codes
// move the cursor, so the text around them is not one word for a reader either.
func controlLen(s string) int {
	if isC1(s) {
		return 2
	}
	if s[0] != 0x1b || len(s) < 2 || s[1] != '[' {
		return 1
	}
	const most = 64 // 24-bit colours of both kinds need 40
	for i := 2; i < min(len(s), most); i++ {
		switch c := s[i]; {
		case c == 'm' || c == 'K':
			return i + 1
		case (c < '0' || c > '9') && c != ';' && c != ':':
			return 1
		}
	}
	return 1
}

// rawAt returns the raw offset of a byte of the clean text.
func rawAt(seams []seam, clean int) int {
	i, found := slices.BinarySearchFunc(seams, clean, func(x seam, at int) int { return x.clean - at })
	if !found {
		i--
	}
	return seams[i].raw + clean - seams[i].clean
}
