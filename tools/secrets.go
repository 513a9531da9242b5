package tools

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

const (
	// margin is how much around what is shown is looked at for secrets that lie
	// across a border: a page's, a clipped line's, that of a line beside which a
	// search shows nothing. The largest private key in use has 12 kB.
	margin = 16 << 10

	// maxWindow bounds what is looked at at once, not counting margins.
	maxWindow = 256 << 10
)

// A veil hides the secrets of a log: of one stream, or of both for 0. What belongs
// to a secret is told by what was printed around it to the same stream, whether that
// is shown or not, and whatever the other stream printed in between.
//
// A search goes by what is shown, so that a secret cannot be guessed at until a
// line matches.
type veil struct {
	tracks []*track
	find   func([]byte) []redact.Span
}

func newVeil(log *rawlog.Reader, stream rawlog.Stream, find func([]byte) []redact.Span) *veil {
	if stream != 0 {
		return &veil{[]*track{newTrack(log, stream)}, find}
	}
	return &veil{[]*track{newTrack(log, rawlog.Stdout), newTrack(log, rawlog.Stderr)}, find}
}

// hidden returns what of the texts of lines is hidden.
func (v *veil) hidden(lines []rawlog.Line) ([][]rawlog.Hidden, error) {
	var pieces []*piece
	for i, l := range lines {
		pieces = appendPieces(pieces, v.tracks, i, l)
	}
	for _, t := range v.tracks {
		if err := t.search(pieces, v.find); err != nil {
			return nil, err
		}
	}
	hidden := make([][]rawlog.Hidden, len(lines))
	for _, p := range pieces {
		hidden[p.line] = append(hidden[p.line], p.hidden...)
	}
	return hidden, nil
}

// mask masks the texts of lines.
func (v *veil) mask(lines []rawlog.Line) error {
	hidden, err := v.hidden(lines)
	if err != nil {
		return err
	}
	for i, list := range hidden {
		var shown []byte
		from := 0
		for _, h := range list {
			shown = append(append(shown, lines[i].Text[from:h.From]...), h.Mask...)
			from = h.To
		}
		if from > 0 {
			lines[i].Text = append(shown, lines[i].Text[from:]...)
		}
	}
	return nil
}

// needs returns what every line fulfils, as it was printed, whose masked form a
// pattern matches: it has the texts in it that whatever the pattern matches has. Where
// nothing is known of that it returns nil.
func needs(pattern string) func(line []byte) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	return need(re.Simplify())
}

func need(re *syntax.Regexp) func([]byte) bool {
	var subs []func([]byte) bool
	for _, sub := range re.Sub {
		if n := need(sub); n != nil {
			subs = append(subs, n)
		}
	}
	switch {
	case re.Op == syntax.OpLiteral:
		return hasText(string(re.Rune), re.Flags&syntax.FoldCase != 0)
	case len(subs) == 0:
	case re.Op == syntax.OpCapture || re.Op == syntax.OpPlus:
		return subs[0]
	case re.Op == syntax.OpConcat:
		return func(line []byte) bool {
			return !slices.ContainsFunc(subs, func(has func([]byte) bool) bool { return !has(line) })
		}
	case re.Op == syntax.OpAlternate && len(subs) == len(re.Sub):
		return func(line []byte) bool {
			return slices.ContainsFunc(subs, func(has func([]byte) bool) bool { return has(line) })
		}
	}
	return nil
}

// hasText returns nil of a text that a mask can bring into a line.
func hasText(text string, anyCase bool) func([]byte) bool {
	if strings.ContainsRune(text, utf8.RuneError) || redact.MayMask(text) || anyCase && redact.MayMask(strings.ToLower(text)) {
		return nil
	}
	if anyCase {
		return regexp.MustCompile("(?i:" + regexp.QuoteMeta(text) + ")").Match
	}
	literal := []byte(text)
	return func(line []byte) bool { return bytes.Contains(line, literal) }
}

// A track is one stream of a log, as if the other had printed nothing. What
// nobody can tell the stream of is on both.
type track struct {
	log   *rawlog.Reader
	spans []rawlog.Span
	at    []int64 // where on the track each of them begins
	len   int64
}

func newTrack(log *rawlog.Reader, stream rawlog.Stream) *track {
	t := &track{log: log}
	for _, s := range log.Spans {
		if s.Stream == stream || s.Stream == rawlog.Mixed {
			t.spans, t.at = append(t.spans, s), append(t.at, t.len)
			t.len += s.Len
		}
	}
	return t
}

// pos returns how much of the track comes before an offset in the log.
func (t *track) pos(off int64) int64 {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].Off+t.spans[i].Len > off })
	if i == len(t.spans) {
		return t.len
	}
	return t.at[i] + max(0, off-t.spans[i].Off)
}

// read returns what is on the track from a place on to another.
func (t *track) read(from, to int64) ([]byte, error) {
	p := make([]byte, 0, to-from)
	i, found := slices.BinarySearch(t.at, from)
	if !found {
		i--
	}
	for ; from < to; i++ {
		within := from - t.at[i]
		n := min(t.spans[i].Len-within, to-from)
		p = p[:len(p)+int(n)]
		if _, err := t.log.ReadAt(p[len(p)-int(n):], t.spans[i].Off+within); err != nil {
			return nil, err
		}
		from += n
	}
	return p, nil
}

// A piece is a part of a line that lies on one track.
type piece struct {
	line     int
	at       int // where in the line's text it begins
	track    *track
	from, to int64
	hidden   []rawlog.Hidden // of it, as parts of the line's text
}

// appendPieces cuts the shown text of a line into pieces. A single track has
// all of it.
func appendPieces(pieces []*piece, tracks []*track, line int, l rawlog.Line) []*piece {
	size := int64(len(l.Text))
	if len(tracks) == 1 {
		from := tracks[0].pos(l.Off) + l.Skipped
		return append(pieces, &piece{line: line, track: tracks[0], from: from, to: from + size})
	}
	start := l.Off + l.Skipped
	spans := tracks[0].log.Spans
	first := sort.Search(len(spans), func(i int) bool { return spans[i].Off+spans[i].Len > start })
	for _, s := range spans[first:] {
		if s.Off >= start+size {
			break
		}
		t := tracks[0]
		if s.Stream == rawlog.Stderr {
			t = tracks[1]
		}
		from := max(start, s.Off)
		pos, n := t.pos(from), min(start+size, s.Off+s.Len)-from
		// A secret in two pieces would be masked twice.
		if k := len(pieces) - 1; k >= 0 && pieces[k].line == line && pieces[k].track == t && pieces[k].to == pos {
			pieces[k].to += n
		} else {
			pieces = append(pieces, &piece{line: line, at: int(from - start), track: t, from: pos, to: pos + n})
		}
	}
	return pieces
}

// search finds what is hidden of the pieces of this track. Those that lie near each
// other are looked at together.
func (t *track) search(pieces []*piece, find func([]byte) []redact.Span) error {
	pieces = slices.DeleteFunc(slices.Clone(pieces), func(p *piece) bool { return p.track != t })
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].from-pieces[n-1].to < 2*margin && pieces[n].to-pieces[0].from < maxWindow {
			n++
		}
		if err := t.searchNear(pieces[:n], find); err != nil {
			return err
		}
		pieces = pieces[n:]
	}
	return nil
}

func (t *track) searchNear(pieces []*piece, find func([]byte) []redact.Span) error {
	from := max(0, pieces[0].from-margin)
	window, err := t.read(from, min(t.len, pieces[len(pieces)-1].to+margin))
	if err != nil {
		return err
	}
	spans := find(window)
	for _, p := range pieces {
		begin, end := int(p.from-from), int(p.to-from)
		for len(spans) > 0 && spans[0].To <= begin {
			spans = spans[1:]
		}
		for _, x := range spans {
			if x.From >= end {
				break
			}
			p.hidden = append(p.hidden, rawlog.Hidden{From: p.at + max(x.From, begin) - begin, To: p.at + min(x.To, end) - begin, Mask: x.Mask()})
		}
	}
	return nil
}
