package excerpt

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

const (
	// maxState is more than what a program redraws of one line has. What is longer
	// is no progress bar and is kept.
	maxState = 2 << 10

	// maxPast is how many different things are held back of one line.
	maxPast = 8
)

// A line follows how a program prints one line over and over again. What could
// still be overwritten is held back.
//
// A terminal would show the last state only, and a program could hide by that
// what it did. So a state gives way to a later one only where it is progress, or
// begins with the same word; others stay. A carriage return in front tells that
// something is gone.
type line struct {
	past   []state // overwritten since, and not of the kind that gives way
	now    []byte  // since the last carriage return
	cr     bool    // there was one
	passes bool    // the rest of the state is kept as it comes: it is too long to be held
	after  bool    // something of the line was kept before
	erased bool    // something has given way, and nothing tells of it yet
}

// A state is what stood in a line before a carriage return.
type state struct {
	text     []byte
	word     []byte // the first one that is more than a unit
	blank    bool
	progress bool // it gives way to whatever comes
}

// Settle returns a part of an output as a Keeper keeps it: without what it has
// itself overwritten.
func Settle(p []byte) []byte {
	if !overwrites(p) {
		return p
	}
	var b bytes.Buffer
	keep := func(p []byte) { b.Write(p) }
	var l line
	l.write(p, keep)
	l.finish(keep)
	return b.Bytes()
}

func overwrites(p []byte) bool {
	return bytes.IndexByte(p, '\r') >= 0 || bytes.IndexByte(p, '\b') >= 0 ||
		bytes.IndexByte(p, 0x1b) >= 0 && (bytes.Contains(p, toColumn1) || bytes.Contains(p, toColumn))
}

// Some programs go back to the first column by these, as by a carriage return.
var toColumn1, toColumn = []byte("\x1b[1G"), []byte("\x1b[G")

// write follows p and calls keep with what cannot be overwritten any more.
func (l *line) write(p []byte, keep func([]byte)) {
	plain := !overwrites(p)
	for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
		if l.begins() && (plain || isWhole(p[:i])) {
			keep(p[:i+1])
		} else {
			l.part(p[:i], keep)
			l.end(keep)
		}
		if p = p[i+1:]; plain { // whole lines need no second look
			n := bytes.LastIndexByte(p, '\n') + 1
			keep(p[:n])
			p = p[n:]
		}
	}
	l.part(p, keep)
}

// isWhole reports whether a line overwrites nothing, as most do that end with
// CR LF.
func isWhole(p []byte) bool {
	text := bytes.TrimSuffix(p, []byte("\r"))
	return !overwrites(text) && (len(text) == len(p) || !newState(text).blank)
}

// begins reports whether there is nothing of the line yet.
func (l *line) begins() bool { return len(l.now) == 0 && !l.cr && !l.passes }

func (l *line) end(keep func([]byte)) {
	l.finish(keep)
	if l.cr && len(l.now) == 0 && (l.after || len(l.past) > 0) {
		keep([]byte("\r\n"))
	} else {
		keep(newline)
	}
	*l = line{past: l.past[:0], now: l.now[:0]}
}

// finish keeps what is held back, without forgetting it.
func (l line) finish(keep func([]byte)) {
	last := newState(l.now)
	for _, s := range l.past {
		if !last.blank && s.givesWay(last) {
			l.erased = true
		} else {
			l.keep(s.text, keep)
		}
	}
	switch {
	case !last.blank || !l.after && len(l.now) > 0:
		l.keep(l.now, keep)
	case !l.after && l.cr:
		keep([]byte("\r")) // nothing but that was printed
	}
}

// keep keeps a state, divided from the one before.
func (l *line) keep(text []byte, keep func([]byte)) {
	if l.after || l.erased {
		keep([]byte("\r"))
	}
	keep(text)
	l.after, l.erased = true, false
}

// part follows bytes without a newline.
func (l *line) part(p []byte, keep func([]byte)) {
	for len(p) > 0 {
		i := 0
		for i < len(p) && p[i] != '\r' && p[i] != '\b' && p[i] != 'G' {
			i++
		}
		if i > 0 {
			l.takeBack()
			l.print(p[:i], keep)
		}
		if i == len(p) {
			return
		}
		l.step(p[i:i+1], keep)
		p = p[i+1:]
	}
}

// step follows a byte that may do more than stand there.
func (l *line) step(p []byte, keep func([]byte)) {
	if p[0] == '\r' {
		l.carriageReturn(keep)
		return
	}
	if p[0] == 'G' {
		l.takeBack()
	}
	l.print(p, keep)
	for _, sequence := range [][]byte{toColumn1, toColumn} {
		if bytes.HasSuffix(l.now, sequence) {
			l.now = l.now[:len(l.now)-len(sequence)]
			l.carriageReturn(keep)
		}
	}
}

func (l *line) print(p []byte, keep func([]byte)) {
	n := min(len(p), maxState-len(l.now))
	if l.passes {
		n = 0
	}
	l.now = append(l.now, p[:n]...)
	if p = p[n:]; len(p) == 0 {
		return
	}
	if !l.passes {
		l.finish(keep)
		*l = line{past: l.past[:0], now: l.now[:0], passes: true, after: true}
	}
	keep(p)
}

func (l *line) carriageReturn(keep func([]byte)) {
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
		if old.givesWay(s) {
			l.erased, l.now = true, old.text[:0]
		} else {
			stay = append(stay, old)
		}
	}
	l.past = append(stay, s)
	if len(l.past) > maxPast {
		l.keep(l.past[0].text, keep)
		l.past = l.past[1:]
	}
}

// takeBack drops what backspaces have gone back over and what comes overwrites,
// where that is a counter or a spinner and no words.
func (l *line) takeBack() {
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

func (s state) givesWay(to state) bool {
	return s.progress || len(s.word) > 0 && bytes.Equal(s.word, to.word)
}

// isProgress looks for what bars, counts of a total and spinners have and
// sentences have not: 12%, (3/7, [=>  ], ###, ▓, ⠹.
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

// isCount reports whether p begins as "3/7".
func isCount(p []byte) bool {
	p = bytes.TrimLeft(p, " ")
	rest := bytes.TrimLeft(p, "0123456789")
	return len(rest) < len(p) && len(rest) > 1 && rest[0] == '/' && isDigit(rest[1])
}

// isBar reports whether p begins as "=>  ]".
func isBar(p []byte) bool {
	rest := bytes.TrimLeft(p, "=#*>- ")
	return len(p)-len(rest) >= 3 && len(rest) > 0 && rest[0] == ']'
}

// newState looks at the beginning of a text, up to its first word. What has none
// and is not letters only is progress: a number, a spinner.
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

// sequenceLen is the length of the control sequence (ESC [ … letter) that p
// begins with: they set colours and clear the line.
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
