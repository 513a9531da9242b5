package summary

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A masker hides secrets in text that leaves the package. It is too slow for every line that streams by, so lines are masked once they are
// chosen, and before they are clipped: half of a secret has no form any more.
type masker struct {
	hide   func(string) string // nil hides nothing
	margin int                 // how much more than is shown is kept at each seam
}

func (m masker) text(s string) string {
	if m.hide == nil {
		return s
	}
	return m.hide(s)
}

// line is what may be shown of a line: masked, and with … for each seam.
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

// part is what may be shown of a part of a line. All of the part is masked before
// any of it is left out: a secret that lies on this side of a seam is known as a
// whole only there. One that lies across the seam is hidden too: as a whole if it is
// no longer than the margin that was kept for this, and as a run of bytes that keys
// consist of, masks among them, however long it is.
func (m masker) part(text string, cutBefore, cutBehind bool) string {
	text = m.text(text)
	if cutBefore {
		text = text[m.hiddenStart(text):]
	}
	if cutBehind {
		text = text[:len(text)-m.hiddenEnd(text)]
	}
	return wholeRunes([]byte(text))
}

// hiddenStart returns how much of a masked text behind a seam is not shown.
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

// maxMask is more than the longest mask has.
const maxMask = 40

// maskEnd returns the length of the mask that a text begins with, 0 for none.
func maskEnd(text string) int {
	if !strings.HasPrefix(text, "‹") {
		return 0
	}
	if i := strings.Index(text[:min(len(text), maxMask)], "›"); i > 0 {
		return i + len("›")
	}
	return 0
}

// maskStart returns the length of the mask that a text ends with, 0 for none.
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

// inKeys reports the characters that keys and tokens consist of, and the one
// that stands for their ends of lines within a string.
func (m masker) inKeys(r rune) bool {
	return m.hide != nil && (r < 0x80 && classes[r] != separator || strings.ContainsRune(`+/=-_.\`, r))
}

// A keyBlock hides the lines of a private key in PEM: one by one they have no
// form that a mask could know.
type keyBlock struct {
	left int // lines that may still be of a key
	odd  int // of the last ones, those that do not look like it
}

const (
	// maxKeyLines is what the largest key in use has, RSA of 16,384 bits.
	maxKeyLines = 200
	// maxOdd lines in a row that no key has end the block: somebody only spoke
	// of one. A key begins with two lines of words and an empty one at most.
	maxOdd = 4
	// keyRun is the length of a word that may be a line of a key.
	keyRun = 32
)

// hide returns what may be kept of a line: all of it, up to where a key begins,
// or nothing.
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

// keyHead returns where the first line of a private key ends that is not all on
// this line.
func keyHead(text []byte) int {
	begin := []byte("-----BEGIN ")
	if !bytes.Contains(text, begin) { // far quicker than LastIndex
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
