//go:build linux

package agent

import (
	"encoding/binary"
	"os"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// stdin copies a run's input to its pipe. Input that has arrived is buffered here, at
// most one window, so the read loop never waits for a command that does not read.
type stdin struct {
	run  *run
	file *os.File

	mu      sync.Mutex
	wake    *sync.Cond
	pending []byte
	spare   []byte // of a run with a window: the buffer that becomes pending next
	size    int    // of the window
	window  int    // number of bytes that the host may still send
	stale   int    // number of unconfirmed bytes that an earlier host sent
	ended   bool

	written int  // bytes, until the pipe is enlarged
	wide    bool // it is
}

func newStdin(r *run, w *os.File, window int) *stdin {
	s := &stdin{run: r, file: w, size: window, window: window}
	s.wake = sync.NewCond(&s.mu)
	go s.copy()
	return s
}

// accept buffers input. Input for a run without any, or beyond the window, is a
// violation.
func (s *stdin) accept(p []byte) error {
	if s.file == nil {
		return wire.Violation("%v for a run without input", wire.Stdin)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > s.window {
		return wire.Violation("%v of %d bytes is larger than the window of %d", wire.Stdin, len(p), s.window)
	}
	s.window -= len(p)
	if !s.ended {
		s.pending = append(s.pending, p...)
		s.wake.Signal()
	}
	return nil
}

// end closes the input after all pending bytes are written.
func (s *stdin) end() {
	if s.file == nil {
		return
	}
	s.mu.Lock()
	s.ended = true
	s.wake.Signal()
	s.mu.Unlock()
}

// stop closes the input even if pending bytes cannot be written.
func (s *stdin) stop() {
	s.end()
	if s.file != nil {
		s.file.SetWriteDeadline(time.Unix(1, 0))
	}
}

// copy writes pending bytes until the input ends. After the command has closed its input,
// the rest is confirmed without being written, as a pipe would drop it.
func (s *stdin) copy() {
	defer s.file.Close()
	broken := false
	for {
		p := s.next()
		if p == nil {
			return
		}
		for rest := p; len(rest) > 0; {
			n := min(len(rest), stdinPiece)
			if !broken {
				_, err := s.file.Write(rest[:n])
				broken = err != nil
			}
			s.confirm(n)
			rest = rest[n:]
		}
		s.passed(p)
	}
}

// passed counts input that was written. The pipe of a run that gets much is enlarged, and
// its buffers are used again.
func (s *stdin) passed(p []byte) {
	if s.run.host == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = p[:0]
	if s.written += len(p); !s.wide && s.written >= widenAfter {
		s.wide = true
		widen(s.file)
	}
}

// stdinPiece is confirmed at once. It is as large as the smaller window: only a run with
// a larger one can be sent more meanwhile.
const stdinPiece = wire.StdinWindow

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
	s.pending, s.spare = s.spare, nil
	return p
}

// confirm sends StdinTaken, but not for bytes that an earlier host sent, and not after
// Exit. The run's lock keeps the next host from attaching in between.
func (s *stdin) confirm(n int) {
	r := s.run
	r.do(func() {
		n = s.reopen(n)
		if n > 0 && !r.exitSent {
			var count [4]byte
			binary.BigEndian.PutUint32(count[:], uint32(n))
			r.send(wire.Append(nil, wire.StdinTaken, r.id, count[:]))
		}
	})
}

// reopen opens the window by n bytes, less those that an earlier host sent. It returns
// how many of the n bytes are to be confirmed to this host.
func (s *stdin) reopen(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := min(n, s.stale)
	s.stale -= old
	n -= old
	s.window += n
	return n
}

// renew gives the next host a whole window. Bytes that the last host sent are still
// written, and the next host gets no confirmation of them.
func (s *stdin) renew() {
	if s.file == nil {
		return
	}
	s.run.do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stale += s.size - s.window
		s.window = s.size
	})
}

// open reports whether a host may send input.
func (s *stdin) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file != nil && !s.ended
}
