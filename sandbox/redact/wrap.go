package redact

import "strings"

const (
	// maxPrefix is how much may stand before base64 on each line but the first: an
	// indentation, a number, a sign of a comment, a quote.
	maxPrefix = 48

	// maxSuffix is how much may stand behind it on each line but the last: a quote, a
	// comma, a backslash.
	maxSuffix = 8
)

// A stretch is a part of a text.
type stretch struct{ from, to int }

// links has what may stand on the two sides of a line's end within the base64 of the
// values: the last two characters before it and the first one behind it. Most ends of
// lines have none of it.
type links struct {
	pairs, triples hashes
}

func (l *links) add(code string) {
	// What stands before the first character depends on what comes before the value.
	l.pairs.set(0, 0, code[0])
	l.triples.set(0, code[0], code[1])
	for i := 2; i < len(code); i++ {
		l.pairs.set(0, code[i-2], code[i-1])
		l.triples.set(code[i-2], code[i-1], code[i])
	}
}

// ends reports whether two characters may stand before a line's end.
func (l *links) ends(a, b byte) bool { return l.pairs.has(0, a, b) || l.pairs.has(0, 0, b) }

func (l *links) has(a, b, c byte) bool { return l.triples.has(a, b, c) || l.triples.has(0, b, c) }

// hashes is a set of characters that stand together, which may have more of them.
type hashes [1 << 9]uint64

func (h *hashes) set(a, b, c byte) {
	n := hash(a, b, c)
	h[n>>6] |= 1 << (n & 63)
}

func (h *hashes) has(a, b, c byte) bool {
	n := hash(a, b, c)
	return h[n>>6]&(1<<(n&63)) != 0
}

func hash(a, b, c byte) uint32 {
	const bits = 15
	return (uint32(a)<<16 | uint32(b)<<8 | uint32(c)) * 2654435761 >> (32 - bits)
}

// join takes out what stands between pieces of base64 on lines that follow each other,
// however short they are. It knows nothing of the text around them, and joins some
// that are none as well: only what it does not join could be shown. Where no two pieces
// follow each other it returns no seams.
//
// Of a diff, each line begins with a sign that base64 has too; signed leaves it out.
func (l *links) join(s string, signed bool) (joined string, seams []seam) {
	if strings.IndexByte(s, '\n') < 0 {
		return "", nil
	}
	var b strings.Builder
	var before stretch // what the line before ends with
	joining := false
	for from := 0; from < len(s); {
		to := len(s)
		if i := strings.IndexByte(s[from:], '\n'); i >= 0 {
			to = from + i
		}
		begin := from
		if signed && begin < to && (s[begin] == '+' || s[begin] == '-') {
			begin++
		}
		last := lastRun(s, begin, to)
		linked := false
		if before.to-before.from > 1 && l.ends(s[before.to-2], s[before.to-1]) {
			longest := longestRun(s, begin, to)
			linked = longest.to > longest.from && longest.from-from <= maxPrefix && l.has(s[before.to-2], s[before.to-1], s[longest.from])
			if linked && !joining {
				if seams != nil {
					b.WriteByte('\n')
				}
				seams = append(seams, seam{b.Len(), before.from})
				b.WriteString(s[before.from:before.to])
			}
			if linked {
				seams = append(seams, seam{b.Len(), longest.from})
				b.WriteString(s[longest.from:longest.to])
				linked = longest == last
			}
		}
		before, joining = last, linked
		from = to + 1
	}
	if seams != nil && !(joining && before.to == len(s)) {
		b.WriteByte('\n') // nothing more is to come of it
	}
	return b.String(), seams
}

// lastRun returns the last piece of a line that may be base64, one of no length where
// too much stands behind it.
func lastRun(s string, from, to int) stretch {
	for i := to; i > from && to-i <= maxSuffix; {
		if !inBase64(s[i-1]) {
			i--
			continue
		}
		end := i
		for i > from && inBase64(s[i-1]) {
			i--
		}
		if !isSign(s[i:end]) {
			return stretch{i, end}
		}
	}
	return stretch{}
}

// longestRun returns the longest such piece, and of several the last. The number of a
// line is none where there is another.
func longestRun(s string, from, to int) (longest stretch) {
	for i, number := from, true; i < to; {
		if !inBase64(s[i]) {
			i++
			continue
		}
		x := stretch{i, i}
		digits := true
		for i < to && inBase64(s[i]) {
			digits = digits && s[i] >= '0' && s[i] <= '9'
			i++
		}
		if x.to = i; isSign(s[x.from:x.to]) {
			continue
		}
		if number || x.to-x.from >= longest.to-longest.from {
			longest = x
		}
		number = number && digits
	}
	return longest
}

// isSign reports whether characters of base64 are more likely those of a rule, a list
// or an operator.
func isSign(s string) bool { return len(s) <= 2 && strings.Trim(s, "+-/_") == "" }
