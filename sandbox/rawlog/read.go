package rawlog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// An Index is the content of an index file.
type Index struct {
	Meta
	CmdBytes int    // the command's full length; Cmd may be only its beginning
	Spans    []Span // cover the log from its first byte
	Gaps     []Gap  // output missing between the bytes of the log
	End      *End   // nil: the command has not ended, or its server died first
	Leftover int    // Spans[Leftover:] came from processes that the command left behind
	Totals   *Stats // nil: more output may come, or the server died first
}

// A Span says which stream a part of the log came from, and when.
type Span struct {
	Stream Stream
	Off    int64         // offset of its first byte in the log
	Len    int64         // bytes
	Line   int64         // line feeds in the log before it
	Feeds  int64         // line feeds in it
	At     time.Duration // arrival of its first byte, from the start of the run
}

// A Gap is output that is missing from the log, between bytes that it has.
type Gap struct {
	Off    int64 // where in the log it would be
	Bytes  int64
	Lines  int64 // line feeds
	Reason string
}

const (
	// maxRecord bounds a record. JSON encodes a control character in six bytes, and
	// a head has several long strings.
	maxRecord = 1 << 20

	// maxNumber bounds the numbers of a span. This many milliseconds are 278 years,
	// about the most that a Duration holds.
	maxNumber = 1 << 43

	// maxIndex bounds an index file. A log of half a terabyte needs far less.
	maxIndex = 64 << 20
)

// ReadIndex reads the index of a log, also while the log is written or after its
// writer died. If the file is damaged, the error names the line and the Index has
// the records before it.
func ReadIndex(path string) (*Index, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	x, _, err := readIndex(f)
	if err != nil {
		return x, fmt.Errorf("index %s: %w", path, err)
	}
	return x, nil
}

// readIndex also returns the offset of the end of the last complete record.
func readIndex(r io.Reader) (x *Index, whole int64, err error) {
	x = &Index{}
	limited := &io.LimitedReader{R: r, N: maxIndex}
	lines := bufio.NewReaderSize(limited, maxRecord)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF && limited.N == 0:
			return x, whole, fmt.Errorf("longer than %d bytes", maxIndex)
		case err == io.EOF && n == 1:
			return x, whole, errors.New("no head yet")
		case err == io.EOF:
			return x, whole, nil // the rest is an incomplete record
		case err == nil:
			err = x.parse(n, line[:len(line)-1])
		}
		if err != nil {
			return x, whole, fmt.Errorf("line %d: %w", n, err)
		}
		whole += int64(len(line))
	}
}

// parse adds the nth record to the index.
func (x *Index) parse(n int, line []byte) error {
	if len(line) < 2 || line[1] != ' ' {
		return errors.New("not a record")
	}
	letter, content := line[0], line[2:]
	if (n == 1) != (letter == 'h') {
		return errors.New("the head must be the first record, and only the first")
	}
	switch letter {
	case 'h':
		return x.parseHead(content)
	case byte(Stdout), byte(Stderr), byte(Mixed):
		return x.parseSpan(Stream(letter), content)
	case 'g':
		return x.parseGap(content)
	case 'x':
		return x.parseEnd(content)
	case 'z':
		return x.parseTotals(content)
	}
	return nil
}

func (x *Index) parseHead(content []byte) error {
	var h headRecord
	if err := json.Unmarshal(content, &h); err != nil {
		return err
	}
	x.Meta = Meta{Exec: h.Exec, Box: h.Box, Owner: h.Owner, Cmd: h.Cmd, Dir: h.Dir, Note: h.Note, Start: h.Start}
	x.CmdBytes = h.CmdBytes
	return nil
}

func (x *Index) parseSpan(stream Stream, content []byte) error {
	var v [3]int64
	for i := range v {
		field, rest, more := bytes.Cut(content, []byte{' '})
		n, ok := number(field)
		if !ok || more != (i < len(v)-1) {
			return fmt.Errorf("a span must have three numbers of at most %d", int64(maxNumber))
		}
		v[i], content = n, rest
	}
	if v[1] > v[0] {
		return errors.New("a span must not have more lines than bytes")
	}
	s := Span{Stream: stream, Off: x.covered(), Len: v[0], Line: x.feeds(), Feeds: v[1], At: time.Duration(v[2]) * time.Millisecond}
	if s.Off > math.MaxInt64-s.Len {
		return errors.New("the spans have more bytes than a file can have")
	}
	if len(x.Spans) == cap(x.Spans) { // append alone would copy a large index ten times
		x.Spans = slices.Grow(x.Spans, len(x.Spans)+256)
	}
	x.Spans = append(x.Spans, s)
	if x.End == nil {
		x.Leftover = len(x.Spans)
	}
	return nil
}

// covered returns the offset where the last span ends.
func (x *Index) covered() int64 {
	if n := len(x.Spans); n > 0 {
		return x.Spans[n-1].end()
	}
	return 0
}

// feeds returns the number of line feeds in the spans.
func (x *Index) feeds() int64 {
	if n := len(x.Spans); n > 0 {
		return x.Spans[n-1].Line + x.Spans[n-1].Feeds
	}
	return 0
}

func (x *Index) parseGap(content []byte) error {
	var g gapRecord
	if err := json.Unmarshal(content, &g); err != nil {
		return err
	}
	gap := Gap{Off: x.covered(), Bytes: g.Bytes, Lines: g.Lines, Reason: g.Reason}
	if !gap.possible() {
		return errors.New("the counts of a gap are impossible")
	}
	x.Gaps = append(x.Gaps, gap)
	return nil
}

func (g Gap) possible() bool {
	const most = 1 << 42 // so that the sum of all gaps of an index does not overflow
	return 0 < g.Bytes && g.Bytes <= most && 0 <= g.Lines && g.Lines <= g.Bytes
}

// number parses a decimal number. It does not allocate, as strconv would, since an
// index can have a hundred thousand spans.
func number(digits []byte) (n int64, ok bool) {
	for _, d := range digits {
		if d < '0' || d > '9' || n > maxNumber/10 {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	return n, len(digits) > 0 && n <= maxNumber
}

func (x *Index) parseEnd(content []byte) error {
	var e endRecord
	if err := json.Unmarshal(content, &e); err != nil {
		return err
	}
	x.End = &End{Status: e.Status, Code: e.Code, Signal: e.Signal, Took: time.Duration(e.TookMillis) * time.Millisecond}
	return nil
}

func (x *Index) parseTotals(content []byte) error {
	var t totalsRecord
	if err := json.Unmarshal(content, &t); err != nil {
		return err
	}
	x.Totals = &Stats{
		Bytes: t.Bytes, Lines: t.Lines, Kept: t.Kept, Lost: t.Bytes - t.Kept,
		Complete: t.Reason == "", Reason: t.Reason,
	}
	return nil
}
