//go:build linux

package agent

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// outWindow is the window of one stream of a run: how much output the host still accepts.
// Its source is read only while that is more than nothing. A source that may not be read is
// parked: the epoll instance does not list it, and nothing waits for it.
type outWindow struct {
	mu       sync.Mutex // held while its source is read, so that the source is not closed meanwhile
	source   *source
	poll     *os.File // the pump's
	size     int
	credit   int  // bytes that may be sent
	owed     int  // bytes in the pipe when a flush began, that are not read yet
	parked   bool // the source is not watched
	closed   bool // the source is closed
	released bool // what exceeds the window is dropped
	dropping bool // something was dropped, so all that follows is: a stream has no holes
}

// limit gives each source a window. It is called before copy.
func (p *pump) limit(size int) {
	for _, s := range p.sources {
		s.window = &outWindow{source: s, poll: p.poll, size: size, credit: size}
	}
}

// passWithin is pass for a source with a window.
func (p *pump) passWithin(epoll int, s *source) {
	buf := frames.Get().(frameBuf)
	defer frames.Put(buf)
	if n := s.window.read(p, buf); n > 0 {
		p.run.print(s.kind, buf[:wire.HeaderLen+n])
	}
	s.window.rearm(epoll)
}

// read reads the source once, as much as the window admits, and returns how much of it is
// to be sent.
func (w *outWindow) read(p *pump, buf frameBuf) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.most()
	if w.closed || most == 0 {
		return 0
	}
	n, err := w.source.read(buf, most)
	if err != nil && err != unix.EAGAIN {
		p.end(w.source)
		return 0
	}
	w.source.widen(n)
	w.owed = max(0, w.owed-n)
	if w.dropping = w.dropping || n > w.credit; w.dropping {
		return 0
	}
	w.credit -= n
	return n
}

// rearm watches the source again, or parks it.
func (w *outWindow) rearm(epoll int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked = w.most() == 0; !w.parked && !w.closed {
		w.source.watch(epoll, unix.EPOLL_CTL_MOD)
	}
}

// most is how many bytes may be read now. The caller holds w.mu.
func (w *outWindow) most() int {
	if w.released {
		return wire.MaxPayload
	}
	return min(w.credit, wire.MaxPayload)
}

// end closes a source with a window, once. The caller holds its lock.
func (p *pump) end(s *source) {
	w := s.window
	if w.closed {
		return
	}
	w.closed, w.owed = true, 0
	s.file.Close()
	p.open.Add(-1)
}

// taken carries out an OutputTaken.
func (r *run) taken(f wire.Frame) error {
	taken, err := wire.Taken(f)
	if err != nil {
		return err
	}
	if r.host == nil {
		return wire.Violation("%v for a run without a window", f.Kind)
	}
	for i, n := range taken {
		s := r.out.sources[i]
		if n == wire.NoMore {
			r.out.refuse(s)
		} else if err := s.window.open(int(n)); err != nil {
			return err
		}
	}
	return nil
}

// refuse closes a source whose output the host does not want. After the last one it ends
// copy.
func (p *pump) refuse(s *source) {
	s.window.mu.Lock()
	defer s.window.mu.Unlock()
	p.end(s)
	switch {
	case p.open.Load() == 0:
		p.poll.Close()
	case p.flushes.Load():
		p.interrupt() // it may have waited for this source alone
	}
}

// open opens the window by n bytes.
func (w *outWindow) open(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > w.size-w.credit {
		return wire.Violation("%v of %d bytes, where %d are on their way", wire.OutputTaken, n, w.size-w.credit)
	}
	w.credit += n
	w.resume()
	return nil
}

// release drops from now on what exceeds the windows.
func (p *pump) release() {
	for _, s := range p.sources {
		if w := s.window; w != nil {
			w.mu.Lock()
			w.released = true
			w.resume()
			w.mu.Unlock()
		}
	}
}

// resume watches a parked source again, if it may be read. The caller holds w.mu.
func (w *outWindow) resume() {
	if !w.parked || w.closed || w.most() == 0 {
		return
	}
	w.parked = false
	if raw, err := w.poll.SyscallConn(); err == nil {
		raw.Control(func(epoll uintptr) { w.source.watch(int(epoll), unix.EPOLL_CTL_MOD) })
	}
}

// owe records what the pipes hold: all of it is sent before the flush is answered.
func (p *pump) owe() {
	for _, s := range p.sources {
		s.window.mu.Lock()
		if !s.window.closed {
			s.window.owed, _ = s.unread()
		}
		s.window.mu.Unlock()
	}
}

// owes reports whether some of that is not sent yet.
func (p *pump) owes() bool {
	for _, s := range p.sources {
		s.window.mu.Lock()
		owed := s.window.owed
		s.window.mu.Unlock()
		if owed > 0 {
			return true
		}
	}
	return false
}

// bridgePipe is the capacity of a pipe of a run with a window, once it carries much: as
// much as a process without privileges may ask for. Then a program, the agent and the host
// wait less often for each other where processors are scarce. See widePipe.
const bridgePipe = 1 << 20

// widen enlarges a pipe.
func widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, bridgePipe) }) // on failure the pipe stays as it is
	}
}
