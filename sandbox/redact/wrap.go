package redact

import "strings"

const (
	// maxPrefix bounds the text before base64 on each line but the first: an
	// indentation, a number, a comment sign, a quote.
	maxPrefix = 48

	// maxSuffix bounds the text after base64 on each line but the last: a quote, a
	// comma, an escaped line end, a tag.
	maxSuffix = 8

	// maxOpen bounds the matches of one code that a line continues. Only a value that
	// repeats itself reaches it.
	maxOpen = 16
)

// A head is the beginning of the base64 of a value, which can be before a line end.
type head struct {
	code int // index in known.base64
	n    int // its number of characters
}

// heads are the heads of all base64, by their last two characters. The first character
// alone is under 0 and itself, since the one before it depends on other text.
type heads struct {
	by   map[[2]byte][]head
	seen hashes
}

func (h *heads) add(code int, text string) {
	if h.by == nil {
		h.by = map[[2]byte][]head{}
	}
	var before byte
	for i := range len(text) - 1 {
		end := [2]byte{before, text[i]}
		h.by[end] = append(h.by[end], head{code, i + 1})
		h.seen.set(end)
		before = text[i]
	}
}

// hashes is a set of pairs of characters, with false positives.
type hashes [1 << 7]uint64

func (h *hashes) set(pair [2]byte) {
	n := hash(pair)
	h[n>>6] |= 1 << (n & 63)
}

func (h *hashes) has(pair [2]byte) bool {
	n := hash(pair)
	return h[n>>6]&(1<<(n&63)) != 0
}

func hash(pair [2]byte) uint32 {
	const bits = 13
	return (uint32(pair[0])<<8 | uint32(pair[1])) * 2654435761 >> (32 - bits)
}

// An open match is a head that ends a line and that the next line may continue.
type open struct {
	head
	from int // where it begins
}

// findWrapped finds base64 that line ends interrupt, however short the lines. It skips
// up to maxSuffix bytes before a line end and up to maxPrefix bytes after it, whatever
// they are. To recognize this text instead, by its characters or because each line
// repeats it, would miss a value behind the text that was not thought of.
func (k *known) findWrapped(s string, spans []Span) []Span {
	var matches, next []open
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '\n')
		to := from + i
		if i < 0 {
			to = len(s)
		}
		next = next[:0]
		for _, m := range matches {
			spans, next = k.proceed(s, from, to, m, spans, next)
		}
		if i < 0 {
			return spans
		}
		next = k.begin(s, from, to, next)
		matches, next = next, matches
		from = to + 1
	}
}

// begin appends the heads at the end of the line s[from:to].
func (k *known) begin(s string, from, to int, matches []open) []open {
	for at := to; at > from && to-at <= maxSuffix; at-- {
		c := s[at-1]
		if !inBase64(c) {
			continue
		}
		for _, end := range [2][2]byte{{0, c}, {s[max(at-2, from)], c}} {
			if !k.heads.seen.has(end) {
				continue
			}
			for _, h := range k.heads.by[end] {
				code := k.base64[h.code].inner
				if h.n <= at-from && s[at-h.n:at] == code[:h.n] && !strings.HasPrefix(s[at:to], code[h.n:]) {
					matches = k.continues(s, to+1, open{h, at - h.n}, matches)
				}
			}
		}
	}
	return matches
}

// proceed continues a match on the line s[from:to]. It appends a span for each place
// where the match is complete, and the longer matches that end this line too.
func (k *known) proceed(s string, from, to int, m open, spans []Span, matches []open) ([]Span, []open) {
	code := &k.base64[m.code]
	rest := code.inner[m.n:]
	for at := from; at < to && at-from <= maxPrefix; at++ {
		i := strings.IndexByte(s[at:min(to, from+maxPrefix+1)], rest[0])
		if i < 0 {
			break
		}
		at += i
		n := common(s[at:to], rest)
		if n == len(rest) {
			spans = append(spans, code.widen(s, Span{m.from, at + n, "secret"}))
			continue
		}
		if at+n == len(s) && m.n+n >= minCut {
			spans = append(spans, Span{m.from, len(s), "secret"})
		}
		for ; n >= 2 && to-(at+n) <= maxSuffix; n-- { // one character matches too much text
			matches = k.continues(s, to+1, open{head{m.code, m.n + n}, m.from}, matches)
		}
	}
	return spans, matches
}

// continues appends a match if the line at from can continue it.
func (k *known) continues(s string, from int, m open, matches []open) []open {
	rest := k.base64[m.code].inner[m.n:]
	window := s[from:min(len(s), from+maxPrefix+2)]
	if !strings.Contains(window, rest[:min(len(rest), 2)]) && !(from+len(window) == len(s) && strings.HasSuffix(window, rest[:1])) {
		return matches
	}
	same := 0
	for i := range matches {
		if matches[i].head == m.head {
			matches[i].from = min(matches[i].from, m.from)
			return matches
		}
		if matches[i].code == m.code {
			same++
		}
	}
	if same == maxOpen {
		return matches
	}
	return append(matches, m)
}

// common returns the length of the common prefix of two texts.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
