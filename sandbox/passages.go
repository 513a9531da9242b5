package sandbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/maskedlog"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// Excerpt returns what Output does. Of a long output of a run that has ended it shows, besides
// both ends, what is near the failures in its summary. It reads that from the log, by its index, so
// neither time nor memory depend on the size of the log.
func (r *Run) Excerpt(ctx context.Context, limits excerpt.Limits) (stdout, stderr excerpt.Excerpt) {
	stdout, stderr = r.Output(limits)
	binary := stdout.Binary != "" || stderr.Binary != ""
	if stdout.OmittedBytes+stderr.OmittedBytes == 0 || binary || !r.ended() {
		return stdout, stderr
	}
	digest, _ := r.Digest(ctx)
	var marks []int64
	for _, n := range byImportance(digest) {
		marks = append(marks, int64(n))
	}
	shown, err := r.passages(ctx, [2]excerpt.Excerpt{stdout, stderr}, marks, limits)
	if err != nil {
		r.Box.logger.Debug("an excerpt has only the ends of the output", "exec", r.ID, "cause", err)
		return stdout, stderr
	}
	return shown[0], shown[1]
}

// byImportance returns the lines whose neighbourhood an excerpt shows: the first failure, the lines
// that the caller looks for, and the other failures.
func byImportance(d summary.Digest) []int {
	first := d.Failures[:min(1, len(d.Failures))]
	return slices.Concat(first, d.Wanted, d.Failures[len(first):])
}

// passages returns an excerpt of the log. The given excerpts have the sizes of the streams.
func (r *Run) passages(ctx context.Context, whole [2]excerpt.Excerpt, failures []int64, limits excerpt.Limits) (shown [2]excerpt.Excerpt, err error) {
	if log := r.LogStats(); !log.Complete || log.Bytes != whole[0].Bytes+whole[1].Bytes {
		return shown, errors.New("the log does not have the same output")
	}
	log, err := r.Box.logs.Open(r.ID)
	if err != nil {
		return shown, err
	}
	defer log.Close()
	if slices.ContainsFunc(log.Spans, func(s rawlog.Span) bool { return s.Stream == rawlog.Mixed }) {
		return shown, errors.New("the log does not tell the streams apart")
	}
	lines := logLines{ctx, log}
	list, err := excerpt.Choose(lines, lines.ofSmall(whole, limits.Cut/2), failures, limits)
	if err != nil {
		return shown, err
	}
	for i, stream := range []rawlog.Stream{rawlog.Stdout, rawlog.Stderr} {
		w := whole[i]
		t := passageText{
			stream: maskedlog.NewStream(log, stream, r.secrets), name: streamNames[i], lines: log.Lines(), size: log.Bytes(),
			excerpt: excerpt.Excerpt{Bytes: w.Bytes, Lines: w.Lines, Overwritten: w.Overwritten, OmittedBytes: w.Bytes - w.Overwritten, OmittedLines: w.Lines},
		}
		if t.stream.Len() != w.Bytes {
			return shown, errors.New("the log does not tell the streams apart")
		}
		for _, x := range list {
			if err := t.add(lines.onCharacters(x)); err != nil {
				return shown, err
			}
		}
		shown[i] = t.end()
		shown[i].FirstOmitted = firstGap(list)
	}
	return shown, nil
}

var streamNames = [2]string{"stdout", "stderr"}

// logLines are the lines of a log, as excerpt.Choose reads them.
type logLines struct {
	ctx context.Context
	log *rawlog.Reader
}

func (l logLines) Size() int64 { return l.log.Bytes() }

func (l logLines) Lines(from int64, most, size int) (list []excerpt.Line, err error) {
	for most > 0 && size > 0 && from <= l.log.Lines() && err == nil {
		var page []excerpt.Line
		page, err = l.read(rawlog.Query{From: from, Most: most, Bytes: min(size, pageBytes)})
		if len(page) == 0 {
			break
		}
		list = append(list, page...)
		last := page[len(page)-1]
		most -= len(page)
		size = int(max(0, int64(size)-(last.End-page[0].Off)))
		from = last.Number + 1
	}
	return list, err
}

// pageBytes bounds what is read of a log at once. A page ends before a line that does not fit,
// unless it is the first one.
const pageBytes = 64 << 10

func (l logLines) Last(most, size int) ([]excerpt.Line, error) {
	return l.read(rawlog.Query{Most: most, Bytes: size + most})
}

func (l logLines) read(q rawlog.Query) (list []excerpt.Line, err error) {
	page, err := l.log.Read(l.ctx, q)
	if err == nil && !page.Searched {
		err = l.ctx.Err()
	}
	for _, x := range page.Lines {
		end := x.Off + x.Skipped + int64(len(x.Text)) + x.Omitted + 1
		list = append(list, excerpt.Line{Number: x.Number, Off: x.Off, End: min(end, l.log.Bytes())})
	}
	return list, err
}

// firstGap returns the first line of which passages of a log lack something.
func firstGap(list []excerpt.Passage) int64 {
	switch {
	case len(list) == 0 || list[0].Off > 0:
		return 1
	case list[0].Broken:
		return list[0].Last
	}
	return list[0].Last + 1
}

// maxSpans bounds the passages of a small stream.
const maxSpans = 64

// ofSmall returns the passages of the smaller stream if it has at most so many bytes: a few
// warnings are worth more than the ends of a long output.
func (l logLines) ofSmall(whole [2]excerpt.Excerpt, most int) (list []excerpt.Passage) {
	stream, size := rawlog.Stdout, whole[0].Bytes
	if whole[1].Bytes < size {
		stream, size = rawlog.Stderr, whole[1].Bytes
	}
	if size > int64(most) {
		return nil
	}
	for _, s := range l.log.Spans {
		if s.Stream != stream {
			continue
		}
		if len(list) == maxSpans {
			return nil
		}
		p := excerpt.Passage{Off: s.Off, End: s.Off + s.Len, First: s.Line + 1, Last: s.Line + s.Feeds}
		p.Cut, p.Broken = !l.begins(p.Off), !l.begins(p.End)
		if p.Broken || p.End == l.log.Bytes() && s.Line+s.Feeds < l.log.Lines() {
			p.Last++
		}
		list = append(list, p)
	}
	return list
}

// begins reports whether a line begins at an offset, or the log ends there.
func (l logLines) begins(off int64) bool {
	var b [1]byte
	if off == 0 || off == l.log.Bytes() {
		return true
	}
	_, err := l.log.ReadAt(b[:], off-1)
	return err == nil && b[0] == '\n'
}

// onCharacters moves the ends of a passage out of characters.
func (l logLines) onCharacters(p excerpt.Passage) excerpt.Passage {
	for n := 1; n < utf8.UTFMax && p.Cut && p.Off < p.End && l.within(p.Off); n++ {
		p.Off++
	}
	for n := 1; n < utf8.UTFMax && p.Broken && p.End > p.Off && l.within(p.End); n++ {
		p.End--
	}
	return p
}

// within reports whether an offset is within a character.
func (l logLines) within(off int64) bool {
	var b [1]byte
	_, err := l.log.ReadAt(b[:], off)
	return err == nil && !utf8.RuneStart(b[0])
}

// A passageText is the excerpt of one stream, made of passages of its log.
type passageText struct {
	stream  *maskedlog.Stream
	name    string
	lines   int64 // of the log
	size    int64 // of the log
	excerpt excerpt.Excerpt

	text  strings.Builder // up to the last mark
	since []byte          // printed by the box, after the last mark
	last  excerpt.Passage // after which the next gap begins; before the first one, one before the log
	until excerpt.Passage // before which it ends, as far as is known; its Last is 0 if nothing is known
	other bool            // there are passages within the gap, which only the other stream has
}

// add adds what the stream has of a passage.
func (t *passageText) add(x excerpt.Passage) error {
	from, to := t.stream.Before(x.Off), t.stream.Before(x.End)
	if from == to {
		t.pass(x)
		return nil
	}
	t.leaveOut(x)
	var settle func([]byte) []byte
	if t.excerpt.Overwritten > 0 {
		settle = excerpt.Settle
	}
	part, err := t.stream.Read(from, to, settle)
	if err != nil {
		return err
	}
	t.since = append(t.since, part.Text...)
	t.excerpt.OmittedBytes -= int64(part.Bytes)
	t.excerpt.OmittedLines -= int64(part.Feeds)
	if to == t.stream.Len() && !part.Ended {
		t.excerpt.OmittedLines--
	}
	t.last, t.until, t.other = x, excerpt.Passage{}, false
	return nil
}

// pass passes over a passage that only the other stream has.
func (t *passageText) pass(x excerpt.Passage) {
	switch before := t.stream.Before(x.Off); {
	case before == t.stream.Before(t.last.End):
		t.last = x
	case t.until.Last == 0:
		t.until = x
	case before > t.stream.Before(t.until.Off):
		t.until, t.other = x, true
	}
}

// leaveOut marks what the stream has between the last passage and the next one.
func (t *passageText) leaveOut(next excerpt.Passage) {
	t.pass(next)
	if t.until.Last == 0 {
		return
	}
	g := excerpt.Gap{
		First: t.last.Last, Last: t.until.First,
		Bytes: t.stream.Before(next.Off) - t.stream.Before(t.last.End), Partial: t.last.Broken || t.until.Cut,
	}
	if !t.last.Broken {
		g.First++
	}
	if !t.until.Cut {
		g.Last--
	}
	if t.other {
		g.Stream = t.name
	}
	if n := len(t.since); n > 0 && t.since[n-1] != '\n' {
		t.since = append(t.since, '\n')
	}
	t.flush()
	t.text.WriteString(g.Mark())
}

// flush makes what comes from the box inert.
func (t *passageText) flush() {
	t.text.WriteString(excerpt.Guard(excerpt.Inert(t.since)))
	t.since = t.since[:0]
}

// end returns the excerpt.
func (t *passageText) end() excerpt.Excerpt {
	t.leaveOut(excerpt.Passage{Off: t.size, End: t.size, First: t.lines + 1, Last: t.lines + 1})
	t.flush()
	t.excerpt.Text = t.text.String()
	return t.excerpt
}
