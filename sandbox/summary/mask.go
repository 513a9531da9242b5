package summary

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// A masker masks secrets in text that leaves the package. It is too slow for every
// line of the stream, so lines are masked after they are chosen, and before they are
// clipped: half of a secret has no recognizable form.
type masker struct {
	hide   func(string) string // nil: masks nothing
	margin int                 // how much more than is shown is stored at each seam
}

func (m masker) text(s string) string {
	if m.hide == nil {
		return s
	}
	return m.hide(s)
}

// line returns a line as it may be shown: masked, with … for each seam.
func (m masker) line(text string) string {
	if !strings.Contains(text, seam) {
		return m.text(text)
	}
	parts := strings.Split(text, seam)
	for i, p := range parts {
		parts[i] = m.part(p, i > 0, i < len(parts)-1)
	}
	return strings.Join(parts, clip)
}

// sample returns a line to store, or its beginning, masked before it is cut.
func (m masker) sample(text []byte, room int) string {
	if len(text) <= room {
		return string(text)
	}
	return excerpt.Clip(m.line(string(text)), room)
}

// part returns a part of a line as it may be shown. It masks the whole part before it
// omits any of it, since only the whole part has all of a secret next to a seam. It
// also hides a secret that crosses the seam: any that is not longer than the margin,
// and of any length a run of characters of keys, including masks.
func (m masker) part(text string, cutBefore, cutAfter bool) string {
	text = m.text(text)
	if cutBefore {
		text = text[m.hiddenStart(text):]
	}
	if cutAfter {
		text = text[:len(text)-m.hiddenEnd(text)]
	}
	return wholeRunes([]byte(text))
}

// hiddenStart returns how much of a masked text after a seam is not shown.
func (m masker) hiddenStart(text string) int {
	n := 0
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if end := maskEnd(text[n:]); end > 0 {
			size = end
		} else if !m.inKeys(r) {
			break
		}
		n += size
	}
	for n < min(m.margin, len(text)) {
		n += max(1, maskEnd(text[n:]))
	}
	return n
}

// hiddenEnd returns how much of a masked text before a seam is not shown.
func (m masker) hiddenEnd(text string) int {
	n := len(text)
	for n > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:n])
		if start := maskStart(text[:n]); start > 0 {
			size = start
		} else if !m.inKeys(r) {
			break
		}
		n -= size
	}
	for n > max(0, len(text)-m.margin) {
		n -= max(1, maskStart(text[:n]))
	}
	return len(text) - n
}

// maxMask is more bytes than the text has that replaces a secret, such as ‹github token›.
const maxMask = 40

// maskEnd returns the length of the mask at the beginning of a text, or 0.
func maskEnd(text string) int {
	if !strings.HasPrefix(text, "‹") {
		return 0
	}
	if i := strings.Index(text[:min(len(text), maxMask)], "›"); i > 0 {
		return i + len("›")
	}
	return 0
}

// maskStart returns the length of the mask at the end of a text, or 0.
func maskStart(text string) int {
	if !strings.HasSuffix(text, "›") {
		return 0
	}
	last := text[max(0, len(text)-maxMask):]
	if i := strings.LastIndex(last, "‹"); i >= 0 {
		return len(last) - i
	}
	return 0
}

// inKeys reports whether a character can be part of a key or token, or of an escaped
// line end within one.
func (m masker) inKeys(r rune) bool {
	return m.hide != nil && (r < 0x80 && classes[r] != separator || strings.ContainsRune(`+/=-_.\`, r))
}

// A keyBlock hides the lines of a private key in PEM: a single line has no form that a
// mask could recognize.
type keyBlock struct {
	left int // lines that may still belong to a key
	odd  int // consecutive last lines that do not look like a key
}

const (
	// maxKeyLines is the number of lines of the largest key in use, RSA of 16,384 bits.
	maxKeyLines = 200
	// maxOdd consecutive lines that are not part of a key end the block: the text only
	// mentioned a key. A key begins with at most two lines of words and an empty one.
	maxOdd = 4
	// keyRun is the length of a word that may be a line of a key.
	keyRun = 32
)

// hide returns the part of a line that is not a key: all of it, the text up to the
// beginning of a key, or nothing.
func (k *keyBlock) hide(text []byte) []byte {
	if head := keyHead(text); head > 0 {
		k.left, k.odd = maxKeyLines, 0
		return text[:head]
	}
	if k.left == 0 {
		return text
	}
	k.left--
	if k.odd++; hasKeyRun(text) {
		k.odd = 0
	}
	if k.odd >= maxOdd || bytes.Contains(text, []byte("-----END ")) {
		k.left = 0
	}
	return nil
}

// keyHead returns where the first border of a private key ends, if the key is not
// complete on this line, or 0.
func keyHead(text []byte) int {
	begin := []byte("-----BEGIN ")
	if !bytes.Contains(text, begin) { // much faster than LastIndex
		return 0
	}
	i := bytes.LastIndex(text, begin)
	label, rest, closed := bytes.Cut(text[i+len("-----"):], []byte("-----"))
	if !closed || !bytes.HasSuffix(label, []byte("PRIVATE KEY")) && !bytes.Contains(label, []byte("PRIVATE KEY ")) ||
		bytes.Contains(rest, []byte("-----END ")) {
		return 0
	}
	return len(text) - len(rest)
}

func hasKeyRun(text []byte) bool {
	run := 0
	for _, b := range text {
		if run++; classes[b] == separator && b != '+' && b != '/' && b != '=' {
			run = 0
		}
		if run == keyRun {
			return true
		}
	}
	return false
}
