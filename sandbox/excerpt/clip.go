package excerpt

import "strings"

// Clip returns s if it has at most most bytes. Otherwise it returns the first ones, cut
// between two characters and without invalid UTF-8, and "…".
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ClipRunes returns s if it has at most most characters. Otherwise it returns the first
// ones and "…". Clip counts bytes, for limits of size; ClipRunes counts characters, for
// text that a person reads.
func ClipRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
