package sandbox

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// digestQueue is how far the summariser may be behind the run before the run's
// output waits for it.
const digestQueue = 1 << 20

// digestBatch is how much must wait before the summariser is woken: nobody asks
// for it before the end.
const digestBatch = digestQueue / 4

// A digester reads a run's output beside the run, once there is so much of it
// that it needs a summary. It is fed in the order in which the log was written,
// so that both count the same lines.
type digester struct {
	above   int // output of up to so many bytes needs none
	cmd     string
	mask    func(string) string
	longest int
	merger  redact.Merger
	tell    func(text string) // told the summary when there is one
	logger  *slog.Logger

	early   redact.Pieces // the output as long as it is small
	printed int           // how much that is
	reading bool          // it no longer is

	mu      sync.Mutex
	work    sync.Cond     // there is a batch to read, or nothing more
	room    sync.Cond     // what there was is being read
	queue   redact.Pieces // output that waits to be read
	over    bool          // no more comes
	exit    summary.Exit  // of the run, when over
	done    chan struct{} // closed when all is read
	written summary.Digest
}

func newDigester(r *Run) *digester {
	b, c := r.Box, r.Command
	d := &digester{
		above: c.SummarizeAbove, cmd: c.Cmd, mask: b.secrets.Text, longest: b.secrets.Longest(), merger: redact.Merger{Redactor: b.secrets}, logger: b.logger, done: make(chan struct{}),
		tell: func(text string) { b.history.summarize(r.ID, text) },
	}
	d.work.L, d.room.L = &d.mu, &d.mu
	return d
}

// write takes a piece of a stream's output. Most commands print little, and for
// them nothing is done but to keep it.
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

// end says how the run ended. It does not wait.
func (d *digester) end(e Exit) {
	if !d.reading {
		d.early = redact.Pieces{}
		close(d.done)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	d.exit = summary.Exit{Code: e.Code, Signal: e.Signal, TimedOut: e.Status == TimedOut}
	d.work.Signal()
}

// read reads until the end, and leaves only the digest behind. It ends by itself
// some milliseconds after the run, and nothing waits for it but Digest.
func (d *digester) read() {
	defer close(d.done)
	s := summary.New(summary.Options{Cmd: d.cmd, Mask: d.mask, Longest: d.longest})
	sound := true
	var batch redact.Pieces
	for more := true; more; {
		batch, more = d.next(batch)
		// What nobody summarises any more is taken all the same: the run waits
		// for room.
		sound = sound && d.try(func() {
			text, raw := d.merger.Next(&batch, !more)
			s.Write(text)
			s.Hidden(raw - len(text))
		})
	}
	if sound && d.try(func() { d.written = s.Digest(d.exit) }) {
		d.tell(d.written.Summary)
	}
}

// try reports whether f came to its end. Output is a stranger's, and one that
// breaks a rule of ours must cost its summary and not the server.
func (d *digester) try(f func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			d.logger.Error("the summariser broke down", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
	return true
}

// next swaps a buffer for all that waits, and reports whether more may come.
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

// Digest returns what matters of the output of a run that has ended, and
// whether there is any to tell: of an output above Command.Whole.
// It may wait a few milliseconds until all of it has been read.
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
