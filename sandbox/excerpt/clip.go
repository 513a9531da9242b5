package excerpt

// ClipRunes returns s if it has at most so many characters, or else its first ones and
// "…". Clip counts bytes, which a size limit needs; this counts what a person reads.
func ClipRunes(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
