package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	tableWidth = 100
	nameWidth  = 36
	cellWidth  = 12
)

// Table writes the report for people, a hundred columns wide.
func (r *Report) Table(out io.Writer) error {
	t := &table{}
	for _, g := range r.Commands {
		t.group(g)
	}
	t.concurrent(r.Concurrent)
	for _, g := range r.Starts {
		t.group(g)
	}
	t.flows(r.Bulk)
	t.memory(r.Memory)
	t.skipped(r.Skipped)
	_, err := io.WriteString(out, t.text.String())
	return err
}

// Facts writes the conditions of the measurements, in the same width.
func Facts(out io.Writer, list []Fact) error {
	t := &table{}
	for _, f := range list {
		t.folded(fmt.Sprintf("%-10s", f.Name), f.Text)
	}
	_, err := io.WriteString(out, t.text.String())
	return err
}

// A table is text in columns: a name, then figures.
type table struct{ text strings.Builder }

func (t *table) row(name string, cells ...string) {
	t.text.WriteString(pad(name, nameWidth))
	for _, cell := range cells {
		fmt.Fprintf(&t.text, "%*s", cellWidth, cell)
	}
	t.text.WriteByte('\n')
}

func (t *table) blank() { t.text.WriteByte('\n') }

// pad pads or truncates s, so that the figures stay in their columns.
func pad(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n >= width {
		return string([]rune(s)[:width-2]) + "… "
	}
	return s + strings.Repeat(" ", width-n)
}

// folded writes a text that wraps between words and is indented below its head.
func (t *table) folded(head, text string) {
	indent := utf8.RuneCountInString(head)
	line, used := head, indent
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word) + 1
		if used+n > tableWidth && used > indent {
			t.text.WriteString(strings.TrimRight(line, " ") + "\n")
			line, used = strings.Repeat(" ", indent), indent
		}
		line, used = line+word+" ", used+n
	}
	t.text.WriteString(strings.TrimRight(line, " ") + "\n")
}

func (t *table) group(g Group) {
	t.blank()
	t.row(g.Name, "p50 ms", "p95 ms", "ratio", "rounds")
	for _, r := range g.Rows {
		t.row("  "+r.Way, number(r.P50), number(r.P95), number(r.Ratio)+" ×", fmt.Sprint(r.Rounds))
	}
}

func (t *table) concurrent(list []Concurrent) {
	width := 0
	for _, c := range list {
		if c.Width != width {
			width = c.Width
			t.blank()
			t.row(fmt.Sprintf("true, %d at once", width), "per second", "ratio")
		}
		t.row("  "+c.Way, fmt.Sprintf("%.0f", c.PerSecond), number(c.Ratio)+" ×")
	}
}

func (t *table) flows(list []Flow) {
	if len(list) == 0 {
		return
	}
	t.blank()
	t.row(fmt.Sprintf("%d MB of output, to its last byte", list[0].Bytes/1_000_000), "p50 ms", "MB/s", "ratio")
	for _, f := range list {
		t.row("  "+f.Way, number(f.P50), fmt.Sprintf("%.0f", f.Rate), number(f.Ratio)+" ×")
	}
	for _, f := range list {
		if f.Growth > 0 {
			t.row("  growth of the server's peak, MB", megabytes(f.Growth))
		}
		if f.Reply > 0 {
			t.row("  size of the reply, bytes", fmt.Sprint(f.Reply))
		}
	}
}

func (t *table) memory(list []Memory) {
	if len(list) == 0 {
		return
	}
	t.blank()
	t.row("memory", "MB", "its own MB")
	for _, m := range list {
		t.row("  "+m.What, megabytes(m.Bytes), megabytes(m.Own))
	}
}

func (t *table) skipped(list []string) {
	if len(list) == 0 {
		return
	}
	t.blank()
	for _, s := range list {
		t.folded("left out: ", s)
	}
}

// number writes about three significant digits.
func number(x float64) string {
	switch {
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x < 0.1:
		return fmt.Sprintf("%.3f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
