package summary

import (
	"bytes"
	"strings"
)

// A masker hides secrets in text that leaves the package; nil hides nothing. It
// is too slow for every line that streams by, so lines are masked once they are
// chosen, and before they are clipped: half of a secret has no form any more.
type masker func(string) string

func (m masker) text(s string) string {
	if m == nil {
		return s
	}
	return m(s)
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

// part is what may be shown of a part of a line. A secret that lies across a
// seam is hidden too: as a whole if it is no longer than the margin that was
// kept for this, and as a run of bytes that keys consist of however long it is.
func (m masker) part(text string, cutBefore, cutBehind bool) string {
	before, behind := 0, 0
	if cutBefore {
		before = margin
		rest := strings.TrimLeftFunc(text, m.inKeys)
		before -= len(text) - len(rest)
		text = rest
	}
	if cutBehind {
		behind = margin
		rest := strings.TrimRightFunc(text, m.inKeys)
		behind -= len(text) - len(rest)
		text = rest
	}
	text = m.text(text)
	text = text[min(max(0, before), len(text)):]
	text = text[:len(text)-min(max(0, behind), len(text))]
	return wholeRunes([]byte(text))
}

// inKeys reports the characters that keys and tokens consist of, and the one
// that stands for their ends of lines within a string.
func (m masker) inKeys(r rune) bool {
	return m != nil && (r < 0x80 && classes[r] != separator || strings.ContainsRune(`+/=-_.\`, r))
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
