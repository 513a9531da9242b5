package redact

import "strings"

const (
	// maxPrefix bounds the text before base64 on each line but the first: an
	// indentation, a number, a comment sign, a quote.
	maxPrefix = 48

	// maxSuffix bounds the text after base64 on each line but the last: a quote, a
	// comma, a backslash.
	maxSuffix = 8
)

// A stretch is a part of a text.
type stretch struct{ from, to int }

// links are the characters that can be on the two sides of a line end within the
// base64 of the values: the last two before it and the first one after it. Most line
// ends have none of them.
type links struct {
	pairs, triples hashes
}

func (l *links) add(code string) {
	// The character before the first one depends on the text before the value.
	l.pairs.set(0, 0, code[0])
	l.triples.set(0, code[0], code[1])
	for i := 2; i < len(code); i++ {
		l.pairs.set(0, code[i-2], code[i-1])
		l.triples.set(code[i-2], code[i-1], code[i])
	}
}

// ends reports whether two characters can be before a line end.
func (l *links) ends(a, b byte) bool { return l.pairs.has(0, a, b) || l.pairs.has(0, 0, b) }

func (l *links) has(a, b, c byte) bool { return l.triples.has(a, b, c) || l.triples.has(0, b, c) }

// hashes is a set of sequences of characters, with false positives.
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

// join removes the text between pieces of base64 on consecutive lines, however short
// they are. It does not know the surrounding text and also joins some pieces that are
// not base64; that is safe, since only a missing join could show a secret. If no two
// pieces follow each other, it returns no seams.
//
// Lines of a diff begin with a sign that base64 also contains; signed skips it.
func (l *links) join(s string, signed bool) (joined string, seams []seam) {
	if strings.IndexByte(s, '\n') < 0 {
		return "", nil
	}
	var b strings.Builder
	var before stretch // the last piece of the previous line
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
		b.WriteByte('\n') // the last piece does not continue
	}
	return b.String(), seams
}

// lastRun returns the last piece of a line that may be base64. It is empty if the text
// after it is too long.
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

// longestRun returns the longest piece of a line that may be base64, the last of
// several. It prefers any other piece to a line number.
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

// isSign reports whether characters of base64 are more likely a horizontal rule, a
// list marker or an operator.
func isSign(s string) bool { return len(s) <= 2 && strings.Trim(s, "+-/_") == "" }
