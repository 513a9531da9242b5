package screen

import (
	"io"
	"strings"

	"github.com/charmbracelet/x/vt"
)

// chunk is how much the emulator reads at once. It composes characters within a chunk only,
// which bounds the text of a cell.
const chunk = 256

// An emulator is a terminal of package vt without its input and its scrollback.
type emulator struct{ terminal *vt.Emulator }

func newEmulator(cols, rows int) *emulator {
	t := vt.NewEmulator(cols, rows)
	t.SetScrollbackSize(1)
	if c, ok := t.InputPipe().(io.Closer); ok {
		c.Close() // it has no reader: a reply would wait forever
	}
	return &emulator{t}
}

func (e *emulator) write(p []byte) {
	for len(p) > 0 {
		n := min(chunk, len(p))
		e.terminal.Write(p[:n])
		p = p[n:]
	}
}

func (e *emulator) resize(cols, rows int) { e.terminal.Resize(cols, rows) }

// cursor returns its position, from 1.
func (e *emulator) cursor() (col, row int) {
	p := e.terminal.CursorPosition()
	return p.X + 1, p.Y + 1
}

func (e *emulator) rows() []Row {
	rows := make([]Row, e.terminal.Height())
	for y := range rows {
		var b strings.Builder
		for x := range e.terminal.Width() {
			c := e.terminal.CellAt(x, y)
			switch {
			case c == nil || c.Width > 0 && c.Content == "":
				b.WriteByte(' ')
			case c.Width > 0: // else it is the second half of a wide character
				b.WriteString(c.Content)
			}
		}
		text := strings.TrimRight(b.String(), " ")
		rows[y] = Row{Text: text, Full: len(text) == b.Len() && text != ""}
	}
	return rows
}
