package bench

import (
	"fmt"
	"io"
	"time"
)

// progress prints each step: in a terminal on one line that is cleared at the end,
// elsewhere on a line for each.
type progress struct {
	w        io.Writer
	terminal bool
	begin    time.Time
}

func newProgress(w io.Writer, terminal bool) *progress {
	if w == nil {
		w = io.Discard
	}
	return &progress{w, terminal, time.Now()}
}

func (p *progress) step(what string) {
	before, after := "", "\n"
	if p.terminal {
		before, after = clearLine, ""
	}
	fmt.Fprintf(p.w, "%s%3.0f s  %s%s", before, time.Since(p.begin).Seconds(), what, after)
}

// clearLine clears the current line of a terminal.
const clearLine = "\r\x1b[K"

func (p *progress) end() {
	if p.terminal {
		io.WriteString(p.w, clearLine)
	}
}
