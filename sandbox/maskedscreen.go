package sandbox

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/screen"
)

// A maskedScreen is the screen of a terminal that never gets a secret: what is cut at the edge of
// a screen, half overwritten or half scrolled away has no recognizable form any more. A mask
// is as wide as what it replaces, so that a program's columns stay.
type maskedScreen struct {
	*screen.Screen
	secrets *redact.Redactor
	held    []byte // the last line, as far as it came: it may end within a secret
}

// maxHeld bounds the line that is held.
const maxHeld = 8 << 10

// Write masks output and draws it up to its last line. It never fails.
func (m *maskedScreen) Write(p []byte) (int, error) {
	m.held = append(m.held, p...)
	end := bytes.LastIndexByte(m.held, '\n') + 1
	if len(m.held)-end > maxHeld {
		end = len(m.held) - maxHeld/2
	}
	if end > 0 {
		m.held = slices.Clone(m.draw(m.held, end))
	}
	return len(p), nil
}

// Look draws the last line and returns what is to be seen. The beginning of a configured value
// waits for the rest.
func (m *maskedScreen) Look() screen.View {
	m.flush()
	return m.Screen.Look()
}

// Resize draws the last line and changes the size.
func (m *maskedScreen) Resize(cols, rows int) {
	m.flush()
	m.Screen.Resize(cols, rows)
}

// Echoed draws the last line and asks the screen.
func (m *maskedScreen) Echoed(lines int) bool {
	m.flush()
	return m.Screen.Echoed(lines)
}

func (m *maskedScreen) flush() {
	m.held = slices.Clone(m.draw(m.held, len(m.held)-m.begun(m.held)))
}

// begun returns how many bytes at the end of a text are the beginning of a configured value.
func (m *maskedScreen) begun(text []byte) (n int) {
	if m.secrets == nil {
		return 0
	}
	for _, v := range m.secrets.Values {
		for k := min(len(v)-1, len(text)); k > n && len(v) >= redact.MinValue; k-- {
			if strings.HasSuffix(string(text[len(text)-k:]), v[:k]) {
				n = k
			}
		}
	}
	return n
}

// draw draws text[:end], or less if a secret crosses that border, and returns the rest.
func (m *maskedScreen) draw(text []byte, end int) (rest []byte) {
	at := 0
	for _, x := range m.secrets.Find(text) {
		if x.To > end {
			end = min(end, max(x.From, at))
			break
		}
		m.Screen.Write(text[at:x.From])
		m.Screen.Write(wideMask(x.Mask(), text[x.From:x.To]))
		at = x.To
	}
	m.Screen.Write(text[at:end])
	return text[end:]
}

// wideMask returns a mask that is as wide as the secret, if that is longer.
func wideMask(mask string, secret []byte) []byte {
	missing := utf8.RuneCount(secret) - utf8.RuneCountInString(mask)
	return []byte(mask + strings.Repeat("·", max(0, missing)))
}
