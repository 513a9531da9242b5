package screen

import (
	"slices"
	"strings"
)

// maxLine bounds a line that can still be edited, in cells. A longer one is taken for text.
const maxLine = 4096

// A line is the line with the cursor, as a program edits it with carriage returns, backspaces
// and the sequences for one line. It may be longer than the terminal is wide: then these move
// the cursor only within its row.
type line struct {
	cols  int
	cells []string // "" is the second half of a wide character
	start int      // index of the first cell of the cursor's row
	at    int      // index of the cursor's cell; behind the row until something is printed there
}

func (l *line) clear() { l.cells, l.start, l.at = l.cells[:0], 0, 0 }

// text returns the line without the spaces behind its end.
func (l *line) text() string { return strings.TrimRight(strings.Join(l.cells, ""), " ") }

// prompt returns the line with its spaces up to the cursor.
func (l *line) prompt() string {
	n := len(l.cells)
	for n > l.at && l.cells[n-1] == " " {
		n--
	}
	return strings.Join(l.cells[:n], "")
}

// fill has the line reach the cursor.
func (l *line) fill() {
	for len(l.cells) < l.at {
		l.cells = append(l.cells, " ")
	}
}

func (l *line) print(text string, width int) {
	if l.at >= l.start+l.cols {
		l.start = l.at
	}
	l.put(text)
	if width > 1 {
		l.put("")
	}
}

func (l *line) put(text string) {
	l.fill()
	if l.at == len(l.cells) {
		l.cells = append(l.cells, text)
	} else {
		l.cells[l.at] = text
	}
	l.at++
}

// combine adds a combining character to the one before the cursor.
func (l *line) combine(mark string) {
	at := min(l.at, len(l.cells)) - 1
	if at > 0 && l.cells[at] == "" {
		at--
	}
	if at >= 0 {
		l.cells[at] += mark
	}
}

func (l *line) back(n int) { l.at = max(l.start, min(l.at, l.start+l.cols-1)-n) }

func (l *line) forth(n int) { l.at = min(l.start+l.cols-1, l.at+n) }

func (l *line) column(n int) { l.at = l.start + min(max(n, 1), l.cols) - 1 }

func (l *line) tab() { l.at = l.start + min(l.cols-1, ((l.at-l.start)/8+1)*8) }

func (l *line) insert(n int) {
	l.fill()
	l.cells = slices.Insert(l.cells, l.at, slices.Repeat([]string{" "}, min(n, l.cols))...)
}

func (l *line) remove(n int) {
	if l.at < len(l.cells) {
		l.cells = slices.Delete(l.cells, l.at, min(len(l.cells), l.at+n))
	}
}

func (l *line) blank(from, to int) {
	for i := from; i < min(to, len(l.cells)); i++ {
		l.cells[i] = " "
	}
}

// erase erases the rest of the row, its beginning or all of it: 0, 1, 2.
func (l *line) erase(what int) {
	from, to := l.at, l.start+l.cols
	switch what {
	case 1:
		from, to = l.start, l.at+1
	case 2:
		from = l.start
	}
	if what != 1 && to >= len(l.cells) {
		l.cells = l.cells[:min(from, len(l.cells))]
	}
	l.blank(from, to)
}
