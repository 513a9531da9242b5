package maskedlog

import (
	"bytes"
	"iter"
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
	// margin is how much of the log before and after the lines is searched for
	// secrets that cross a border: of the page, of a clipped line, of a line whose
	// neighbours do not match the search. The largest private key in use has 12 kB. It is
	// larger if a configured secret is.
	margin = 16 << 10

	// maxWindow bounds how much of the log is searched at once, not counting margins.
	maxWindow = 256 << 10
)

// A masker masks the secrets of one stream of a log, or of both. It searches
// the text of one stream around a line, including text outside the page, and ignores
// output of the other stream in between.
type masker struct {
	tracks []*track
	find   func([]byte) []redact.Span
	margin int64
}

// newMasker returns the masker of one stream, or of both for 0.
func newMasker(log *rawlog.Reader, stream rawlog.Stream, secrets *redact.Redactor) *masker {
	m := &masker{find: secrets.Find, margin: max(margin, int64(secrets.Longest()))}
	if stream != 0 {
		m.tracks = []*track{newTrack(log, stream)}
	} else {
		m.tracks = []*track{newTrack(log, rawlog.Stdout), newTrack(log, rawlog.Stderr)}
	}
	return m
}

// hidden returns the parts of each line's text that are to be masked.
func (m *masker) hidden(lines []rawlog.Line) ([][]rawlog.Hidden, error) {
	var pieces []*piece
	for i, l := range lines {
		pieces = appendPieces(pieces, m.tracks, i, l)
	}
	for _, t := range m.tracks {
		if err := m.search(t, pieces); err != nil {
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
func (m *masker) mask(lines []rawlog.Line) error {
	hidden, err := m.hidden(lines)
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

// needs returns two quick tests that each unmasked line passes whose masked form the pattern
// can match: the line contains the texts that every match contains. One is for a whole line,
// the other for the parts of a long one. They are nil if the pattern implies no such text, and
// serve one reader.
func needs(pattern string) (line func([]byte) bool, parts func(iter.Seq[[]byte]) bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, nil
	}
	var texts []func([]byte) bool
	need := needOf(re.Simplify(), &texts)
	if need == nil {
		return nil, nil
	}
	var text []byte
	in := func(i int) bool { return texts[i](text) } // made once, since there are many lines
	line = func(p []byte) bool {
		text = p
		return need(in)
	}
	parts = func(parts iter.Seq[[]byte]) bool {
		found := make([]bool, len(texts))
		for p := range parts {
			for i, has := range texts {
				found[i] = found[i] || has(p)
			}
			if need(func(i int) bool { return found[i] }) {
				return true
			}
		}
		return false
	}
	return line, parts
}

// needOf returns a test for the texts that every match of an expression contains: it is told
// which of the texts a line has. nil: no text is needed.
func needOf(re *syntax.Regexp, texts *[]func([]byte) bool) func(has func(int) bool) bool {
	var subs []func(has func(int) bool) bool
	for _, sub := range re.Sub {
		if n := needOf(sub, texts); n != nil {
			subs = append(subs, n)
		}
	}
	switch {
	case re.Op == syntax.OpLiteral:
		text := hasText(string(re.Rune), re.Flags&syntax.FoldCase != 0)
		if text == nil {
			return nil
		}
		i := len(*texts)
		*texts = append(*texts, text)
		return func(has func(int) bool) bool { return has(i) }
	case len(subs) == 0:
	case re.Op == syntax.OpCapture || re.Op == syntax.OpPlus:
		return subs[0]
	case re.Op == syntax.OpConcat:
		return func(has func(int) bool) bool {
			return !slices.ContainsFunc(subs, func(sub func(func(int) bool) bool) bool { return !sub(has) })
		}
	case re.Op == syntax.OpAlternate && len(subs) == len(re.Sub):
		return func(has func(int) bool) bool {
			return slices.ContainsFunc(subs, func(sub func(func(int) bool) bool) bool { return sub(has) })
		}
	}
	return nil
}

// hasText returns a test for a text in a line, or nil if a mask can contain the text.
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

// A track is one stream of a log, as if the other had printed nothing. Output whose
// stream is unknown is on both tracks.
type track struct {
	log   *rawlog.Reader
	spans []rawlog.Span
	at    []int64 // the position on the track at which each span begins
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

// pos converts an offset in the log to a position on the track.
func (t *track) pos(off int64) int64 {
	i := sort.Search(len(t.spans), func(i int) bool { return t.spans[i].Off+t.spans[i].Len > off })
	if i == len(t.spans) {
		return t.len
	}
	return t.at[i] + max(0, off-t.spans[i].Off)
}

// read returns the bytes of the track between two positions.
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
	at       int // its offset in the line's text
	track    *track
	from, to int64
	hidden   []rawlog.Hidden // its secrets, as offsets in the line's text
}

// appendPieces cuts the text of a line into pieces. A single track has the whole text.
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

// search finds the secrets in the pieces of a track. It searches pieces that are
// close to each other together.
func (m *masker) search(t *track, pieces []*piece) error {
	pieces = slices.DeleteFunc(slices.Clone(pieces), func(p *piece) bool { return p.track != t })
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].from-pieces[n-1].to < 2*m.margin && pieces[n].to-pieces[0].from < maxWindow {
			n++
		}
		if err := m.searchNear(t, pieces[:n]); err != nil {
			return err
		}
		pieces = pieces[n:]
	}
	return nil
}

// searchNear searches one window of the track, which has all the pieces.
func (m *masker) searchNear(t *track, pieces []*piece) error {
	from := max(0, pieces[0].from-m.margin)
	window, err := t.read(from, min(t.len, pieces[len(pieces)-1].to+m.margin))
	if err != nil {
		return err
	}
	spans := m.find(window)
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
