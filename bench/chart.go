package bench

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The dimensions of the chart, in pixels, and colours that stay distinct on paper and
// for readers who cannot tell red from green.
const (
	chartWidth = 860
	labelWidth = 260 // left of the bars
	valueWidth = 130 // right of the longest bar
	barWidth   = chartWidth - labelWidth - valueWidth
	rowHeight  = 24
	barHeight  = 15

	colourOurs  = "#0072b2"
	colourHTTP  = "#56b4e9"
	colourOther = "#9a9a9a"
	colourText  = "#24292f"
)

// SVG draws the report's first command in every way, and below it all commands through
// warmbox, compared with a local shell. No library is used: charting libraries add
// megabytes for more than these bars.
func (r *Report) SVG(out io.Writer) error {
	c := &chart{y: 16}
	if len(r.Commands) > 0 {
		c.ways(r.Commands[0])
		c.ratios(r.Commands)
	}
	c.footer(r)
	_, err := fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13" fill="%s">
<rect width="100%%" height="100%%" fill="#ffffff"/>
%s</svg>
`, chartWidth, c.y+8, colourText, c.body.String())
	return err
}

// A chart grows downwards.
type chart struct {
	body strings.Builder
	y    int
}

func (c *chart) text(x int, attributes, format string, args ...any) {
	fmt.Fprintf(&c.body, `<text x="%d" y="%d"%s>%s</text>`+"\n", x, c.y, attributes, html.EscapeString(fmt.Sprintf(format, args...)))
}

func (c *chart) title(format string, args ...any) {
	c.y += 14
	c.text(16, ` font-size="15" font-weight="600"`, format, args...)
	c.y += 12
}

// bar draws a label, a bar of length value/most, and a text for the value.
func (c *chart) bar(label, colour string, value, most float64, text string) {
	length := max(1, value/most*barWidth)
	fmt.Fprintf(&c.body, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", labelWidth, c.y+(rowHeight-barHeight)/2, length, barHeight, colour)
	c.y += rowHeight - 7
	c.text(labelWidth-10, ` text-anchor="end"`, "%s", label)
	c.text(labelWidth+int(length)+8, "", "%s", text)
	c.y += 7
}

func (c *chart) ways(g Group) {
	c.title("bash -c %q, median: milliseconds, and × %s", g.Name, g.Base)
	most := 0.0
	for _, r := range g.Rows {
		most = max(most, r.P50)
	}
	for _, r := range g.Rows {
		c.bar(r.Way, colourOf(r.Way), r.P50, most, fmt.Sprintf("%s ms, %s ×", number(r.P50), number(r.Ratio)))
	}
	c.y += 14
}

func colourOf(way string) string {
	switch way {
	case wayStdio:
		return colourOurs
	case wayHTTP:
		return colourHTTP
	}
	return colourOther
}

// ratios draws a dashed line at the ratio 1, the local shell.
func (c *chart) ratios(list []Group) {
	c.title("Through warmbox, by command: × %s, everything on", list[0].Base)
	most := 1.0
	for _, g := range list {
		for _, way := range []string{wayStdio, wayHTTP} {
			if r, ok := g.find(way); ok {
				most = max(most, r.Ratio)
			}
		}
	}
	top := c.y
	for _, g := range list {
		label := g.Name
		for _, way := range []string{wayStdio, wayHTTP} {
			if r, ok := g.find(way); ok {
				c.bar(label, colourOf(way), r.Ratio, most, fmt.Sprintf("%s × %s", number(r.Ratio), strings.TrimPrefix(way, "warmbox, ")))
				label = ""
			}
		}
	}
	x := labelWidth + int(barWidth/most)
	fmt.Fprintf(&c.body, `<line x1="%d" y1="%d" x2="%[1]d" y2="%[3]d" stroke="%[4]s" stroke-dasharray="4 3"/>`+"\n", x, top, c.y, colourText)
	c.y += 14
	c.text(x, ` text-anchor="middle" font-size="11"`, "%s", list[0].Base)
	c.y += 10
}

// footer says when and on what machine, without addresses of that machine.
func (c *chart) footer(r *Report) {
	words := []string{r.When.Format("2006-01-02")}
	for _, f := range r.Facts {
		switch version, _, _ := strings.Cut(f.Text, " at "); f.Name {
		case "machine":
			words = append(words, f.Text)
		case "engine":
			words = append(words, "engine "+version)
		}
	}
	c.y += 14
	c.text(16, ` font-size="11"`, "warmbox-bench, %s", strings.Join(words, "; "))
}
