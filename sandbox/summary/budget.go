package summary

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A picker collects lines within a budget. It picks no line twice, and no line whose
// words all occur in lines that it picked before.
type picker struct {
	room  int
	held  int // of the room, what is left for others
	width int // maximum length of a line; longer ones are clipped
	picks []pick
	shown map[string]bool
	more  string // a note after the lines
	mask  masker
}

type pick struct {
	n    int
	text string
}

// Maximum lengths of a line. An error message often has 100 bytes or more.
const (
	wideLine   = 320
	narrowLine = 100
	stubLine   = 40 // minimum length of a clipped line; a shorter one says too little
)

// shownNote is the longest note after the verdict.
const shownNote = "; 99 shown\n"

func (p *picker) countShown() string { return fmt.Sprintf("; %d shown", len(p.picks)) }

// String returns the picked lines in order.
func (p *picker) String() string {
	slices.SortFunc(p.picks, func(a, b pick) int { return a.n - b.n })
	var b strings.Builder
	for _, k := range p.picks {
		fmt.Fprintf(&b, "%d: %s\n", k.n, k.text)
	}
	return b.String() + p.more
}

// numbers returns the numbers of the picked lines, in the order in which they were picked. It
// must be called before String.
func (p *picker) numbers() []int {
	list := make([]int, len(p.picks))
	for i, k := range p.picks {
		list[i] = k.n
	}
	return list
}

// pick picks a line, with a note after it. It returns false if the budget is used up.
func (p *picker) pick(l line, note string) bool {
	text := p.mask.text(shownForm(p.mask.line(l.text)))
	if p.has(l.n) || p.repeats(text) {
		return true
	}
	if !p.insert(l.n, text, note) {
		return false
	}
	p.remember(text)
	return true
}

// pickIndented picks a line with its indentation, even if it repeats others.
func (p *picker) pickIndented(l line, note string) {
	if len(p.picks) >= KeptLines || p.has(l.n) {
		return
	}
	if text := strings.TrimRight(p.mask.line(l.text), " \t"); text != "" {
		p.insert(l.n, text, note)
	}
}

func (p *picker) insert(n int, text, note string) bool {
	fixed := len(fmt.Sprintf("%d: %s\n", n, note))
	if p.held > 0 && min(len(text), p.width) > p.room-p.held-fixed {
		return false
	}
	text = clipped(text, min(p.width, p.room-fixed))
	if text == "" {
		return false
	}
	p.room -= fixed + len(text)
	p.picks = append(p.picks, pick{n, text + note})
	return true
}

// holding calls f while some of the room is held back.
func (p *picker) holding(room int, f func()) {
	p.held += room
	f()
	p.held -= room
}

func (p *picker) has(n int) bool {
	return slices.ContainsFunc(p.picks, func(k pick) bool { return k.n == n })
}

// cost returns how much of the budget a line needs.
func (p *picker) cost(l line, width int) int {
	return len(fmt.Sprintf("%d: \n", l.n)) + min(width, len(strings.TrimSpace(l.text)))
}

func (p *picker) remember(text string) {
	if p.shown == nil {
		p.shown = make(map[string]bool)
	}
	for _, w := range words(text) {
		p.shown[w] = true
	}
}

// repeats reports whether all words of a text occur in picked lines.
func (p *picker) repeats(text string) bool {
	for _, w := range words(text) {
		if !p.shown[w] {
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

// clipped cuts a text to at most room bytes, with … where it is cut. It retains the
// text around the first word of trouble. If room is too small, it returns "".
func clipped(text string, room int) string {
	if len(text) <= room {
		return text
	}
	if room < stubLine {
		return ""
	}
	if parts, ok := recordParts(text, room); ok {
		return parts
	}
	from := 0
	if begin, end, ok := troubleAt(text); ok && end > room-2*len(clip) {
		from = max(0, min(begin-room/3, len(text)-room+len(clip)))
	}
	if from == 0 && room >= 3*stubLine {
		return bothParts(text, room)
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

// bothParts cuts the middle of a text: an error often ends in its rule or its place.
func bothParts(text string, room int) string {
	room -= len(clip)
	tail := len(text) - room/4
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return beginning(text, room-room/4) + clip + text[tail:]
}

// whole returns all of a small output, with secrets masked.
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

// lineAt returns a line from the beginning or the end of the output.
func (s *Summarizer) lineAt(n int) (line, bool) {
	if n >= 1 && n <= len(s.head) {
		return s.head[n-1], true
	}
	return s.tail.at(n)
}
