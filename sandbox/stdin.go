package sandbox

import (
	"context"
	"io"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// stdinChunk is small enough that a window holds several, so that the next one
// is on its way while the agent still writes the last.
const stdinChunk = 32 << 10

// feed carries the run's input to the agent, never more of it than the window
// allows. A Reader that blocks keeps this goroutine until it returns, beyond
// the end of the run; that is the caller's to end.
func (r *Run) feed(ctx context.Context) {
	buf := make([]byte, wire.HeaderLen+stdinChunk)
	for r.waitRoom(ctx) {
		n, err := r.Command.Stdin.Read(buf[wire.HeaderLen:])
		if ctx.Err() != nil {
			return
		}
		if n > 0 {
			r.owe(n)
			wire.Put(buf, wire.Stdin, r.wireID, n)
			if r.Box.send(buf[:wire.HeaderLen+n]) != nil {
				return // the box is lost, and its reader says so
			}
		}
		if err != nil {
			if err != io.EOF {
				r.Box.logger.Warn("standard input ended early", "exec", r.ID, "err", err)
			}
			r.Box.send(wire.Append(nil, wire.StdinClose, r.wireID, nil))
			return
		}
	}
}

// waitRoom waits until a chunk fits the window, or until the run has ended.
func (r *Run) waitRoom(ctx context.Context) bool {
	for {
		r.mu.Lock()
		fits := r.unacked+stdinChunk <= wire.StdinWindow
		r.mu.Unlock()
		if fits {
			return ctx.Err() == nil
		}
		select {
		case <-r.room:
		case <-ctx.Done():
			return false
		}
	}
}

// owe notes bytes that the agent is about to be sent.
func (r *Run) owe(n int) {
	r.mu.Lock()
	r.unacked += n
	r.mu.Unlock()
}
