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
	// maxText is how much of a command the head holds. It is for people; one of
	// a megabyte is a program that was pasted.
	maxText = 16 << 10

	// spanBytes ends a span: to find a line one such piece of the log is read.
	spanBytes = 256 << 10

	// spanTime ends a span of one stream: "when" is told to within so much.
	spanTime = 100 * time.Millisecond

	// maxFine is what the exact spans of an index may take before they turn
	// coarse: some fifty thousand of them.
	maxFine = 1 << 20

	// maxPending is how much of the index waits for the next flush.
	maxPending = 32 << 10
)

var lineFeed = []byte{'\n'}

// index writes an index as the package comment says. The Log serialises the
// calls. Without a file it does nothing, and that is its state after an error.
type index struct {
	file    *os.File
	pending bytes.Buffer // records not written yet
	span    Span         // takes up what comes; none where its Len is 0
	fine    int          // bytes of span records so far
	ended   bool
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

// begin writes the head at once: whoever finds the log knows what it is of.
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

// add attributes the log's next bytes, which are not none.
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

// joins reports whether bytes of a stream belong to the span at hand.
func (x *index) joins(stream Stream, at time.Duration) bool {
	return x.coarse() || stream == x.span.Stream && at-x.span.At < spanTime
}

func (x *index) coarse() bool { return x.fine >= maxFine }

func (x *index) endSpan() {
	if x.span.Len == 0 {
		return
	}
	line := append(x.pending.AvailableBuffer(), byte(x.span.Stream))
	at := min(max(0, x.span.At.Milliseconds()), maxNumber) // the clock of a run that outlived its writer may have been set
	for _, v := range []int64{x.span.Len, x.span.Feeds, at} {
		line = append(line, ' ')
		line = strconv.AppendInt(line, v, 10)
	}
	line = append(line, '\n')
	x.pending.Write(line)
	x.fine += len(line)
	x.span = Span{}
}

// flush writes what waits. A coarse span goes on: it is by its size only that
// it ends, else a command that prints for weeks would have an index without
// bound.
func (x *index) flush() error {
	if !x.coarse() {
		x.endSpan()
	}
	return x.write()
}

// gap notes at once what is missing behind all that was told of.
func (x *index) gap(g Gap) error {
	if x.file == nil {
		return errors.New("there is no index to say what is missing")
	}
	x.endSpan()
	x.record('g', gapRecord{Bytes: g.Bytes, Lines: g.Lines, Reason: g.Reason})
	return x.write()
}

// end notes the command's end, between what was printed before it and after.
func (x *index) end(e End) {
	if x.ended || x.file == nil {
		return
	}
	x.ended = true
	x.endSpan()
	x.record('x', endRecord{Status: e.Status, Code: e.Code, Signal: e.Signal, TookMillis: e.Took.Milliseconds()})
}

// close writes what waits and the totals, in one piece.
func (x *index) close(s Stats) error {
	if x.file == nil {
		return nil
	}
	x.endSpan()
	x.record('z', totalsRecord{Bytes: s.Bytes, Lines: s.Lines, Kept: s.Kept, Reason: s.Reason})
	return x.leave()
}

// leave writes what waits and lets go of the file.
func (x *index) leave() error {
	x.endSpan()
	if err := x.write(); err != nil || x.file == nil {
		return err
	}
	return x.file.Close()
}

func (x *index) record(letter byte, body any) {
	x.pending.Write([]byte{letter, ' '})
	enc := json.NewEncoder(&x.pending) // which ends a value with a line feed
	enc.SetEscapeHTML(false)           // a shell's && is better left readable
	if err := enc.Encode(body); err != nil {
		panic(err) // strings, numbers and a time of our own
	}
}

// write writes what waits. After an error the index is left as it is, since
// its last record may be there in part.
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

// clip returns the beginning of s, cut between two characters.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
