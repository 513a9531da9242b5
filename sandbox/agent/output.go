//go:build linux

package agent

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// pump carries one output stream of a run to the host, each read in one frame.
type pump struct {
	run     *run
	kind    wire.Kind
	file    *os.File
	tty     bool
	passed  int           // bytes, until the pipe is wide
	wide    bool          // it is, or cannot be
	flushed chan struct{} // answers a flush
	closed  chan struct{} // closed when the last byte is sent
}

// A frame's header is put in front of where the output is read to. A pump that
// waits holds no buffer.
var frames = sync.Pool{New: func() any { return new([wire.HeaderLen + wire.MaxPayload]byte) }}

type frameBuf = *[wire.HeaderLen + wire.MaxPayload]byte

func newPump(r *run, kind wire.Kind, f *os.File) *pump {
	return &pump{run: r, kind: kind, file: f, tty: r.tty, flushed: make(chan struct{}, 1), closed: make(chan struct{})}
}

// copy runs until nobody holds the pipe any more, or the terminal, which says
// so by an error.
func (p *pump) copy() {
	defer func() {
		close(p.closed)
		runtime.Gosched() // to the run, which may wait for nothing else
		p.file.Close()
	}()
	raw, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	for {
		end := false
		err := raw.Read(func(fd uintptr) (ready bool) {
			n, err := p.pass(int(fd), wire.MaxPayload)
			end = n == 0 && err == nil || err != nil && err != unix.EAGAIN
			return err != unix.EAGAIN
		})
		switch {
		case os.IsTimeout(err):
			p.answerFlush(raw)
		case err != nil || end:
			return
		}
	}
}

// pass reads once and sends what there is.
func (p *pump) pass(fd, most int) (n int, err error) {
	buf := frames.Get().(frameBuf)
	defer frames.Put(buf)
	for {
		n, err = unix.Read(fd, buf[wire.HeaderLen:wire.HeaderLen+most])
		if err != unix.EINTR {
			break
		}
	}
	if n <= 0 {
		return 0, err
	}
	p.run.print(p.kind, buf[:wire.HeaderLen+n])
	p.widen(fd, n)
	return n, nil
}

const (
	// widePipe is what a pipe holds through which much goes, in place of 64 KiB:
	// whoever fills it waits less often for us. A pipe of all runs could not have
	// it, since the kernel bounds what all pipes of a user hold, of all boxes.
	widePipe = 256 << 10

	// widenAfter is when there is much.
	widenAfter = 1 << 20
)

// widen counts what has passed, and makes the pipe of a flood a wide one.
func (p *pump) widen(fd, n int) {
	if p.wide || p.tty {
		return
	}
	if p.passed += n; p.passed >= widenAfter {
		p.wide = true
		unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) // where it may not it stays as it is
	}
}

// print sends what the run printed, which stands behind the room for a header.
func (r *run) print(kind wire.Kind, frame []byte) {
	if r.kept != nil {
		r.agent.keeper.print(r.kept, kind, frame[wire.HeaderLen:])
		return
	}
	wire.Put(frame, kind, r.id, len(frame)-wire.HeaderLen)
	r.agent.send(frame) // without a host we still drain
}

// flush returns when all that is in the pipe now is sent, or the pipe closed.
// It comes through the read deadline, since only the pump may read.
func (p *pump) flush() {
	p.file.SetReadDeadline(time.Unix(1, 0))
	select {
	case <-p.flushed:
	case <-p.closed:
	}
}

// answerFlush sends as much as the pipe holds and no more, or of a terminal as
// much as it can hold: a process that
// prints for ever must not keep its run from ending.
func (p *pump) answerFlush(raw interface{ Control(func(uintptr)) error }) {
	raw.Control(func(fd uintptr) {
		have := ttyBuffer
		if !p.tty {
			have, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
		for have > 0 {
			n, err := p.pass(int(fd), min(have, wire.MaxPayload))
			if n <= 0 || err != nil {
				return
			}
			have -= n
		}
	})
	p.file.SetReadDeadline(time.Time{})
	p.flushed <- struct{}{}
}
