// Package screen follows what a program prints at a terminal, and tells a reader who looks from
// time to time what is to be seen: of a program that prints lines (a shell, a REPL) the lines
// since the last look, with the prompt; of a program that moves the cursor about (an editor, a
// pager, a menu) the rows of its screen, and which of them changed.
//
// A program draws if it is on the alternate screen, or moved the cursor to other lines since the
// last look. Carriage return, backspace and the sequences that edit one line are no drawing: a
// line editor of this package follows them. Only for drawing programs, and only when somebody
// looks or much was printed, an emulator runs: package vt of charmbracelet/x. It gets a
// canonical copy of the output: no string sequences, no queries, no modes and no colours, and
// numbers within the screen.
//
// Bytes are hostile. Memory is bounded by the size of the screen and some constants, and so is
// the emulator's work between two looks: beyond it the screen is lost until the program clears
// it. A panic ends the screen; the lines go on. The package does not mask secrets and does not
// keep the output; the raw log does. It never answers a terminal's queries. Attributes such as
// reverse video are not shown.
//
// A Screen is not safe for concurrent use.
package screen

import (
	"bytes"
	"fmt"
	"runtime/debug"
)

const (
	// maxCells bounds a screen that is followed: 400 by 100. Of larger ones only the lines
	// are, since a line feed moves all cells.
	maxCells = 40_000

	// maxTail and maxCost bound the output that waits for the emulator, in bytes and in
	// work, and maxSpent the work between two looks. A cost of 1 is about 5 ns, so these are
	// 50 ms and 2 s: 30 MB of text, or 200,000 line feeds of 80 by 24.
	maxTail  = 128 << 10
	maxCost  = 10_000_000
	maxSpent = 40 * maxCost

	// maxLines bounds the text of the lines since the last look.
	maxLines = 32 << 10
)

// A Screen follows the output of one program at a terminal.
type Screen struct {
	cols, rows int
	report     func(problem string)

	parser parser
	line   line

	lines   []byte // complete lines since the last look
	dropped bool   // older ones of them are not there

	drawn    bool // the cursor moved to other lines since the last look
	alt      bool // the alternate screen is shown
	pinned   bool // a line feed may not scroll all of the screen
	hidden   bool // the cursor is
	inserts  bool // text moves what is behind it
	graphic  [2]bool
	shifted  int // the character set in use
	last     rune
	marks    int // combining characters behind the last one
	lost     bool
	broken   bool
	emulator *emulator // nil: the screen is empty
	waiting            // what the emulator has not read
	spent    int       // of its work since the last look

	seen []string // rows that the last look showed; nil: it showed lines
}

// waiting is output in canonical form that the emulator has not read yet.
type waiting struct {
	tail  []byte
	cost  int
	plain int // from here on there are only lines that scroll
}

// New returns the screen of a new terminal. report is called if the emulator panics.
func New(cols, rows int, report func(problem string)) *Screen {
	return &Screen{cols: cols, rows: rows, report: report, line: line{cols: cols}, lost: cols*rows > maxCells}
}

// Unknown says that output came before the first Write. The screen is not shown until the
// program clears it.
func (s *Screen) Unknown() { s.lose(); s.dropped = true }

// Write follows output. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	s.try(func() {
		s.parser.write(p, s)
		if s.full() {
			s.skip()
		}
		if s.full() {
			s.emulate()
		}
	})
	return len(p), nil
}

// Resize changes the size of the terminal.
func (s *Screen) Resize(cols, rows int) {
	s.try(func() {
		if s.emulator != nil {
			s.emulate()
		}
		s.cols, s.rows, s.pinned = cols, rows, false
		s.line.cols = cols
		switch {
		case cols*rows > maxCells:
			s.lose()
		case s.emulator != nil:
			s.emulator.resize(cols, rows)
		}
	})
}

// try calls f, and gives up the screen if f panics.
func (s *Screen) try(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.lose()
			s.broken, s.parser, s.line = true, parser{}, line{cols: s.cols}
			s.report(fmt.Sprintf("%v\n%s", p, debug.Stack()))
		}
	}()
	f()
}

// lose gives up the screen. The lines go on.
func (s *Screen) lose() {
	s.lost, s.emulator, s.waiting, s.seen = true, nil, waiting{}, nil
}

// cleared forgets the screen, which is empty now, and so known again.
func (s *Screen) cleared() {
	if s.broken || s.cols*s.rows > maxCells {
		return
	}
	s.lost, s.emulator, s.waiting, s.pinned = false, nil, waiting{}, false
	if s.alt {
		s.forward(0, "\x1b[?1049h")
	}
}

// forward queues canonical output for the emulator.
func (s *Screen) forward(cost int, text string) {
	if !s.lost {
		s.tail = append(s.tail, text...)
		s.cost += cost
	}
}

// draw queues output that moves the cursor to other lines.
func (s *Screen) draw(cost int, text string) {
	if !s.alt {
		s.drawn = true
		s.line.clear()
	}
	s.forward(cost, text)
	s.plain = len(s.tail)
}

// scroll is the work of a line feed, or of an operation on the whole screen.
func (s *Screen) scroll() int { return s.cols*s.rows + 200 }

// full reports whether as much waits for the emulator as may.
func (s *Screen) full() bool { return len(s.tail) > maxTail || s.cost > maxCost }

// skip leaves out what waits for the emulator and has left the screen: twice its height of
// line feeds moves everything else away.
func (s *Screen) skip() {
	if s.alt || s.pinned {
		return
	}
	if rest, ok := lastLines(s.tail[s.plain:], 2*s.rows); ok {
		s.emulator = nil
		s.waiting = waiting{tail: append(s.tail[:0], rest...), cost: len(rest)*textCost + 2*s.rows*s.scroll()}
	}
}

// emulate has the emulator read what waits for it.
func (s *Screen) emulate() {
	if s.lost {
		return
	}
	s.skip()
	if s.emulator == nil {
		s.emulator = newEmulator(s.cols, s.rows)
	}
	s.emulator.write(s.tail)
	if s.spent += s.cost; s.spent > maxSpent {
		s.lose()
	}
	s.waiting = waiting{tail: s.tail[:0]}
}

// lastLines returns what follows the n-th last newline of p. It reports false if p has fewer.
func lastLines(p []byte, n int) (rest []byte, ok bool) {
	end := len(p)
	for range n + 1 {
		if end = bytes.LastIndexByte(p[:end], '\n'); end < 0 {
			return p, false
		}
	}
	return p[end+1:], true
}

// Echoed reports whether nothing came since the last look but so many lines, behind which the
// cursor stands at the beginning of an empty one: the echo of what was typed, and no prompt.
func (s *Screen) Echoed(lines int) bool {
	return !s.alt && !s.drawn && bytes.Count(s.lines, []byte("\n")) <= lines && len(s.line.cells) == 0 && s.line.at == 0
}

// A View is what a look shows.
type View struct {
	Drawn   bool // the program draws its screen
	Lost    bool // what is to be seen is not known
	Dropped bool // of the lines since the last look, only the last ones are there
	Lines   []byte
	Rows    []Row
	Scroll  int   // by how many rows the text moved up since the last look; down if negative
	Changed []int // indexes of Rows that changed besides; nil: there is nothing to compare with

	Cols, Height         int
	CursorRow, CursorCol int // from 1; 0: it is hidden
}

// A Row is a row of a screen. Its text has no spaces at the end.
type Row struct {
	Text string
	Full bool // up to the right edge: the next row may continue it
}

// Look returns what is to be seen, and remembers it for the next look.
func (s *Screen) Look() View {
	v := View{Drawn: s.alt || s.drawn, Cols: s.cols, Height: s.rows}
	s.try(func() {
		if v.Drawn {
			s.lookAtRows(&v)
		} else {
			v.Lines = append(bytes.Clone(s.lines), s.line.prompt()...)
			v.Dropped = s.dropped
			s.seen = nil
		}
	})
	v.Lost = v.Drawn && v.Rows == nil
	s.spent = 0
	if !s.alt { // under it the lines are still to be seen
		s.lines, s.dropped, s.drawn = nil, false, false
	}
	return v
}

func (s *Screen) lookAtRows(v *View) {
	s.emulate()
	if s.lost {
		return
	}
	rows := s.emulator.rows()
	if !s.hidden {
		v.CursorCol, v.CursorRow = s.emulator.cursor()
	}
	now := make([]string, len(rows))
	for i, r := range rows {
		now[i] = r.Text
	}
	if len(s.seen) == len(now) {
		v.Scroll = scrolled(s.seen, now)
		v.Changed = []int{}
		for i := range now {
			if from := i + v.Scroll; from < 0 || from >= len(now) || now[i] != s.seen[from] {
				v.Changed = append(v.Changed, i)
			}
		}
	}
	v.Rows, s.seen = rows, now
}

// scrolled returns by how many rows the text moved up: the number that leaves most rows as they
// were, 0 if that is not the most by far.
func scrolled(before, now []string) int {
	best, most := 0, 2*kept(before, now)+1
	for by := 1; by < len(now)-most; by++ {
		if n := kept(before[by:], now); n > most {
			best, most = by, n
		}
		if n := kept(before, now[by:]); n > most {
			best, most = -by, n
		}
	}
	return best
}

// kept counts the rows with text that are the same.
func kept(before, now []string) (n int) {
	for i := range min(len(before), len(now)) {
		if now[i] != "" && now[i] == before[i] {
			n++
		}
	}
	return n
}
