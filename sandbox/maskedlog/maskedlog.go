// Package maskedlog reads lines of a raw log with their secrets masked.
//
// A mask depends on what the same stream printed before and after a line: half of a
// private key has no recognizable form. So the package searches the log around the lines
// of a page, not the page alone. A search matches its pattern against the masked lines,
// so a caller cannot guess a secret by searching for it.
//
// Memory is bounded by the page and by windows of the log, whatever the log's size. The
// package does not check access: the caller decides who may read a log.
package maskedlog

import (
	"context"
	"regexp"
	"time"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// A Query says which lines to read.
type Query struct {
	From    int64          // the first line, counted from 1; 0: the last Most lines
	Most    int            // lines; of a search, those that match
	Bytes   int            // of those lines, roughly
	Stream  rawlog.Stream  // only the output of this stream; 0: both streams
	Match   *regexp.Regexp // only lines whose masked form it matches; nil: all lines
	Context int            // lines to add before and after each line that matches

	FromByte int64         // skips so many bytes of the line From
	CountFor time.Duration // how long to count matches after the page is full; 0: they are not counted
}

// Read reads a page of a log and masks it. When ctx ends, it returns the lines found until
// then. An error means that the log can no longer be read.
func Read(ctx context.Context, log *rawlog.Reader, q Query, secrets *redact.Redactor) (rawlog.Page, error) {
	m := newMasker(log, q.Stream, secrets)
	raw := rawlog.Query{
		From: q.From, Most: q.Most, Bytes: q.Bytes, Stream: q.Stream, Match: q.Match, Context: q.Context,
		FromByte: q.FromByte, CountFor: q.CountFor, Hide: m.hidden,
	}
	if q.Match != nil {
		raw.Needs, raw.NeedsParts = needs(q.Match.String())
	}
	page, err := log.Read(ctx, raw)
	if err != nil {
		return rawlog.Page{}, err
	}
	return page, m.mask(page.Lines)
}
