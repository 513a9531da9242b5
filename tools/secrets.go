package tools

import (
	"bufio"
	"io"
	"slices"
	"sort"

	"github.com/warmbox/warmbox/sandbox/rawlog"
)

const (
	// margin is how much around what is shown is looked at for secrets that lie
	// across a border: a page's, a clipped line's, that of a line beside which a
	// search shows nothing. The largest private key in use has 12 kB.
	margin = 16 << 10

	// maxWindow bounds what is looked at at once, not counting margins.
	maxWindow = 256 << 10
)

// A ranger is redact.Redactor.Ranges: it returns ranges of p without the
// secrets of p.
type ranger = func(p []byte, ranges [][2]int) [][]byte

// hideSecrets masks the secrets in lines that were read from a log: of one
// stream, or of both for 0. What belongs to a secret is told by what was printed
// around it to the same stream, whether that is shown or not, and whatever the
// other stream printed in between.
//
// A search goes by what was printed, not by what is shown, so that its caller
// can guess at a secret until a line matches. He need not: the log itself is
// his to read, by its path.
func hideSecrets(log *rawlog.Reader, lines []rawlog.Line, stream rawlog.Stream, mask ranger) error {
	starts, err := lineStarts(log, lines)
	if err != nil {
		return err
	}
	tracks := []*track{newTrack(log, rawlog.Stdout), newTrack(log, rawlog.Stderr)}
	if stream != 0 {
		tracks = []*track{newTrack(log, stream)}
	}
	var pieces []*piece
	for i, l := range lines {
		pieces = appendPieces(pieces, tracks, i, l, starts[i])
	}
	for _, t := range tracks {
		if err := t.mask(pieces, mask); err != nil {
			return err
		}
	}
	for i := range lines {
		lines[i].Text = nil
	}
	for _, p := range pieces {
		lines[p.line].Text = append(lines[p.line].Text, p.text...)
	}
	return nil
}

// lineStarts returns where lines begin in their log.
func lineStarts(log *rawlog.Reader, lines []rawlog.Line) ([]int64, error) {
	starts := make([]int64, len(lines))
	var file *bufio.Reader
	var off, feeds int64 // where file is, and the line feeds before that
	for i, l := range lines {
		before := l.Number - 1
		s := log.Spans[sort.Search(len(log.Spans), func(k int) bool { return log.Spans[k].Line+log.Spans[k].Feeds >= before })]
		if file == nil || s.Off > off {
			file, off, feeds = bufio.NewReaderSize(io.NewSectionReader(log, s.Off, log.Bytes()-s.Off), 32<<10), s.Off, s.Line
		}
		for feeds < before {
			p, err := file.ReadSlice('\n')
			off += int64(len(p))
			switch err {
			case nil:
				feeds++
			case bufio.ErrBufferFull:
			default:
				return nil, err
			}
		}
		starts[i] = off
	}
	return starts, nil
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
	track    *track
	from, to int64
	text     []byte // masked
}

// appendPieces cuts the shown text of a line into pieces. A single track has
// all of it.
func appendPieces(pieces []*piece, tracks []*track, line int, l rawlog.Line, start int64) []*piece {
	size := int64(len(l.Text))
	if len(tracks) == 1 {
		from := tracks[0].pos(start) + l.Skipped
		return append(pieces, &piece{line: line, track: tracks[0], from: from, to: from + size})
	}
	start += l.Skipped
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
			pieces = append(pieces, &piece{line: line, track: t, from: pos, to: pos + n})
		}
	}
	return pieces
}

// mask gives the pieces of this track their text. Those that lie near each
// other are looked at together.
func (t *track) mask(pieces []*piece, mask ranger) error {
	pieces = slices.DeleteFunc(slices.Clone(pieces), func(p *piece) bool { return p.track != t })
	for len(pieces) > 0 {
		n := 1
		for n < len(pieces) && pieces[n].from-pieces[n-1].to < 2*margin && pieces[n].to-pieces[0].from < maxWindow {
			n++
		}
		if err := t.maskNear(pieces[:n], mask); err != nil {
			return err
		}
		pieces = pieces[n:]
	}
	return nil
}

func (t *track) maskNear(pieces []*piece, mask ranger) error {
	from := max(0, pieces[0].from-margin)
	window, err := t.read(from, min(t.len, pieces[len(pieces)-1].to+margin))
	if err != nil {
		return err
	}
	var ranges [][2]int
	for _, p := range pieces {
		ranges = append(ranges, [2]int{int(p.from - from), int(p.to - from)})
	}
	for i, text := range mask(window, ranges) {
		pieces[i].text = text
	}
	return nil
}
