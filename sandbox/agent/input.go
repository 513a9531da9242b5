//go:build linux

package agent

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// stdin carries a run's input to its pipe. What has arrived waits here, never
// more than the window, so that the read loop does not wait for a command that
// does not read.
type stdin struct {
	run  *run
	file *os.File

	mu      sync.Mutex
	wake    *sync.Cond
	pending []byte
	window  int // bytes that the host may still send
	stale   int // of those not confirmed, how many came from a host that is gone
	ended   bool
}

func newStdin(r *run, w *os.File) *stdin {
	s := &stdin{run: r, file: w, window: wire.StdinWindow}
	s.wake = sync.NewCond(&s.mu)
	go s.copy()
	return s
}

// take stores what came. It is a violation where there is no input, or no room.
func (s *stdin) take(p []byte) error {
	if s.file == nil {
		return wire.Violation("Stdin for a run without any")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > s.window {
		return wire.Violation("Stdin of %d bytes, where the window is %d", len(p), s.window)
	}
	s.window -= len(p)
	if !s.ended {
		s.pending = append(s.pending, p...)
		s.wake.Signal()
	}
	return nil
}

// end closes the input when all that is pending is written.
func (s *stdin) end() {
	if s.file == nil {
		return
	}
	s.mu.Lock()
	s.ended = true
	s.wake.Signal()
	s.mu.Unlock()
}

// stop closes the input even where nobody takes what is pending.
func (s *stdin) stop() {
	s.end()
	if s.file != nil {
		s.file.SetWriteDeadline(time.Unix(1, 0))
	}
}

// copy writes what is pending. It ends with the input, or when nobody reads any
// more; then the rest is confirmed unread, as a pipe would drop it.
func (s *stdin) copy() {
	defer s.file.Close()
	broken := false
	for {
		p := s.next()
		if p == nil {
			return
		}
		if !broken {
			_, err := s.file.Write(p)
			broken = err != nil
		}
		s.confirm(len(p))
	}
}

func (s *stdin) next() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) == 0 {
		if s.ended {
			return nil
		}
		s.wake.Wait()
	}
	p := s.pending
	s.pending = nil
	return p
}

// confirm tells the host, unless it is not the one that sent the bytes, or the run
// is over for it. The run's mu keeps the next host from coming in between.
func (s *stdin) confirm(n int) {
	r := s.run
	r.mu.Lock()
	defer r.mu.Unlock()
	s.mu.Lock()
	old := min(n, s.stale)
	s.stale -= old
	n -= old
	s.window += n
	s.mu.Unlock()
	if n > 0 && !r.exitSent {
		var count [4]byte
		binary.BigEndian.PutUint32(count[:], uint32(n))
		r.agent.send(wire.Append(nil, wire.StdinTaken, r.id, count[:]))
	}
}

// renew gives the next host a window of its own. What the last one sent goes its
// way, and the next one hears nothing of it.
func (s *stdin) renew() {
	if s.file == nil {
		return
	}
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale += wire.StdinWindow - s.window
	s.window = wire.StdinWindow
}

// open reports whether a host may send anything.
func (s *stdin) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file != nil && !s.ended
}
