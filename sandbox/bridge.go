package sandbox

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// bridgeWindow is how much output of each stream may be on its way to a writer: enough
	// that the agent still reads while the writer writes.
	bridgeWindow = 4 << 20

	// bridgeChunk is written and confirmed at once: a small part of the window.
	bridgeChunk = 256 << 10
)

// errNoWriter is returned for a command of which one stream has a writer.
var errNoWriter = Errorf(InvalidArgument, "Give both, such as io.Discard for one.", "Stdout and Stderr need a writer each, or neither has one")

// A bridge hands the output of a run to the writers of its Command, each stream in its
// order. It stores at most a window of each: while a writer blocks, the run's program waits
// as it would for the reader of a pipe, and nothing else does.
type bridge struct {
	conn    *conn
	id      wire.ID
	streams [2]bridgeStream
	running sync.WaitGroup // the goroutines that write
}

// A bridgeStream is one of the two streams.
type bridgeStream struct {
	to io.Writer

	mu       sync.Mutex
	work     sync.Cond     // there is something to write, or the stream has ended
	queue    []byte        // to be written
	inFlight int           // bytes received and not confirmed
	received int64         // bytes in all
	written  int64         // bytes in all that were written or dropped
	ended    bool          // no more comes
	err      error         // of the writer, which gets nothing more
	changed  chan struct{} // closed at the next change of written; nil: no caller waits
	failed   chan struct{} // closed when err is set
}

func newBridge(c *conn, id wire.ID, stdout, stderr io.Writer) *bridge {
	b := &bridge{conn: c, id: id}
	for i, to := range []io.Writer{stdout, stderr} {
		s := &b.streams[i]
		s.to, s.failed = to, make(chan struct{})
		s.work.L = &s.mu
		b.running.Go(func() { b.copy(i) })
	}
	return b
}

// accept takes output of the agent. It never waits for a writer.
func (b *bridge) accept(i int, p []byte) error {
	s := &b.streams[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight += len(p); s.inFlight > bridgeWindow {
		return wire.Violation("output of %d bytes beyond the window of %d", s.inFlight, bridgeWindow)
	}
	s.received += int64(len(p))
	s.queue = append(s.queue, p...)
	s.work.Signal()
	return nil
}

// end says that no more comes. What has come is still written.
func (b *bridge) end() {
	if b == nil {
		return
	}
	for i := range b.streams {
		s := &b.streams[i]
		s.mu.Lock()
		s.ended = true
		s.work.Signal()
		s.mu.Unlock()
	}
}

// copy writes one stream.
func (b *bridge) copy(i int) {
	s := &b.streams[i]
	spare := make([]byte, 0, bridgeChunk)
	for p := s.next(spare); p != nil; p = s.next(spare) {
		for rest := p; len(rest) > 0; {
			n := min(len(rest), bridgeChunk)
			b.write(i, rest[:n])
			rest = rest[n:]
		}
		spare = p[:0]
	}
}

// next returns what is to be written, nil at the end. The queue continues in spare.
func (s *bridgeStream) next(spare []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		if s.ended {
			return nil
		}
		s.work.Wait()
	}
	p := s.queue
	s.queue = spare
	return p
}

// write writes a piece and confirms it. After an error of the writer, the agent is told
// that the stream has no reader any more.
func (b *bridge) write(i int, p []byte) {
	s := &b.streams[i]
	if s.err == nil { // which only this goroutine sets
		if _, err := s.to.Write(p); err != nil {
			s.fail(err)
			b.confirm(i, wire.NoMore)
		}
	}
	s.settle(len(p))
	if s.err == nil {
		b.confirm(i, uint32(len(p)))
	}
}

// confirm sends an OutputTaken. That of a broken stream is lost with its run.
func (b *bridge) confirm(i int, n uint32) {
	var taken [2]uint32
	taken[i] = n
	b.conn.Send(wire.AppendTaken(nil, b.id, taken))
}

func (s *bridgeStream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.failed)
}

// settle records that bytes were written or dropped. Their room is counted as free before
// the agent is told.
func (s *bridgeStream) settle(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight -= n
	s.written += int64(n)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// await returns when all that has been received is written, or ctx ends.
func (s *bridgeStream) await(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for until := s.received; s.written < until; {
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return s.err
}

// Delivered returns when the writers of the command have all output that has come so far,
// after the end of the run all that the command printed, or when ctx ends. The error is the
// first of a writer.
func (r *Run) Delivered(ctx context.Context) error {
	if r.bridge == nil {
		return nil
	}
	return errors.Join(r.bridge.streams[0].await(ctx), r.bridge.streams[1].await(ctx))
}

// Unread returns a channel that is closed when the writer of a stream has failed: the
// program writes to a closed pipe from then on. It is nil without writers.
func (r *Run) Unread(s Stream) <-chan struct{} {
	if r.bridge == nil {
		return nil
	}
	return r.bridge.streams[streamIndex(s)].failed
}

func streamIndex(s Stream) int {
	if s == Stderr {
		return 1
	}
	return 0
}
