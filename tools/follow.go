package tools

import (
	"context"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// burst is how long a call collects further output after the first that it
	// waited for, so that a burst of output is one reply.
	burst = 200 * time.Millisecond

	// pauseTime is how long a command must print nothing until a waiting call returns what it
	// printed before. A call for each line of a slow command would cost more than it tells.
	pauseTime = 2 * time.Second

	// foreignPoll is the interval at which a waiting call reads a log again while another
	// process writes to it.
	foreignPoll = time.Second
)

// waiting says what a call of logs waits for.
type waiting struct {
	limit    time.Duration
	untilEnd bool // for the end of the command only
}

// follow reads a page. While the command may print more it waits: for a match, or until it has
// printed something and then nothing for pauseTime, or more than a page holds.
func (s *Set) follow(ctx context.Context, owner sandbox.Owner, id string, q sandbox.LineQuery, wait waiting, progress func(string)) (logsResult, error) {
	deadline, cancel := context.WithTimeout(ctx, wait.limit)
	defer cancel()
	if run, err := s.Manager.Run(owner, id); err == nil && wait.limit > 0 {
		defer cancelOnSilence(run.Box, cancel)()
	}
	before, err := s.Manager.Record(owner, id)
	if err != nil {
		return logsResult{}, err
	}
	if wait.untilEnd {
		s.awaitEnd(deadline, owner, before, progress)
	}
	for f := (follower{q: q}); ; {
		v, err := s.lines(ctx, owner, id, f.q)
		if err != nil {
			return logsResult{}, err
		}
		f.see(v)
		changed := v.Record.Exit.Status != before.Exit.Status
		if wait.untilEnd || changed || settled(v, q) || f.enough(v) || deadline.Err() != nil {
			r := newLogsResult(v, q)
			// A call that waits for the end gets the summary also if the command had just ended.
			asksEnd := q.From == 0 && q.Match == nil && q.Bytes == endBytes || wait.limit > 0 && v.Page.Next > v.Count
			if (changed || asksEnd) && r.Status != sandbox.Running {
				r.Summary = s.Manager.Summary(ctx, owner, id)
			}
			return r, nil
		}
		if q.Match != nil { // do not search the same lines again
			f.q.From = max(f.q.From, min(v.Page.Next, v.Count+1))
			if f.q.From != q.From {
				f.q.FromByte = 0
			}
		}
		if f.await(deadline, v.Record, progress) {
			s.collect(deadline, owner, id, v.Record.Exit.Status)
		}
	}
}

// A follower knows what the pages of a waiting call have shown.
type follower struct {
	q     sandbox.LineQuery
	begun bool
	at    [2]int64  // the number and size of the last line shown
	came  bool      // there is output to return
	last  time.Time // when the last of it came
}

// see notes what a page shows. The first one has output to return if it has complete lines of the
// requested numbers; a later one if it has anything new.
func (f *follower) see(v sandbox.Lines) {
	var at [2]int64
	if n := len(v.Page.Lines); n > 0 {
		at = [2]int64{v.Page.Lines[n-1].Number, v.Page.Lines[n-1].Size}
	}
	switch {
	case !f.begun:
		f.came = f.q.From > 0 && v.Page.Next > f.q.From && len(v.Page.Lines) > 0
		f.last = time.Now().Add(-v.Quiet)
	case at != f.at:
		f.came = true
		f.last = time.Now()
	}
	f.begun, f.at = true, at
}

// enough reports whether a page is worth a reply while the command runs on.
func (f *follower) enough(v sandbox.Lines) bool {
	switch {
	case f.q.Match != nil:
		return v.Page.Matches > 0 || !v.Page.Searched
	case f.q.From > 0 && v.Page.Full:
		return true
	}
	return f.came && time.Since(f.last) >= pauseTime
}

// await waits until a record may have changed, or what was printed is worth a reply. It reports
// whether the record has changed.
func (f *follower) await(ctx context.Context, record sandbox.Record, progress func(string)) bool {
	if f.came && f.q.Match == nil {
		quiet, cancel := context.WithTimeout(ctx, pauseTime-time.Since(f.last))
		defer cancel()
		ctx = quiet
	}
	return awaitChange(ctx, record, progress)
}

// settled reports whether there is nothing to wait for. The end of a command is worth a reply,
// whatever it left behind; only a search goes on waiting for what the leftover processes print.
func settled(v sandbox.Lines, q sandbox.LineQuery) bool {
	return !v.Record.Open || v.Record.Exit.Status != sandbox.Running && q.Match == nil
}

// awaitEnd waits until a command has ended.
func (s *Set) awaitEnd(ctx context.Context, owner sandbox.Owner, record sandbox.Record, progress func(string)) {
	for record.Open && record.Exit.Status == sandbox.Running && ctx.Err() == nil {
		if record.Changed != nil {
			record.Changed = record.Done // nothing else is of interest
		}
		awaitChange(ctx, record, progress)
		var err error
		if record, err = s.Manager.Record(owner, record.ID); err != nil {
			return
		}
	}
}

// cancelOnSilence calls cancel when a box does not respond. The caller must call stop.
func cancelOnSilence(box *sandbox.Box, cancel func()) (stop func()) {
	silent, leave := box.Monitor()
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-silent:
			cancel()
		case <-over:
		}
	})
	return func() {
		close(over)
		watch.Wait()
		leave()
	}
}

// lines reads a page of a command's log, for at most searchTime, also after the call was
// cancelled: a call that waited returns its last page.
func (s *Set) lines(ctx context.Context, owner sandbox.Owner, id string, q sandbox.LineQuery) (sandbox.Lines, error) {
	search, cancel := context.WithTimeout(context.WithoutCancel(ctx), searchTime)
	defer cancel()
	return s.Manager.Lines(search, owner, id, q)
}

// awaitChange waits until a record may have changed. It reports whether it has.
func awaitChange(ctx context.Context, record sandbox.Record, progress func(string)) bool {
	var poll <-chan time.Time
	if record.Changed == nil {
		poll = time.After(foreignPoll)
	}
	tick := time.NewTicker(nextProgress)
	defer tick.Stop()
	for {
		select {
		case <-record.Changed:
			return true
		case <-record.Over:
			return true
		case <-poll:
			return false
		case <-ctx.Done():
			return false
		case <-tick.C:
			if progress != nil {
				progress(string(record.Exit.Status))
			}
		}
	}
}

// collect waits for the end of a burst of output, or of the command.
func (s *Set) collect(ctx context.Context, owner sandbox.Owner, id string, status sandbox.Status) {
	record, err := s.Manager.Record(owner, id)
	if err != nil || record.Exit.Status != status || record.Changed == nil {
		return
	}
	ended := record.Over
	if status == sandbox.Running {
		ended = record.Done
	}
	over := time.NewTimer(burst)
	defer over.Stop()
	select {
	case <-ended:
	case <-over.C:
	case <-ctx.Done():
	}
}
