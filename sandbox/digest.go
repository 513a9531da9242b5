package sandbox

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// digestQueue is how many bytes the summariser may be behind the run. Beyond that the run's
// output waits.
const digestQueue = 1 << 20

// digestBatch is how many queued bytes wake the summariser: its result is not needed before
// the run ends.
const digestBatch = digestQueue / 4

// A digester summarises the output of a run while it runs, once there is so much that it needs a
// summary. It gets the output in the order of the log, so that both number the same lines.
type digester struct {
	above   int // output of more bytes needs a summary
	cmd     string
	want    string
	mask    func(string) string
	longest int
	merger  redact.Merger
	report  func(text string) // called with the summary
	logger  *slog.Logger

	early   redact.Pieces // the output while it is small
	printed int           // its size
	reading bool          // the output is large, and the reader goroutine runs

	mu      sync.Mutex
	work    sync.Cond     // signalled when there is a batch to read, or the output ended
	room    sync.Cond     // signalled when the queue was emptied
	queue   redact.Pieces // output to be read
	over    bool          // the output ended
	exit    summary.Exit  // of the run, once over
	done    chan struct{} // closed when all output is read
	written summary.Digest
}

func newDigester(r *Run) *digester {
	b, c := r.Box, r.Command
	d := &digester{
		above: c.SummarizeAbove, cmd: c.Cmd, want: c.Want, mask: b.secrets.Text, longest: b.secrets.Longest(), merger: redact.Merger{Redactor: b.secrets}, logger: b.logger, done: make(chan struct{}),
		report: func(text string) { b.history.summarize(r.ID, text) },
	}
	d.work.L, d.room.L = &d.mu, &d.mu
	return d
}

// write adds output of a stream. The small output of most commands is only stored.
func (d *digester) write(stream int, p []byte) {
	if d.above <= 0 {
		return
	}
	if !d.reading {
		if d.printed += len(p); d.printed <= d.above {
			d.early.Add(stream, p)
			return
		}
		d.reading = true
		d.queue, d.early = d.early, redact.Pieces{}
		go d.read()
	}
	d.enqueue(stream, p)
}

// enqueue queues output for the reader goroutine. It blocks while the queue is full.
func (d *digester) enqueue(stream int, p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := d.queue.Size(); n > 0 && n+len(p) > digestQueue; n = d.queue.Size() {
		d.room.Wait()
	}
	d.queue.Add(stream, p)
	if d.queue.Size() >= digestBatch {
		d.work.Signal()
	}
}

// end ends the output. It does not block.
func (d *digester) end(e Exit) {
	if !d.reading {
		if !d.early.Mixed() || !e.failed() {
			d.early = redact.Pieces{} // else Interleaved returns it
		}
		close(d.done)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.exit = summary.Exit{Code: e.Code, Signal: e.Signal, TimedOut: e.Status == TimedOut}
	d.work.Signal()
}

// read reads the output until its end and makes the digest. It ends some milliseconds after the
// run; only Digest and Summary wait for it.
func (d *digester) read() {
	defer close(d.done)
	s := summary.New(summary.Options{Cmd: d.cmd, Want: d.want, Mask: d.mask, Longest: d.longest})
	sound := true
	var batch redact.Pieces
	for more := true; more; {
		batch, more = d.next(batch)
		// After a panic the output is still read, since the run waits for room.
		sound = sound && d.try(func() {
			text, raw := d.merger.Next(&batch, !more)
			s.Write(text)
			s.Hidden(raw - len(text))
		})
	}
	if sound && d.try(func() { d.written = s.Digest(d.exit) }) {
		d.report(d.written.Summary)
	}
}

// try calls f and reports whether it returned without a panic. Output is untrusted: if it makes
// a rule of the summariser panic, it loses its summary, and the server goes on.
func (d *digester) try(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			d.logger.Error("the summariser panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}

// next waits for a batch and exchanges the queue for an empty buffer. It reports whether more
// output may come.
func (d *digester) next(empty redact.Pieces) (batch redact.Pieces, more bool) {
	empty.Reset()
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.queue.Size() < digestBatch && !d.over {
		d.work.Wait()
	}
	batch = d.queue
	d.queue = empty
	d.room.Broadcast()
	return batch, !d.over
}

// Digest returns the digest of the output of a run that has ended. It reports false if the
// output was not above Command.SummarizeAbove. It may wait some milliseconds for the reader
// goroutine.
func (r *Run) Digest(ctx context.Context) (summary.Digest, bool) {
	if !r.ended() {
		return summary.Digest{}, false
	}
	select {
	case <-r.digest.done:
		return r.digest.written, r.digest.written.Summary != ""
	case <-ctx.Done():
		return summary.Digest{}, false
	}
}

// Summary returns the built-in summary of an owner's run that has ended: "" if its output
// was not above Command.SummarizeAbove, or if the run is no longer in the history.
func (m *Manager) Summary(ctx context.Context, owner Owner, id string) string {
	return m.history.summary(ctx, owner, id)
}
