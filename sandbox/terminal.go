package sandbox

import (
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/screen"
)

// A Look is what a reader sees of a run at a terminal: of a program that draws its screen the
// rows, of any other the lines since the last look. Its text is inert, and its secrets are
// masked, as far as the program printed them in one piece or they stand in one row: half a secret
// that a program cuts off itself has no recognizable form.
type Look struct {
	Drawn bool   // the program draws its screen: Rows are to be seen, else Lines
	Known bool   // there is something to show: the screen is known, or none of the lines is missing
	Lines string // since the last look, with the line of the cursor
	Rows  []string

	Scroll  int   // by how many rows the text moved up since the last look; down if negative
	Changed []int // indexes of rows that changed besides; nil: the last look showed no screen

	Size     Size
	Row, Col int // of the cursor, from 1; 0: it is hidden
}

// newScreen returns the screen of a run at a terminal.
func newScreen(r *Run) *maskedScreen {
	s := screen.New(r.Command.TTY.Cols, r.Command.TTY.Rows, func(problem string) {
		r.Box.logger.Error("the screen of a terminal panicked", "exec", r.ID, "problem", problem)
	})
	if r.resumed != nil {
		s.Unknown()
	}
	return &maskedScreen{Screen: s, secrets: r.secrets}
}

// Changed returns a channel that is closed when the run prints something or ends.
func (r *Run) Changed() <-chan struct{} { return r.changed() }

// Look returns what is to be seen of a run at a terminal, and remembers it for the next look.
// Other runs have nothing to look at.
func (r *Run) Look() Look {
	if r.screen == nil {
		return Look{}
	}
	r.mu.Lock()
	v := r.screen.Look()
	r.mu.Unlock()
	return Look{
		Drawn: v.Drawn, Known: !v.Lost && !v.Dropped, Lines: excerpt.Inert([]byte(r.secrets.Text(string(v.Lines)))),
		Rows: maskRows(v.Rows, r.secrets), Scroll: v.Scroll, Changed: v.Changed,
		Size: Size{Cols: v.Cols, Rows: v.Height}, Row: v.CursorRow, Col: v.CursorCol,
	}
}

// Echoed reports whether a run at a terminal has printed nothing since the last look but the
// echo of so many lines of input. Then it still works on them.
func (r *Run) Echoed(lines int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return lines > 0 && r.screen != nil && r.screen.Echoed(lines)
}

func (r *Run) resizeScreen(size Size) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screen.Resize(size.Cols, size.Rows)
}

// maskRows returns the text of rows with the secrets masked that are found if each row is a
// line, or if a row that reaches the edge goes on in the next one.
func maskRows(rows []screen.Row, secrets *redact.Redactor) []string {
	var apart, joined strings.Builder
	var starts, seams []int // of the rows in apart; of the newlines that joined lacks
	for _, row := range rows {
		starts = append(starts, apart.Len())
		apart.WriteString(row.Text + "\n")
		joined.WriteString(row.Text)
		if row.Full {
			seams = append(seams, apart.Len()-1)
		} else {
			joined.WriteString("\n")
		}
	}
	spans := secrets.Find([]byte(apart.String()))
	for _, x := range secrets.Find([]byte(joined.String())) {
		spans = append(spans, redact.Span{From: across(seams, x.From), To: across(seams, x.To-1) + 1, Kind: x.Kind})
	}
	text := make([]string, len(rows))
	for i, row := range rows {
		text[i] = excerpt.Inert([]byte(maskSpans(row.Text, starts[i], spans)))
	}
	return text
}

// across returns where a byte of a text without newlines at seams is in the text with them.
func across(seams []int, at int) int {
	for _, seam := range seams {
		if at >= seam {
			at++
		}
	}
	return at
}

// maskSpans masks the spans of a longer text in the part of it that begins at start.
func maskSpans(text string, start int, spans []redact.Span) string {
	slices.SortFunc(spans, func(a, b redact.Span) int { return a.From - b.From })
	var b strings.Builder
	at := 0
	for _, x := range spans {
		from, to := max(x.From-start, 0), min(x.To-start, len(text))
		if from >= to || to <= at {
			continue
		}
		if from >= at {
			b.WriteString(text[at:from] + x.Mask())
		}
		at = to
	}
	return b.String() + text[at:]
}
