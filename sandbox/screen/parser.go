package screen

import "unicode/utf8"

// maxString bounds a string sequence, such as one that sets a title. A longer one is no string:
// text follows again.
const maxString = 64 << 10

// A parser splits output into characters and control sequences. Its zero value is ready for use.
type parser struct {
	state  state
	rune   []byte // the beginning of a character
	length int    // of a string so far
	seq    sequence
}

// A sequence is a control sequence: ESC [ private params inter final, or ESC inter final.
type sequence struct {
	private, inter, final byte
	params                [16]int // -1: none
	n                     int
	odd                   bool // it has what a sequence cannot have
}

// param returns a parameter, or a default if it is missing or 0.
func (q *sequence) param(i, missing, most int) int {
	if i > q.n || q.params[i] <= 0 {
		return missing
	}
	return min(q.params[i], most)
}

type state int

const (
	ground state = iota
	escape
	control // ESC [
	str     // OSC, DCS, SOS, PM, APC, until ST or BEL
	strEscape
)

// A handler receives what a parser finds.
type handler interface {
	print(r rune)
	execute(c byte)
	escape(q *sequence)
	control(q *sequence)
}

func (p *parser) write(b []byte, h handler) {
	for _, c := range b {
		if len(p.rune) > 0 || c >= utf8.RuneSelf && p.state == ground {
			p.collect(c, h)
		} else {
			p.read(c, h)
		}
	}
}

// collect reads a byte of a character that is not ASCII.
func (p *parser) collect(c byte, h handler) {
	if c < utf8.RuneSelf || len(p.rune) > 0 && utf8.RuneStart(c) { // the one before is incomplete
		p.rune = p.rune[:0]
		h.print(utf8.RuneError)
		p.write([]byte{c}, h)
		return
	}
	p.rune = append(p.rune, c)
	if utf8.FullRune(p.rune) {
		r, n := utf8.DecodeRune(p.rune)
		rest := append([]byte(nil), p.rune[n:]...)
		p.rune = p.rune[:0]
		h.print(r)
		p.write(rest, h)
	}
}

func (p *parser) read(c byte, h handler) {
	switch {
	case c == 0x18 || c == 0x1a: // CAN and SUB end any sequence
		p.state = ground
	case p.state == str || p.state == strEscape:
		p.string(c, h)
	case c == 0x1b:
		p.state, p.seq = escape, sequence{}
	case c < ' ':
		h.execute(c)
	case p.state == escape:
		p.escape(c, h)
	case p.state == control:
		p.control(c, h)
	case c != 0x7f:
		h.print(rune(c))
	}
}

// string skips a string.
func (p *parser) string(c byte, h handler) {
	p.length++
	switch {
	case p.state == strEscape && c != '\\': // ST is ESC \; any other ESC ends the string too
		p.state, p.seq = escape, sequence{}
		p.read(c, h)
	case p.state == strEscape, c == 0x07, p.length > maxString:
		p.state = ground
	case c == 0x1b:
		p.state = strEscape
	}
}

func (p *parser) escape(c byte, h handler) {
	switch {
	case c == '[' && p.seq.inter == 0:
		p.state = control
		p.seq.params[0] = -1
	case p.seq.inter == 0 && (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_'):
		p.state, p.length = str, 0
	case c < '0':
		p.seq.inter = c
	default:
		p.state = ground
		p.seq.final = c
		h.escape(&p.seq)
	}
}

func (p *parser) control(c byte, h handler) {
	q := &p.seq
	switch {
	case c >= '0' && c <= '9':
		q.params[q.n] = min(max(q.params[q.n], 0)*10+int(c-'0'), 9999)
	case c == ';' || c == ':':
		if q.n == len(q.params)-1 {
			q.odd = true
			return
		}
		q.n++
		q.params[q.n] = -1
	case c >= '<' && c <= '?':
		q.private = c
	case c < '0':
		q.inter = c
	case c < 0x7f:
		p.state = ground
		if q.final = c; !q.odd {
			h.control(q)
		}
	case c > 0x7f:
		p.state = ground
	}
}
