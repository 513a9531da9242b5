package screen

import (
	"fmt"
	"unicode"
)

// textCost is the emulator's work for a character.
const textCost = 12

// maxMarks bounds the combining characters behind a character.
const maxMarks = 8

// graphics are the line drawing characters of a VT100, from '`' to '~'.
var graphics = []rune("◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")

// print prints a character. Combining characters stay behind the one before; other invisible
// ones are left out.
func (s *Screen) print(r rune) {
	switch {
	case r >= 0x7f && r < 0xa0:
		return
	case r >= 0x300 && unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Zl, unicode.Zp):
		const joiner = 0x200d
		if s.marks++; s.marks > maxMarks || r != joiner && !unicode.In(r, unicode.Mn, unicode.Me) {
			return
		}
		s.forward(textCost, string(r))
		if !s.alt {
			s.line.combine(string(r))
		}
		return
	case s.graphic[s.shifted] && r >= '`' && r <= '~':
		r = graphics[r-'`']
	}
	s.marks, s.last = 0, r
	if s.inserts {
		s.edit('@', 1)
	}
	text := string(r)
	s.forward(textCost, text)
	if s.alt {
		return
	}
	s.line.print(text, width(r))
	if len(s.line.cells) > maxLine {
		s.endLine("")
	}
}

// wide has the characters that take two cells: of East Asian scripts, and emoji.
var wide = [][2]rune{
	{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xfe6f},
	{0xff01, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd},
}

func width(r rune) int {
	if r < wide[0][0] {
		return 1
	}
	for _, x := range wide {
		if r >= x[0] && r <= x[1] {
			return 2
		}
	}
	return 1
}

// endLine adds the line with the cursor to those since the last look.
func (s *Screen) endLine(end string) {
	text := s.line.text()
	if end == "" { // it goes on
		text = s.line.prompt()
	}
	s.lines = append(append(s.lines, text...), end...)
	s.line.clear()
	if len(s.lines) > maxLines {
		rest := s.lines[len(s.lines)-maxLines/2:]
		s.lines = append([]byte(nil), rest...)
		s.dropped = true
	}
}

// execute obeys a control character.
func (s *Screen) execute(c byte) {
	s.marks = 0
	switch c {
	case '\n', '\v', '\f':
		s.forward(s.scroll(), "\n")
		if !s.alt {
			at := min(s.line.at-s.line.start, s.cols-1)
			s.endLine("\n")
			s.line.at = at // without a carriage return the cursor stays in its column
		}
	case '\r':
		s.forward(textCost, "\r")
		if !s.alt {
			s.line.column(1)
		}
	case '\b':
		s.edit('D', 1)
	case '\t':
		s.forward(textCost, "\t")
		if !s.alt {
			s.line.tab()
		}
	case 0x0e, 0x0f:
		s.shifted = int(0x0f - c)
	}
}

// escape obeys ESC and a character.
func (s *Screen) escape(q *sequence) {
	switch {
	case q.inter == '(' || q.inter == ')':
		s.graphic[q.inter-'('] = q.final == '0'
	case q.inter != 0:
	case q.final == '7':
		s.forward(textCost, "\x1b7")
	case q.final == '8', q.final == 'D', q.final == 'M':
		s.draw(s.scroll(), "\x1b"+string(rune(q.final)))
	case q.final == 'E':
		s.execute('\r')
		s.execute('\n')
	case q.final == 'c':
		s.alt, s.hidden, s.inserts, s.graphic, s.shifted = false, false, false, [2]bool{}, 0
		s.drawn = true
		s.line.clear()
		s.cleared()
	}
}

// edit obeys a sequence that edits the line with the cursor.
func (s *Screen) edit(final byte, n int) {
	s.forward(s.cols*4, fmt.Sprintf("\x1b[%d%c", n, final))
	if s.alt {
		return
	}
	switch final {
	case '@':
		s.line.insert(n)
	case 'P':
		s.line.remove(n)
	case 'X':
		s.line.fill()
		s.line.blank(s.line.at, s.line.at+n)
	case 'C', 'a':
		s.line.forth(n)
	case 'D':
		s.line.back(n)
	case 'G', '`':
		s.line.column(n)
	case 'K':
		s.line.erase(n)
	}
}

// control obeys a control sequence. Those that are not listed change nothing that is shown:
// colours, queries, the mouse.
func (s *Screen) control(q *sequence) {
	s.marks = 0
	if q.inter != 0 {
		return
	}
	if q.private != 0 {
		if q.private == '?' && (q.final == 'h' || q.final == 'l') {
			for i := range q.n + 1 {
				s.mode(q.params[i], q.final)
			}
		}
		return
	}
	across, down := q.param(0, 1, s.cols), q.param(0, 1, s.rows)
	switch q.final {
	case '@', 'P', 'X', 'C', 'a', 'D', 'G', '`':
		s.edit(q.final, across)
	case 'K':
		s.edit('K', q.param(0, 0, 2))
	case 'J':
		s.eraseScreen(q.param(0, 0, 3))
	case 'b':
		if s.last != 0 {
			for range across {
				s.print(s.last)
			}
		}
	case 'H', 'f':
		s.draw(textCost, fmt.Sprintf("\x1b[%d;%dH", down, q.param(1, 1, s.cols)))
	case 'A', 'B', 'E', 'F', 'd', 'e':
		s.draw(textCost, fmt.Sprintf("\x1b[%d%c", down, q.final))
	case 'L', 'M', 'S', 'T':
		s.draw(2*s.scroll(), fmt.Sprintf("\x1b[%d%c", down, q.final))
	case 'r':
		bottom := q.param(1, s.rows, s.rows)
		s.pinned = down > 1 || bottom < s.rows
		s.draw(textCost, fmt.Sprintf("\x1b[%d;%dr", down, bottom))
	case 's':
		s.forward(textCost, "\x1b7")
	case 'u':
		s.draw(textCost, "\x1b8")
	case 'h', 'l':
		if q.params[0] == 4 {
			s.inserts = q.final == 'h'
		}
	}
}

// eraseScreen erases the rest of the screen, its beginning or all of it: 0, 1, 2.
func (s *Screen) eraseScreen(what int) {
	switch what {
	case 0: // a prompt does so too
		s.forward(s.scroll(), "\x1b[J")
		if !s.alt {
			s.line.erase(0)
		}
	case 1:
		s.draw(2*s.scroll(), "\x1b[1J")
	case 2:
		if s.lost { // the cursor is elsewhere, but programs place it next
			s.cleared()
		}
		s.draw(4*s.scroll(), "\x1b[2J")
	}
}

// mode sets or resets a mode: h, l.
func (s *Screen) mode(mode int, to byte) {
	switch mode {
	case 6, 7: // origin, wrap
		s.pinned = s.pinned || (mode == 6) == (to == 'h')
		s.forward(textCost, fmt.Sprintf("\x1b[?%d%c", mode, to))
	case 25:
		s.hidden = to == 'l'
	case 1048:
		if to == 'h' {
			s.forward(textCost, "\x1b7")
		} else {
			s.draw(textCost, "\x1b8")
		}
	case 47, 1047, 1049:
		if s.alt == (to == 'h') {
			return
		}
		s.alt = to == 'h'
		if s.alt && s.lost {
			s.cleared()
			return
		}
		s.forward(4*s.scroll(), "\x1b[?1049"+string(rune(to)))
		s.plain = len(s.tail)
	}
}
