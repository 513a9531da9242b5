package excerpt

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

const (
	// maxState bounds the length of a state. Longer text is not a progress bar and is
	// retained.
	maxState = 2 << 10

	// maxPast bounds the number of states of a line that are held back.
	maxPast = 8
)

// A line tracks a line that a program prints repeatedly. It holds back the text that
// may still be overwritten.
//
// A terminal shows only the last state, so a program could hide what it did. So a
// later state replaces an earlier one only if that is progress or begins with the
// same word; other states are retained. A carriage return before a state shows that
// text was removed.
type line struct {
	past   []state // earlier states that were not replaced
	now    []byte  // text since the last carriage return
	cr     bool    // the line has a carriage return
	passes bool    // the current state is too long to hold back and is retained as it comes
	after  bool    // a part of the line was retained before
	erased bool    // a state was replaced, and no carriage return shows it yet
}

// A state is the text of a line before a carriage return.
type state struct {
	text     []byte
	word     []byte // the first word that is longer than a unit
	blank    bool
	progress bool // any later state replaces it
}

// Settle removes from a part of an output the text that it overwrites itself, as a
// Keeper does.
func Settle(p []byte) []byte {
	if !overwrites(p) {
		return p
	}
	var b bytes.Buffer
	retain := func(p []byte) { b.Write(p) }
	var l line
	l.write(p, retain)
	l.finish(retain)
	return b.Bytes()
}

func overwrites(p []byte) bool {
	return bytes.IndexByte(p, '\r') >= 0 || bytes.IndexByte(p, '\b') >= 0 ||
		bytes.IndexByte(p, 0x1b) >= 0 && (bytes.Contains(p, toColumn1) || bytes.Contains(p, toColumn))
}

// Some programs use these sequences to return to the first column.
var toColumn1, toColumn = []byte("\x1b[1G"), []byte("\x1b[G")

// write reads p and calls retain with the text that cannot be overwritten any more.
func (l *line) write(p []byte, retain func([]byte)) {
	plain := !overwrites(p)
	for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
		if l.begins() && (plain || isWhole(p[:i])) {
			retain(p[:i+1])
		} else {
			l.part(p[:i], retain)
			l.end(retain)
		}
		if p = p[i+1:]; plain { // complete lines need no further check
			n := bytes.LastIndexByte(p, '\n') + 1
			retain(p[:n])
			p = p[n:]
		}
	}
	l.part(p, retain)
}

// isWhole reports whether a line overwrites nothing. Most lines that end in CR LF do
// not.
func isWhole(p []byte) bool {
	text := bytes.TrimSuffix(p, []byte("\r"))
	return !overwrites(text) && (len(text) == len(p) || !newState(text).blank)
}

// begins reports whether the line is empty so far.
func (l *line) begins() bool { return len(l.now) == 0 && !l.cr && !l.passes }

func (l *line) end(retain func([]byte)) {
	l.finish(retain)
	if l.cr && len(l.now) == 0 && (l.after || len(l.past) > 0) {
		retain([]byte("\r\n"))
	} else {
		retain(newline)
	}
	*l = line{past: l.past[:0], now: l.now[:0]}
}

// finish calls retain with the text that is held back, without removing it.
func (l line) finish(retain func([]byte)) {
	last := newState(l.now)
	for _, s := range l.past {
		if !last.blank && s.replaceableBy(last) {
			l.erased = true
		} else {
			l.emit(s.text, retain)
		}
	}
	switch {
	case !last.blank || !l.after && len(l.now) > 0:
		l.emit(l.now, retain)
	case !l.after && l.cr:
		retain([]byte("\r")) // the line has nothing else
	}
}

// emit calls retain with a state, separated from the previous one.
func (l *line) emit(text []byte, retain func([]byte)) {
	if l.after || l.erased {
		retain([]byte("\r"))
	}
	retain(text)
	l.after, l.erased = true, false
}

// part reads bytes without a newline.
func (l *line) part(p []byte, retain func([]byte)) {
	for len(p) > 0 {
		i := 0
		for i < len(p) && p[i] != '\r' && p[i] != '\b' && p[i] != 'G' {
			i++
		}
		if i > 0 {
			l.eraseBack()
			l.print(p[:i], retain)
		}
		if i == len(p) {
			return
		}
		l.step(p[i:i+1], retain)
		p = p[i+1:]
	}
}

// step reads a byte that may have a special function.
func (l *line) step(p []byte, retain func([]byte)) {
	if p[0] == '\r' {
		l.carriageReturn(retain)
		return
	}
	if p[0] == 'G' {
		l.eraseBack()
	}
	l.print(p, retain)
	for _, sequence := range [][]byte{toColumn1, toColumn} {
		if bytes.HasSuffix(l.now, sequence) {
			l.now = l.now[:len(l.now)-len(sequence)]
			l.carriageReturn(retain)
		}
	}
}

func (l *line) print(p []byte, retain func([]byte)) {
	n := min(len(p), maxState-len(l.now))
	if l.passes {
		n = 0
	}
	l.now = append(l.now, p[:n]...)
	if p = p[n:]; len(p) == 0 {
		return
	}
	if !l.passes {
		l.finish(retain)
		*l = line{past: l.past[:0], now: l.now[:0], passes: true, after: true}
	}
	retain(p)
}

func (l *line) carriageReturn(retain func([]byte)) {
	l.cr = true
	if l.passes {
		l.passes = false
		return
	}
	s := newState(l.now)
	if s.blank {
		l.now = l.now[:0]
		return
	}
	s.progress = s.progress || isProgress(s.text)
	l.now = nil
	stay := l.past[:0]
	for _, old := range l.past {
		if old.replaceableBy(s) {
			l.erased, l.now = true, old.text[:0]
		} else {
			stay = append(stay, old)
		}
	}
	l.past = append(stay, s)
	if len(l.past) > maxPast {
		l.emit(l.past[0].text, retain)
		l.past = l.past[1:]
	}
}

// eraseBack drops the characters that backspaces let the next text overwrite, if they
// are a counter or a spinner and not words.
func (l *line) eraseBack() {
	body := bytes.TrimRight(l.now, "\b")
	for range len(l.now) - len(body) {
		r, n := utf8.DecodeLastRune(body)
		if n == 0 || r < ' ' || unicode.IsLetter(r) {
			return
		}
		body = body[:len(body)-n]
	}
	l.now = body
}

func (s state) replaceableBy(to state) bool {
	return s.progress || len(s.word) > 0 && bytes.Equal(s.word, to.word)
}

// isProgress reports whether p has signs of a progress bar, a count or a spinner,
// which sentences do not have: 12%, (3/7, [=>  ], ###, ▓, ⠹.
func isProgress(p []byte) bool {
	for i, c := range p {
		switch c {
		case '%':
			if i > 0 && isDigit(p[i-1]) {
				return true
			}
		case '[', '(':
			if isCount(p[i+1:]) || isBar(p[i+1:]) {
				return true
			}
		case '#', '=':
			if i >= 2 && p[i-1] == c && p[i-2] == c {
				return true
			}
		case 0xe2: // box drawing and blocks: U+2500 to U+259F; Braille: U+2800 to U+28FF
			if r, _ := utf8.DecodeRune(p[i:]); r >= 0x2500 && r < 0x25a0 || r >= 0x2800 && r < 0x2900 {
				return true
			}
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isCount reports whether p begins like "3/7".
func isCount(p []byte) bool {
	p = bytes.TrimLeft(p, " ")
	rest := bytes.TrimLeft(p, "0123456789")
	return len(rest) < len(p) && len(rest) > 1 && rest[0] == '/' && isDigit(rest[1])
}

// isBar reports whether p begins like "=>  ]".
func isBar(p []byte) bool {
	rest := bytes.TrimLeft(p, "=#*>- ")
	return len(p)-len(rest) >= 3 && len(rest) > 0 && rest[0] == ']'
}

// newState classifies a text by its beginning, up to the first word. A text without a
// word that is not only letters is progress: a number, a spinner.
func newState(text []byte) state {
	s := state{text: text, blank: true}
	letters, digits, from := false, false, -1
	for i := 0; i < len(text); {
		if n := sequenceLen(text[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case unicode.IsLetter(r):
			letters = true
			if from < 0 {
				from = i
			}
		case from >= 0 && utf8.RuneCount(text[from:i]) >= 3:
			s.word = text[from:i]
			s.blank = false
			return s
		default:
			from = -1
			digits = digits || unicode.IsDigit(r)
		}
		s.blank = s.blank && (r == ' ' || r == '\t')
		i += n
	}
	if from >= 0 && utf8.RuneCount(text[from:]) >= 3 {
		s.word = text[from:]
	}
	s.progress = !s.blank && len(s.word) == 0 && (digits || !letters)
	return s
}

// sequenceLen returns the length of the control sequence (ESC [ … letter) at the
// beginning of p, which sets a colour or clears the line.
func sequenceLen(p []byte) int {
	if len(p) < 2 || p[0] != 0x1b || p[1] != '[' {
		return 0
	}
	for i, c := range p[2:] {
		if c >= 0x40 && c < 0x7f {
			return i + 3
		}
	}
	return len(p)
}
