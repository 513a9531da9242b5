package summary

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// A line is a line of the output without escape sequences and control characters. A
// very long one has a seam where a part is omitted.
type line struct {
	n    int // counted from 1
	text string
}

// A cleaner converts raw bytes to lines: it drops escape sequences, starts the line
// again at a carriage return as a terminal does, deletes a character at a backspace,
// and replaces invalid UTF-8 by U+FFFD.
type cleaner struct {
	buf   longLine
	state escape
	cr    bool // the line so far ends in a carriage return
	begun bool // there are bytes since the last newline
}

type escape int

const (
	text       escape = iota
	escaped           // after ESC
	csi               // after ESC [, up to a letter
	charset           // after ESC and an intermediate byte, up to a letter
	osc               // in a string that ends with BEL or ESC \
	oscEscaped        // after ESC in such a string
)

// read calls emit with each line that ends in p, except those that again reads itself:
// it returns how many bytes it read.
func (c *cleaner) read(p []byte, emit func([]byte), again func([]byte) int) {
	for len(p) > 0 {
		if !c.begun {
			if p = p[again(p):]; len(p) == 0 {
				return
			}
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			c.part(p)
			return
		}
		// Most lines are plain and complete, and need no copy.
		if whole := p[:i]; !c.begun && i <= c.buf.longest() && plain(whole) {
			emit(whole)
		} else {
			c.part(whole)
			c.newline(emit)
		}
		p = p[i+1:]
	}
}

// end emits a last line without newline.
func (c *cleaner) end(emit func([]byte)) {
	if c.begun {
		c.newline(emit)
	}
}

func (c *cleaner) newline(emit func([]byte)) {
	emit(c.buf.bytes())
	c.buf.reset()
	c.state, c.cr, c.begun = text, false, false
}

// part reads bytes of a line. A newline ends any open escape sequence: a broken one
// must not hide the rest of the log.
func (c *cleaner) part(p []byte) {
	c.begun = c.begun || len(p) > 0
	for len(p) > 0 {
		n := 0
		switch c.state {
		case text:
			if n = textRun(p); n > 0 {
				c.put(p[:n])
			}
		case csi:
			for n < len(p) && p[n] >= ' ' && p[n] < 0x40 {
				n++
			}
		}
		if n == 0 {
			c.step(p[0])
			n = 1
		}
		p = p[n:]
	}
}

// textRun returns the number of bytes before the first control character of p.
func textRun(p []byte) int {
	n := printable(p)
	for n < len(p) && p[n] >= ' ' && p[n] != 0x7f {
		n++
	}
	return n
}

func (c *cleaner) put(p []byte) {
	if c.cr {
		c.buf.reset()
		c.cr = false
	}
	c.buf.write(p)
}

// step processes a byte that is not text.
func (c *cleaner) step(b byte) {
	switch c.state {
	case text:
		c.control(b)
	case escaped:
		c.state = afterEscape(b)
	case csi, charset:
		if b >= 0x40 || c.state == charset && b >= 0x30 || b < ' ' {
			c.state = text
		}
	case osc:
		switch b {
		case 0x07:
			c.state = text
		case 0x1b:
			c.state = oscEscaped
		}
	case oscEscaped:
		c.state = osc
		if b == '\\' {
			c.state = text
		}
	}
}

func (c *cleaner) control(b byte) {
	switch b {
	case 0x1b:
		c.state = escaped
	case '\r':
		c.cr = true
	case '\b':
		c.buf.back()
	case '\t':
		c.put([]byte{b})
	}
}

func afterEscape(b byte) escape {
	switch {
	case b == '[':
		return csi
	case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
		return osc
	case b >= ' ' && b < 0x30:
		return charset
	case b == 0x1b:
		return escaped
	}
	return text
}

// plain reports whether a line equals its clean form.
func plain(p []byte) bool {
	high, suspect := false, false
	for i := printable(p); i < len(p); i++ {
		b := p[i]
		if b-' ' < 0x5f { // printable ASCII, which is most bytes
			continue
		}
		if b < utf8.RuneSelf && b != '\t' {
			return false
		}
		if b < utf8.RuneSelf {
			continue
		}
		high = true
		// All unseen characters begin with these two bytes.
		suspect = suspect || b == 0xc2 || b == 0xe2 && i+1 < len(p) && p[i+1] < 0x82
		i += printable(p[i+1:])
	}
	return !high || utf8.Valid(p) && !(suspect && bytes.ContainsFunc(p, unseen))
}

// printable returns the number of printable ASCII bytes at the beginning of p, rounded
// down to a multiple of eight.
func printable(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		// Adding one sets the high bit of a byte above 0x7e, and subtracting a blank
		// sets that of a byte below a blank.
		if ((x+every(1))|x|(x-every(' ')))&every(0x80) != 0 {
			break
		}
	}
	return i
}

// unseen reports whether a rune is invisible but affects a terminal: the second set of
// control characters, and those that change the direction of text.
func unseen(r rune) bool {
	return r >= 0x80 && r < 0xa0 || r == 0x200e || r == 0x200f ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029
}

// tidy converts a line to valid UTF-8 without unseen characters.
func tidy(p []byte) []byte {
	if plain(p) {
		return p
	}
	hide := func(r rune) rune {
		if unseen(r) {
			return utf8.RuneError
		}
		return r
	}
	return bytes.Map(hide, bytes.ToValidUTF8(p, []byte("�")))
}

// A longLine stores a line of up to longest bytes. Of a longer one it stores the
// beginning, the end, and the text around the first trigger between them. At each seam
// it stores margin bytes more than are shown: see masker.
type longLine struct {
	margin int
	head   []byte
	tail   []byte // a ring once it is full
	start  int
	over   bool // longer than longest
	last   uint32
	found  bool
	window []byte
	after  int // bytes since the trigger
}

// longest is the size of head and tail together, so that they do not overlap.
func (l *longLine) longest() int { return headPart + 2*l.margin + tailPart }

const (
	headPart   = 2048
	tailPart   = 1024
	windowPart = 256 // on either side of the trigger

	// leastMargin is the margin if the length of secrets is unknown, mostMargin its
	// limit for very long ones.
	leastMargin = 512
	mostMargin  = 32 << 10
)

const (
	clip = "…"
	// seam marks where a part of a line is omitted. Clean text does not contain it.
	seam = "\x00"
)

func (l *longLine) reset() {
	*l = longLine{margin: l.margin, head: l.head[:0], tail: l.tail[:0], window: l.window[:0]}
}

func (l *longLine) write(p []byte) {
	if !l.over && len(l.head)+len(p) <= l.longest() {
		l.head = append(l.head, p...)
		return
	}
	if !l.over { // from now on, store it in parts
		l.over = true
		p = slices.Concat(l.head, p)
		l.head = append(l.head[:0], p[:headPart+l.margin]...)
		p = p[headPart+l.margin:]
	}
	if !l.found {
		n := l.watch(p)
		l.ring(p[:n])
		p = p[n:]
	}
	if l.found {
		room := max(0, windowPart+l.margin-l.after)
		l.window = append(l.window, p[:min(room, len(p))]...)
		l.after += len(p)
		l.ring(p)
	}
}

// watch searches for the first trigger after the head, and returns the number of bytes
// that it has processed.
func (l *longLine) watch(p []byte) int {
	for i, b := range p {
		if l.last = fold(l.last, b); triggers.has(l.last) {
			l.found = true
			before := slices.Concat(l.head, l.end(), p[:i+1])
			l.window = append(l.window[:0], before[len(before)-l.margin-windowPart:]...)
			return i + 1
		}
	}
	return len(p)
}

// ring adds bytes to the tail, which stores the last ones.
func (l *longLine) ring(p []byte) {
	size := l.margin + tailPart
	p = p[max(0, len(p)-size):]
	if n := min(size-len(l.tail), len(p)); n > 0 {
		l.tail = append(l.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(l.tail[l.start:], p)
		l.start = (l.start + n) % size
		p = p[n:]
	}
}

func (l *longLine) end() []byte { return slices.Concat(l.tail[l.start:], l.tail[:l.start]) }

// back deletes the last character.
func (l *longLine) back() {
	if l.over {
		return // a line of that length is not edited with backspaces
	}
	_, n := utf8.DecodeLastRune(l.head)
	l.head = l.head[:len(l.head)-n]
}

// bytes returns the stored parts, tidy, with a seam where a part is omitted.
func (l *longLine) bytes() []byte {
	if !l.over {
		return tidy(l.head)
	}
	parts := [][]byte{l.head}
	if l.found && l.after >= windowPart+tailPart { // else the tail contains it
		parts = append(parts, l.window)
	}
	parts = append(parts, l.end())
	for i, p := range parts {
		parts[i] = tidy([]byte(wholeRunes(p)))
	}
	return bytes.Join(parts, []byte(seam))
}

// beginning returns the first bytes of a text.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return wholeRunes([]byte(text[:most]))
}

// wholeRunes drops incomplete characters at both ends.
func wholeRunes(p []byte) string {
	for i := 0; i < utf8.UTFMax && len(p) > 0 && !utf8.RuneStart(p[0]); i++ {
		p = p[1:]
	}
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if c := p[len(p)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-i:]) {
				p = p[:len(p)-i]
			}
			break
		}
	}
	return string(p)
}
