package summary

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A listing counts the directories of the files that lines begin with, as find
// and grep print them.
type listing struct {
	dirs  map[string]*directory
	lines int // that begin with a path
	mask  masker
}

type directory struct {
	name  string // as it may be shown
	lines int
}

const (
	maxDirs  = 512
	showDirs = 4
	// minListing is less than what a reader wants to see the parts of.
	minListing = 60
)

func (l *listing) add(n int, text []byte) {
	if n > minListing && 2*l.lines < n {
		return // it is no listing
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

// dirOf returns the directory of the path that a line begins with.
func dirOf(text []byte) []byte {
	if i := bytes.IndexAny(text, " \t:"); i >= 0 {
		text = text[:i]
	}
	if i := bytes.LastIndexByte(text, '/'); i > 0 && i < len(text)-1 {
		return text[:i]
	}
	return nil
}

// note tells which directories have most of the lines, where there are several.
func (l *listing) note(lines int) string {
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

// listCommand is a command line whose output is a list.
var listCommand = re(`^\s*(?:sudo )?(?:ls|find|fd|tree|du|locate|(?:git )?(?:grep|ls-files|ls-tree)|rg|ag|tar t\S*|unzip -l)\b[^&;]*$`)

// takeListing shows the ends of a list, since nothing in it speaks louder. It
// reports whether the output is one.
func (s *Summarizer) takeListing(p *picker) bool {
	note := s.list.note(s.lines)
	if note == "" && !listCommand().MatchString(s.options.Cmd) {
		return false
	}
	if note != "" && len(note)+1 < p.room/2 && plain([]byte(note)) {
		p.more = note
		p.room -= len(note) + 1
	}
	p.width = 140
	for _, l := range s.head[:min(6, len(s.head))] {
		p.take(l, "")
	}
	s.takeLast(p, 4, narrowLine)
	for n := s.tail.last; n >= s.tail.from() && p.room > narrowLine; n-- {
		l, _ := s.tail.at(n)
		p.take(l, "")
	}
	return true
}
