package tools

import (
	"fmt"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// look shows what is to be seen at the terminal of a command in place of its output: the
// screen, or the lines since the last look. If that is not known, or is more than the call may
// show, the result keeps its excerpt.
func (r *ExecResult) look(run *sandbox.Run, limits excerpt.Limits) {
	if run.Command.TTY == nil {
		return
	}
	l := run.Look()
	if l.Drawn && !l.Known {
		r.hint(unknownScreen)
	}
	text, about := screenText(l, false)
	if !l.Known || len(text) > limits.Whole {
		return
	}
	r.Screen = about
	r.Stdout, r.Truncated, r.OmittedBytes, r.OmittedLines = text, false, 0, 0
	if !r.digested {
		r.Summary = r.shortSummary()
	}
}

// look does the same for a page: with the lines that changed on the screen if they are less
// than all of it and the call does not ask for the whole screen. The page stays if there are
// no new lines.
func (r *logsResult) look(run *sandbox.Run, whole bool) {
	if run == nil || run.Command.TTY == nil {
		return
	}
	l := run.Look()
	if l.Drawn && !l.Known {
		r.Hint = strings.TrimSpace(r.Hint + " " + unknownScreen)
	}
	text, about := screenText(l, !whole)
	if !l.Known || len(text) > pageBytes || whole && !l.Drawn && !strings.Contains(text, "\n") {
		return
	}
	r.Screen, r.Text, r.Next, r.shownLines = about, text, 0, shownLines{looked: true}
	if midLine(r.Text) {
		r.Text += "\n"
	}
}

// unknownScreen is the hint where a screen cannot be shown.
const unknownScreen = "What is on its screen is not known, because too much was drawn at once, the screen is too large, or an earlier server started the command: " +
	"this is its raw output. A program shows its screen again when it clears it; many do on ^L."

// screenText returns the text of a look, and for a screen what the text is: its size, which
// lines are shown, and where the cursor is.
func screenText(l sandbox.Look, changes bool) (text, about string) {
	if !l.Drawn {
		return l.Lines, ""
	}
	about = fmt.Sprintf("%dx%d", l.Size.Cols, l.Size.Rows)
	text = strings.TrimRight(strings.Join(l.Rows, "\n"), "\n")
	if text != "" {
		text += "\n"
	}
	if changed := changedRows(l); changes && l.Changed != nil && len(changed) < len(text) {
		text = changed
		switch {
		case l.Scroll > 0:
			about += fmt.Sprintf(", moved up by %s", excerpt.Count(int64(l.Scroll), "line"))
		case l.Scroll < 0:
			about += fmt.Sprintf(", moved down by %s", excerpt.Count(int64(-l.Scroll), "line"))
		}
		about += fmt.Sprintf(", %d of %s changed", len(l.Changed), excerpt.Count(int64(len(l.Rows)), "line"))
	}
	if l.Row > 0 {
		return text, about + fmt.Sprintf(", cursor at line %d, column %d", l.Row, l.Col)
	}
	return text, about + ", cursor hidden"
}

// changedRows returns the rows that changed, with their numbers.
func changedRows(l sandbox.Look) string {
	var b strings.Builder
	for _, i := range l.Changed {
		fmt.Fprintf(&b, "%d: %s\n", i+1, l.Rows[i])
	}
	return b.String()
}

// typeOn says how to go on with a command at a terminal.
func typeOn(id string) string {
	return fmt.Sprintf(`Type with input {"execId": %q, "text": "…\n"}; to wait for more, use logs {"execId": %[1]q, "waitSeconds": 45}.`, id)
}
