package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/warmbox/warmbox/sandbox/maskedlog"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// Text that a command printed or was given leaves the package with its secrets masked:
// as Lines of its log, as a Record, as the Description of a box, as the Output and the
// Digest of a run. All other text passes through Manager.Mask.

// What Lines reads and returns. Readers of lines need no other package.
type (
	LineQuery = maskedlog.Query
	Page      = rawlog.Page
	Line      = rawlog.Line
	Stream    = rawlog.Stream
)

// The streams of a LineQuery; its zero value means both.
const (
	Stdout = rawlog.Stdout
	Stderr = rawlog.Stderr
)

// Lines is a page of a command's log with its secrets masked, and the state of the
// command when the page was read.
type Lines struct {
	Record Record
	Page   Page

	Bytes, Count int64 // of the whole log: bytes and lines
	Mixed        int64 // the first line whose stream is unknown; 0: there is none
	Missing      bool  // there is no log

	// Quiet is the time since the last output, roughly; 0: unknown.
	Quiet time.Duration
}

// Lines reads lines of the log of an owner's command, running or ended. The search ends
// when ctx does; the page then says that it is not complete. The state of the command is
// read before its log, so the log of a command that has ended is complete.
func (m *Manager) Lines(ctx context.Context, owner Owner, id string, q LineQuery) (Lines, error) {
	record, err := m.Record(owner, id)
	if err != nil {
		return Lines{}, err
	}
	if run := m.history.open(owner, id); run != nil && record.Exit.Status == Running {
		record.Exit.Err = run.Box.Unresponsive()
	}
	l := Lines{Record: record, Page: Page{Next: 1, Searched: true}}
	log, err := m.Logs.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		l.Missing = true
		return l, nil
	}
	if err != nil {
		return Lines{}, err
	}
	defer log.Close()
	l.Bytes, l.Count = log.Bytes(), log.Lines()
	if n := len(log.Spans); n > 0 && (log.Spans[n-1].At > 0 || log.Spans[n-1].Stream != rawlog.Mixed) {
		l.Quiet = max(0, time.Since(record.Started.Add(log.Spans[n-1].At)))
	}
	if i := slices.IndexFunc(log.Spans, func(s rawlog.Span) bool { return s.Stream == rawlog.Mixed }); i >= 0 {
		l.Mixed = log.Spans[i].Line + 1
	}
	l.Page, err = maskedlog.Read(ctx, log, q, m.Secrets)
	return l, err
}

// Mask returns text with its secrets masked.
func (m *Manager) Mask(text string) string { return m.Secrets.Text(text) }
