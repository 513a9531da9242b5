package maskedlog

import (
	"bytes"
	"errors"
	"slices"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// A Stream is what a command printed to one of its streams, as a log has it.
type Stream struct {
	track   *track
	secrets *redact.Redactor
}

// NewStream returns a stream of a log. Output whose stream is unknown belongs to each.
func NewStream(log *rawlog.Reader, stream rawlog.Stream, secrets *redact.Redactor) *Stream {
	return &Stream{newTrack(log, stream), secrets}
}

// Len returns the number of bytes of the stream.
func (s *Stream) Len() int64 { return s.track.len }

// Before returns how many of them lie before an offset of the log.
func (s *Stream) Before(off int64) int64 { return s.track.pos(off) }

// A Part is a part of a stream. Its sizes are those before secrets were masked.
type Part struct {
	Text  []byte // with secrets masked
	Bytes int
	Feeds int  // line feeds
	Ended bool // it ends in a line feed
}

// errWithinLine says that a part does not begin and end where lines do.
var errWithinLine = errors.New("a part of a line that is overwritten cannot be shown")

// Read returns the part of the stream between two of its bytes, as settle leaves it, which must
// get complete lines. A nil settle changes nothing. The caller bounds the number of bytes.
func (s *Stream) Read(from, to int64, settle func([]byte) []byte) (Part, error) {
	window, err := s.track.read(max(0, from-margin), min(s.track.len, to+margin))
	if err != nil {
		return Part{}, err
	}
	begin := int(min(from, margin))
	end := begin + int(to-from)
	before, text, after := window[:begin], window[begin:end], window[end:]
	if settle != nil {
		if from > 0 && !bytes.HasSuffix(before, lineFeed) || to < s.track.len && !bytes.HasSuffix(text, lineFeed) {
			return Part{}, errWithinLine
		}
		before, text, after = settle(before), settle(text), settle(after)
		window = slices.Concat(before, text, after)
	}
	return Part{
		Text:  s.secrets.Within(window, len(before), len(before)+len(text)),
		Bytes: len(text), Feeds: bytes.Count(text, lineFeed), Ended: bytes.HasSuffix(text, lineFeed),
	}, nil
}

var lineFeed = []byte{'\n'}
