package summary

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A listing counts the directories of the paths at the beginning of lines, as find and
// grep print them.
type listing struct {
	dirs  map[string]*directory
	lines int // lines that begin with a path
	mask  masker
}

type directory struct {
	name  string // masked
	lines int
}

const (
	maxDirs  = 512
	showDirs = 4
	// minListing is the minimum number of lines to count by directory.
	minListing = 60
)

func (l *listing) add(n int, text []byte) {
	if n > minListing && 2*l.lines < n {
		return // not a listing
	}
	dir := dirOf(text)
	if len(dir) == 0 {
		return
	}
	l.lines++
	d := l.dirs[string(dir)]
	if d == nil {
		if len(l.dirs) >= maxDirs {
			return
		}
		if l.dirs == nil {
			l.dirs = make(map[string]*directory)
		}
		d = &directory{name: string(dirOf([]byte(l.mask.line(string(text)))))}
		l.dirs[string(dir)] = d
	}
	d.lines++
}

// dirOf returns the directory of the path at the beginning of a line.
func dirOf(text []byte) []byte {
	if i := bytes.IndexAny(text, " \t:"); i >= 0 {
		text = text[:i]
	}
	if len(text) == 0 || classes[text[0]] == separator && !bytes.ContainsAny(text[:1], "/._~@-") {
		return nil
	}
	if i := bytes.LastIndexByte(text, '/'); i > 0 && i < len(text)-1 {
		return text[:i]
	}
	return nil
}

// directories returns a note on the directories with most lines, if there are several.
func (l *listing) directories(lines int) string {
	if lines < minListing || 4*l.lines < 3*lines || len(l.dirs) < 2 {
		return ""
	}
	dirs := slices.SortedFunc(maps.Values(l.dirs), func(a, b *directory) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), strings.Compare(a.name, b.name))
	})
	parts := make([]string, 0, showDirs)
	for _, d := range dirs[:min(showDirs, len(dirs))] {
		parts = append(parts, fmt.Sprintf("%s %d", d.name, d.lines))
	}
	return "lines by directory: " + strings.Join(parts, ", ")
}

// listCommand matches a command line whose output is a list.
var listCommand = re(`^\s*(?:sudo )?(?:ls|find|fd|tree|du|locate|(?:git )?(?:grep|ls-files|ls-tree)|rg|ag|tar t\S*|unzip -l)\b[^&;]*$`)

// pickListing picks the ends of a list, since all its lines are equally important. It
// reports whether the output is a list.
func (s *Summarizer) pickListing(p *picker) bool {
	note := s.list.directories(s.lines)
	if note == "" && !listCommand().MatchString(s.options.Cmd) {
		return false
	}
	if note != "" && len(note)+1 < p.room/2 && plain([]byte(note)) {
		p.more = note
		p.room -= len(note) + 1
	}
	p.width = 140
	s.pickWanted(p)
	for _, l := range s.head[:min(6, len(s.head))] {
		p.pick(l, "")
	}
	s.pickLast(p, 4, narrowLine)
	if note != "" {
		s.pickUnlisted(p)
	}
	for n := s.tail.last; n >= s.tail.from() && p.room > narrowLine; n-- {
		l, _ := s.tail.at(n)
		p.pick(l, "")
	}
	return true
}

// mostUnlisted bounds the lines of a listing that do not begin with a path.
const mostUnlisted = 6

// pickUnlisted picks the rarest lines of a listing that begin with a word instead of a
// path: what was done with one of them, and messages.
func (s *Summarizer) pickUnlisted(p *picker) {
	list := slices.DeleteFunc(slices.Clone(s.candidates()), func(c candidate) bool {
		return c.kind == noise || dirOf([]byte(c.text)) != nil || !unlisted().MatchString(c.text)
	})
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(rarity(a.count), rarity(b.count)) })
	s.pickSome(p, list, mostUnlisted)
}

// unlisted matches words that stand before a path or make a sentence.
var unlisted = re(`^\W*\pL[\pL-]*:? +\S`)
