package rawlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	// maxText bounds a command in the head, which is for people. A command of a
	// megabyte is a pasted program.
	maxText = 16 << 10

	// spanBytes ends a span. To find a line, a reader reads one span of the log.
	spanBytes = 256 << 10

	// spanTime ends a span of one stream. It is the resolution of arrival times.
	spanTime = 100 * time.Millisecond

	// maxFine bounds the exact spans of an index, before they become coarse: about
	// fifty thousand of them.
	maxFine = 1 << 20

	// maxPending is the size of unwritten records that causes a write.
	maxPending = 32 << 10
)

var lineFeed = []byte{'\n'}

// An index writes an index file in the format of the package comment. The Log
// serialises the calls. Without a file it does nothing; an error puts it into this
// state.
type index struct {
	file    *os.File
	pending bytes.Buffer // records not written yet
	span    Span         // the current span; none if its Len is 0
	fine    int          // bytes of span records so far
	ended   bool         // the end of the command is recorded
}

// The JSON forms of records.
type (
	headRecord struct {
		Exec     string    `json:"exec"`
		Box      string    `json:"box"`
		Owner    string    `json:"owner,omitempty"`
		Cmd      string    `json:"cmd"`
		CmdBytes int       `json:"cmdBytes"`
		Dir      string    `json:"dir"`
		Note     string    `json:"note,omitempty"`
		Start    time.Time `json:"start"`
	}
	gapRecord struct {
		Bytes  int64  `json:"bytes"`
		Lines  int64  `json:"lines"`
		Reason string `json:"reason"`
	}
	endRecord struct {
		Status     string `json:"status"`
		Code       int    `json:"code"`
		Signal     string `json:"signal,omitempty"`
		TookMillis int64  `json:"tookMs"`
	}
	totalsRecord struct {
		Bytes  int64  `json:"bytes"`
		Lines  int64  `json:"lines"`
		Kept   int64  `json:"kept"`
		Reason string `json:"reason,omitempty"`
	}
)

// begin writes the head immediately, so that every log has one.
func (x *index) begin(m Meta) error {
	if x.file == nil {
		return nil
	}
	x.record('h', headRecord{
		Exec: m.Exec, Box: m.Box, Owner: clip(m.Owner, maxText), Start: m.Start, Dir: clip(m.Dir, maxText), Note: clip(m.Note, maxText),
		Cmd: clip(m.Cmd, maxText), CmdBytes: len(m.Cmd),
	})
	return x.write()
}

// add attributes the log's next bytes to a stream. p must not be empty.
func (x *index) add(stream Stream, p []byte, at time.Duration) error {
	if x.file == nil {
		return nil
	}
	if x.span.Len > 0 && !x.joins(stream, at) {
		x.endSpan()
	}
	switch {
	case x.span.Len == 0:
		x.span = Span{Stream: stream, At: at}
	case x.span.Stream != stream:
		x.span.Stream = Mixed
	}
	x.span.Len += int64(len(p))
	x.span.Feeds += int64(bytes.Count(p, lineFeed))
	if x.span.Len >= spanBytes {
		x.endSpan()
	}
	if x.pending.Len() >= maxPending {
		return x.write()
	}
	return nil
}

// joins reports whether bytes of a stream belong to the current span.
func (x *index) joins(stream Stream, at time.Duration) bool {
	return x.coarse() || stream == x.span.Stream && at-x.span.At < spanTime
}

func (x *index) coarse() bool { return x.fine >= maxFine }

func (x *index) endSpan() {
	if x.span.Len == 0 {
		return
	}
	line := append(x.pending.AvailableBuffer(), byte(x.span.Stream))
	at := min(max(0, x.span.At.Milliseconds()), maxNumber) // the clock may have been set while the run outlived its writer
	for _, v := range []int64{x.span.Len, x.span.Feeds, at} {
		line = append(line, ' ')
		line = strconv.AppendInt(line, v, 10)
	}
	line = append(line, '\n')
	x.pending.Write(line)
	x.fine += len(line)
	x.span = Span{}
}

// flush writes the pending records. It does not end a coarse span: only its size
// ends one, so that the index of a command that prints for weeks stays bounded.
func (x *index) flush() error {
	if !x.coarse() {
		x.endSpan()
	}
	return x.write()
}

// gap records immediately what is missing after the last span.
func (x *index) gap(g Gap) error {
	if x.file == nil {
		return errors.New("there is no index to record the gap in")
	}
	x.endSpan()
	x.record('g', gapRecord{Bytes: g.Bytes, Lines: g.Lines, Reason: g.Reason})
	return x.write()
}

// end records the command's end, between the output before it and after it.
func (x *index) end(e End) {
	if x.ended || x.file == nil {
		return
	}
	x.ended = true
	x.endSpan()
	x.record('x', endRecord{Status: e.Status, Code: e.Code, Signal: e.Signal, TookMillis: e.Took.Milliseconds()})
}

// close writes the pending records and the totals, with one system call.
func (x *index) close(s Stats) error {
	if x.file == nil {
		return nil
	}
	x.endSpan()
	x.record('z', totalsRecord{Bytes: s.Bytes, Lines: s.Lines, Kept: s.Kept, Reason: s.Reason})
	return x.detach()
}

// detach writes the pending records and closes the file.
func (x *index) detach() error {
	x.endSpan()
	if err := x.write(); err != nil || x.file == nil {
		return err
	}
	return x.file.Close()
}

func (x *index) record(letter byte, body any) {
	x.pending.Write([]byte{letter, ' '})
	enc := json.NewEncoder(&x.pending) // ends a value with a line feed
	enc.SetEscapeHTML(false)           // leaves a shell's && readable
	if err := enc.Encode(body); err != nil {
		panic(err) // cannot happen: the records hold strings, numbers and a time
	}
}

// write writes the pending records. After an error it writes no more, since the
// file may end with an incomplete record.
func (x *index) write() error {
	if x.file == nil || x.pending.Len() == 0 {
		return nil
	}
	_, err := x.pending.WriteTo(x.file)
	if err != nil {
		x.file.Close()
		x.file = nil
	}
	return err
}

// clip returns the first bytes of s, at most so many, cut between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
