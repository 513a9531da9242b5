package summary

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A picker takes lines into the room that there is. It takes no line twice, and
// none whose words all stand in lines that it took before.
type picker struct {
	room  int
	width int // longer lines are clipped to it
	picks []pick
	said  map[string]bool
	more  string // a note that stands behind the lines
	mask  masker
}

type pick struct {
	n    int
	text string
}

// Widths that a line may have. An error's message often has 100 and more.
const (
	wideLine   = 320
	narrowLine = 100
	stubLine   = 40 // what is shorter says too little to be worth its number
)

// shownNote is room for the words behind the verdict.
const shownNote = "; 99 shown\n"

func (p *picker) note() string { return fmt.Sprintf("; %d shown", len(p.picks)) }

// String returns the lines picked, in order.
func (p *picker) String() string {
	slices.SortFunc(p.picks, func(a, b pick) int { return a.n - b.n })
	var b strings.Builder
	for _, k := range p.picks {
		fmt.Fprintf(&b, "%d: %s\n", k.n, k.text)
	}
	return b.String() + p.more
}

// take picks a line, with a note behind it, unless there is no room.
func (p *picker) take(l line, note string) bool {
	text := strings.TrimSpace(p.mask.line(l.text))
	if p.has(l.n) || p.repeats(text) {
		return true
	}
	if !p.put(l.n, text, note) {
		return false
	}
	p.remember(text)
	return true
}

// keep picks a line as take does, whatever it repeats, and with its indentation.
func (p *picker) keep(l line, note string) {
	if len(p.picks) >= KeptLines || p.has(l.n) {
		return
	}
	if text := strings.TrimRight(p.mask.line(l.text), " \t"); text != "" {
		p.put(l.n, text, note)
	}
}

func (p *picker) put(n int, text, note string) bool {
	fixed := len(fmt.Sprintf("%d: %s\n", n, note))
	text = clipped(text, min(p.width, p.room-fixed))
	if text == "" {
		return false
	}
	p.room -= fixed + len(text)
	p.picks = append(p.picks, pick{n, text + note})
	return true
}

func (p *picker) has(n int) bool {
	return slices.ContainsFunc(p.picks, func(k pick) bool { return k.n == n })
}

// cost is what a line would take of the room.
func (p *picker) cost(l line, width int) int {
	return len(fmt.Sprintf("%d: \n", l.n)) + min(width, len(strings.TrimSpace(l.text)))
}

func (p *picker) remember(text string) {
	if p.said == nil {
		p.said = make(map[string]bool)
	}
	for _, w := range words(text) {
		p.said[w] = true
	}
}

// repeats reports whether a text says nothing that was not said before.
func (p *picker) repeats(text string) bool {
	for _, w := range words(text) {
		if !p.said[w] {
			return false
		}
	}
	return true
}

func words(text string) []string {
	var list []string
	for _, w := range strings.Fields(text) {
		if w = strings.Trim(w, `.,:;()[]{}"'=*-_`); w != "" {
			list = append(list, w)
		}
	}
	return list
}

// clipped cuts a text to so many bytes, with … where it is cut. What stands
// around the first word of trouble is kept. Too little room gives nothing.
func clipped(text string, room int) string {
	if len(text) <= room {
		return text
	}
	if room < stubLine {
		return ""
	}
	from := 0
	if m := trouble().FindStringIndex(text); m != nil && m[1] > room-2*len(clip) {
		from = max(0, min(m[0]-room/3, len(text)-room+len(clip)))
	}
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	before, after := "", ""
	if from > 0 {
		before = clip
	}
	end := from + room - len(before)
	if end < len(text) {
		after = clip
		end -= len(clip)
	}
	end = min(end, len(text))
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return before + text[from:end] + after
}

// whole returns all of a small output, as it is but for secrets.
func (p *picker) whole(s *Summarizer) (string, bool) {
	if s.lines > headLines+ringLines {
		return "", false
	}
	var all []string
	size := 0
	for n := 1; n <= s.lines; n++ {
		l, ok := s.lineAt(n)
		if size += len(l.text) + 1; !ok || size > 2*p.room || strings.Contains(l.text, seam) {
			return "", false
		}
		all = append(all, l.text)
	}
	text := p.mask.text(strings.Join(all, "\n"))
	return text, len(text) <= p.room+len(shownNote)-len(":\n\n")
}

// lineAt returns a line of the beginning or the end.
func (s *Summarizer) lineAt(n int) (line, bool) {
	if n >= 1 && n <= len(s.head) {
		return s.head[n-1], true
	}
	return s.tail.at(n)
}
