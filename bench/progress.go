package bench

import (
	"fmt"
	"io"
	"time"
)

// progress tells somebody who waits what goes on: in a terminal on one line, which
// is gone at the end, elsewhere a line for each step.
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

// clearLine goes to the beginning of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

func (p *progress) end() {
	if p.terminal {
		io.WriteString(p.w, clearLine)
	}
}
