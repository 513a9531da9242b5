package rawlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sort"
)

// maxLine is the size of the buffer. A longer line is read in parts.
const maxLine = 256 << 10

// A Reader reads the log of a run as it was when the Reader was opened. The index
// tells where lines begin, so the cost of reading a range does not depend on the
// size of the log. A Reader is not safe for concurrent use.
type Reader struct {
	Index // its Spans cover the whole log; output of unknown stream is Mixed

	file    *os.File
	size    int64
	partial bool // the last line has no line feed
	ended   bool // no more output will come
	buf     []byte
}

// Open opens the log of a run for reading, whether the run has ended or not. If the
// index is missing, damaged or incomplete, Open scans the log itself, which only
// takes longer. If there is no such log, the error is an fs.ErrNotExist.
func (s *Store) Open(exec string) (*Reader, error) {
	if !isName(exec) {
		return nil, fmt.Errorf("no run is named %.140q: %w", exec, fs.ErrNotExist)
	}
	if l := s.writing(exec); l != nil {
		l.flush()
	}
	file, err := open(s.base(exec) + logExt)
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, ended: !s.Written(exec), buf: make([]byte, maxLine)}
	if err := r.measure(s.base(exec) + indexExt); err != nil {
		file.Close()
		return nil, err
	}
	return r, nil
}

// Head returns the index of a run without opening its log.
func (s *Store) Head(exec string) (*Index, error) {
	if !isName(exec) {
		return nil, fmt.Errorf("no run is named %.140q: %w", exec, fs.ErrNotExist)
	}
	return ReadIndex(s.base(exec) + indexExt)
}

// Close closes the log.
func (r *Reader) Close() error { return r.file.Close() }

// Bytes returns the size of the log.
func (r *Reader) Bytes() int64 { return r.size }

// Lines returns the number of lines in the log. A last line without line feed
// counts.
func (r *Reader) Lines() int64 {
	if r.partial {
		return r.feeds() + 1
	}
	return r.feeds()
}

// ReadAt reads raw bytes of the log.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) { return r.file.ReadAt(p, off) }

// measure reads the index and the size of the log. It reads the index first, so
// that the log has all the bytes that the index covers.
func (r *Reader) measure(index string) error {
	if x, _ := ReadIndex(index); x != nil {
		r.Index = *x
	}
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", r.file.Name())
	}
	r.size = info.Size()
	r.Spans = r.Spans[:r.span(r.size)]
	if err := r.complete(); err != nil || r.size == 0 {
		return err
	}
	last := r.buf[:1]
	if _, err := r.file.ReadAt(last, r.size-1); err != nil {
		return err
	}
	r.partial = last[0] != '\n'
	return nil
}

// complete adds spans for the bytes that the index does not cover.
func (r *Reader) complete() error {
	for off := r.covered(); off < r.size; off = r.covered() {
		p, err := r.at(off)
		if err != nil {
			return err
		}
		r.Spans = append(r.Spans, Span{
			Stream: Mixed, Off: off, Len: int64(len(p)), Line: r.feeds(), Feeds: int64(bytes.Count(p, lineFeed)),
		})
	}
	return nil
}

func (s Span) end() int64 { return s.Off + s.Len }

// at reads as much as the buffer holds from an offset below the size. The result
// is valid until the next call.
func (r *Reader) at(off int64) ([]byte, error) {
	n, err := r.file.ReadAt(r.buf[:min(int64(len(r.buf)), r.size-off)], off)
	if n == 0 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF) // the file was truncated meanwhile
	}
	return r.buf[:n], nil
}

// span returns the number of the span that contains an offset. For the size of the
// log it returns the number of spans.
func (r *Reader) span(off int64) int {
	return sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].end() > off })
}

// offset returns where a line begins, or the size if there is no such line.
func (r *Reader) offset(line int64) (int64, error) {
	feeds := line - 1 // line feeds before it
	if feeds <= 0 {
		return 0, nil
	}
	i := sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].Line+r.Spans[i].Feeds >= feeds })
	if i == len(r.Spans) {
		return r.size, nil
	}
	return r.afterFeed(r.Spans[i].Off, feeds-r.Spans[i].Line)
}

// afterFeed returns the offset after the nth line feed, counted from an offset.
func (r *Reader) afterFeed(off, n int64) (int64, error) {
	for off < r.size {
		p, err := r.at(off)
		if err != nil {
			return 0, err
		}
		for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
			p, off = p[i+1:], off+int64(i)+1
			if n--; n == 0 {
				return off, nil
			}
		}
		off += int64(len(p))
	}
	return r.size, nil
}

// lineEnd returns the offset of the first line feed at or after an offset, or the
// size. It skips spans without a line feed unread.
func (r *Reader) lineEnd(off int64) (int64, error) {
	for i := r.span(off); i < len(r.Spans); i = r.span(off) {
		if r.Spans[i].Feeds == 0 {
			off = r.Spans[i].end()
			continue
		}
		p, err := r.at(off)
		if err != nil {
			return 0, err
		}
		p = p[:min(int64(len(p)), r.Spans[i].end()-off)]
		if k := bytes.IndexByte(p, '\n'); k >= 0 {
			return off + int64(k), nil
		}
		off += int64(len(p))
	}
	return r.size, nil
}

// A row is a line of the log.
type row struct {
	number int64
	off    int64
	text   []byte // its beginning, without the line feed; valid until the next row
	len    int64  // of the whole line
	end    int64  // offset in the log where it ends, also where text is only that of one stream
	ended  bool   // it has its line feed
	lost   int64  // bytes that are missing within it or before it
}

// each calls f for the rows from a line on, until f returns false. If stream is not
// 0, it skips spans that have no output of the stream.
func (r *Reader) each(ctx context.Context, line int64, stream Stream, f func(row) bool) error {
	off, err := r.offset(line)
	for more := true; more && err == nil; {
		if to := r.skip(line, stream); to > line {
			line = to
			var start int64
			start, err = r.offset(line)
			off = max(off, start)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || off >= r.size {
			return err
		}
		line, off, more, err = r.rows(line, off, f)
	}
	return err
}

// rows calls f for the rows that the buffer holds, at least one, and returns the
// position of the next one.
func (r *Reader) rows(line, off int64, f func(row) bool) (nextLine, nextOff int64, more bool, err error) {
	p, err := r.at(off)
	if err != nil {
		return 0, 0, false, err
	}
	first := off
	for i := bytes.IndexByte(p, '\n'); i >= 0; i = bytes.IndexByte(p, '\n') {
		if !f(row{number: line, off: off, text: p[:i], len: int64(i), end: off + int64(i), ended: true}) {
			return 0, 0, false, nil
		}
		line, off, p = line+1, off+int64(i)+1, p[i+1:]
	}
	if off > first && off+int64(len(p)) < r.size || len(p) == 0 {
		return line, off, true, nil // the next call reads the rest again, from its beginning
	}
	text := slices.Clone(p) // lineEnd overwrites the buffer
	end, err := r.lineEnd(off + int64(len(p)))
	more = err == nil && f(row{number: line, off: off, text: text, len: end - off, end: end, ended: end < r.size})
	return line + 1, end + 1, more, err
}

// lost returns how many bytes are missing within a row or right before it.
func (r *Reader) lost(w row) (n int64) {
	i := sort.Search(len(r.Gaps), func(i int) bool { return r.Gaps[i].Off >= w.off })
	for ; i < len(r.Gaps) && r.Gaps[i].Off <= w.off+w.len; i++ {
		n += r.Gaps[i].Bytes
	}
	return n
}

// skip returns the first line at or after a line that may have output of a stream.
func (r *Reader) skip(line int64, stream Stream) int64 {
	if stream == 0 {
		return line
	}
	// The line begins after the line feed of the one before it: in the span of that, or later.
	i := sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].Line+r.Spans[i].Feeds >= line-1 })
	for i < len(r.Spans) && !r.Spans[i].mayHold(stream) {
		i++
	}
	if i == len(r.Spans) {
		return r.Lines() + 1
	}
	return max(line, r.Spans[i].Line+1)
}

// mayHold reports whether a span may have output of a stream.
func (s Span) mayHold(stream Stream) bool { return s.Stream == stream || s.Stream == Mixed }

// onStream returns the part of a row that was printed to a stream, and whether there
// is one. Two streams can share a line.
func (r *Reader) onStream(w row, stream Stream) (row, bool) {
	if stream == 0 {
		return w, true
	}
	all := w.text
	w.text, w.len = nil, 0
	any := false
	for i := r.span(w.off); i < len(r.Spans) && r.Spans[i].Off <= w.end; i++ {
		if s := r.Spans[i]; s.mayHold(stream) {
			start, size := w.part(s, stream)
			if from := min(start-w.off, int64(len(all))); from >= 0 {
				w.text = append(w.text, all[from:min(from+size, int64(len(all)))]...)
			}
			w.len += size
			any = true
		}
	}
	return w, any
}
