//go:build linux

package agent

import (
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// pump copies the output streams of a run to the host, each read in one frame. One reader
// has both pipes and reads them in the order in which they became readable, so a program
// that writes to one and then to the other is recorded in this order, however late the
// reader gets a processor. What one stream prints until it is read is read at once, though:
// of three writes that alternate before the first is read, the third is read with the first.
type pump struct {
	run     *run
	poll    *os.File // an epoll instance that lists the readable sources, the first one first
	sources []*source
	open    atomic.Int32  // how many sources have not ended
	flushed chan struct{} // receives the answer to a flush
	flushes atomic.Bool   // a flush waits for sources with a window
	closed  chan struct{} // closed when the last byte is sent
}

// source is a pipe or terminal that a run prints to.
type source struct {
	kind   wire.Kind
	nth    int // of its pump's
	file   *os.File
	fd     int
	tty    bool
	passed int  // bytes copied, until the pipe is enlarged
	wide   bool // the pipe is enlarged, or cannot be

	window *outWindow // nil: the host accepts everything
}

// frames are buffers with room for a frame's header in front of the output. A pump that
// waits for output holds none.
var frames = sync.Pool{New: func() any { return new([wire.HeaderLen + wire.MaxPayload]byte) }}

type frameBuf = *[wire.HeaderLen + wire.MaxPayload]byte

// newPump returns a pump without sources. Its run is set before copy is called.
func newPump() (*pump, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fd, true) // so that it uses the runtime's poller
	poll := os.NewFile(uintptr(fd), "epoll")
	if err := poll.SetReadDeadline(time.Time{}); err != nil { // the poller has no room: copy could not wait
		poll.Close()
		return nil, err
	}
	return &pump{poll: poll, flushed: make(chan struct{}, 1), closed: make(chan struct{})}, nil
}

// add adds a source, which close closes, also after an error.
func (p *pump) add(kind wire.Kind, f *os.File, tty bool) error {
	s := &source{kind: kind, nth: len(p.sources), file: f, tty: tty}
	p.sources = append(p.sources, s)
	p.open.Add(1)
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { s.fd = int(fd) })
	}
	if err != nil {
		return err
	}
	raw, err = p.poll.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(epoll uintptr) { err = s.watch(int(epoll), unix.EPOLL_CTL_ADD) }); e != nil {
		return e
	}
	return err
}

// watch makes an epoll instance list a source when it is readable. It is listed once: after
// the source is read, watch appends it to the list again as soon as there is more.
func (s *source) watch(epoll, op int) error {
	return unix.EpollCtl(epoll, op, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(s.nth)})
}

// close closes all descriptors. While copy runs, only copy may call it: to end copy, close poll.
func (p *pump) close() {
	p.poll.Close()
	for _, s := range p.sources {
		s.file.Close()
	}
}

// copy runs until no process holds the pipes or terminal any more. A terminal reports that
// by an error.
func (p *pump) copy() {
	defer func() {
		close(p.closed)
		runtime.Gosched() // let the run continue, which may wait for this alone
		p.close()
	}()
	raw, err := p.poll.SyscallConn()
	if err != nil {
		return
	}
	for p.open.Load() > 0 {
		err := raw.Read(p.readable)
		switch {
		case os.IsTimeout(err):
			p.answerFlush()
		case err != nil:
			return
		}
	}
}

// readable reads each readable source once. It reports false if there is none.
func (p *pump) readable(epoll uintptr) bool {
	var list [2]unix.EpollEvent
	n, err := unix.EpollWait(int(epoll), list[:], 0)
	if err != nil {
		return err == unix.EINTR
	}
	for _, e := range list[:n] {
		if s := p.sources[e.Fd]; s.window == nil {
			p.pass(int(epoll), s)
		} else {
			p.passWithin(int(epoll), s)
		}
	}
	if p.flushes.Load() && !p.owes() {
		p.flushes.Store(false)
		p.flushed <- struct{}{}
	}
	return n > 0
}

// pass reads a source once and sends what it has read. It watches the source again before it
// sends: then the host may make the command print more, which must be listed in order.
func (p *pump) pass(epoll int, s *source) {
	buf := frames.Get().(frameBuf)
	defer frames.Put(buf)
	n, err := s.read(buf, wire.MaxPayload)
	if err != nil && err != unix.EAGAIN {
		s.file.Close()
		p.open.Add(-1)
		return
	}
	s.watch(epoll, unix.EPOLL_CTL_MOD)
	p.send(s, buf, n)
}

// read reads a source once, behind the room for a frame's header. The error is io.EOF at the end.
func (s *source) read(buf frameBuf, most int) (n int, err error) {
	for {
		n, err = unix.Read(s.fd, buf[wire.HeaderLen:wire.HeaderLen+most])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// send sends what was read.
func (p *pump) send(s *source, buf frameBuf, n int) {
	if n > 0 {
		p.run.print(s.kind, buf[:wire.HeaderLen+n])
		s.widen(n)
	}
}

const (
	// widePipe is the capacity of a pipe that carries much output, instead of 64 KiB: the
	// writer then waits less often for the agent. It is not used for every pipe, since
	// the kernel bounds the total capacity of all pipes of a user, across all boxes.
	widePipe = 256 << 10

	// widenAfter is how many bytes count as much output.
	widenAfter = 1 << 20
)

// widen counts the bytes copied, and enlarges a pipe that carries much.
func (s *source) widen(n int) {
	if s.wide || s.tty {
		return
	}
	if s.passed += n; s.passed >= widenAfter {
		s.wide = true
		size := widePipe
		if s.window != nil {
			size = bridgePipe
		}
		unix.FcntlInt(uintptr(s.fd), unix.F_SETPIPE_SZ, size) // on failure the pipe stays as it is
	}
}

// print sends output of the run. frame has room for the header in front of it.
func (r *run) print(kind wire.Kind, frame []byte) {
	if r.persistent != nil {
		r.agent.persistence.print(r.persistent, kind, frame[wire.HeaderLen:])
		return
	}
	wire.Put(frame, kind, r.id, len(frame)-wire.HeaderLen)
	r.send(frame) // on an error the pipe is still drained
}

// flush returns when all that is in the pipes now is sent, or they are closed. It
// interrupts copy by the read deadline, since only copy may read.
func (p *pump) flush() {
	p.interrupt()
	select {
	case <-p.flushed:
	case <-p.closed:
	}
}

func (p *pump) interrupt() { p.poll.SetReadDeadline(time.Unix(1, 0)) }

// answerFlush sends as many bytes as the pipes hold and no more; of a terminal, as many
// as it can hold. A process that prints forever must not keep its run from ending.
func (p *pump) answerFlush() {
	if len(p.sources) > 0 && p.sources[0].window != nil {
		p.poll.SetReadDeadline(time.Time{})
		p.owe()
		p.flushes.Store(true) // readable answers it
		return
	}
	buf := frames.Get().(frameBuf)
	defer frames.Put(buf)
	for _, s := range p.sources {
		have, _ := s.unread()
		for have > 0 {
			n, err := s.read(buf, min(have, wire.MaxPayload))
			if err != nil {
				break // pass sees an end too
			}
			p.send(s, buf, n)
			have -= n
		}
	}
	p.poll.SetReadDeadline(time.Time{})
	p.flushed <- struct{}{}
}

// unread returns how many bytes a source holds, or can hold. It fails if the source is closed.
func (s *source) unread() (n int, err error) {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := raw.Control(func(fd uintptr) {
		if n = ttyBuffer; !s.tty {
			n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	}); e != nil {
		return 0, e
	}
	return n, err
}
