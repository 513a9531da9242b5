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

// pump copies one output stream of a run to the host, each read in one frame.
type pump struct {
	run     *run
	kind    wire.Kind
	file    *os.File
	tty     bool
	passed  int           // bytes copied, until the pipe is enlarged
	wide    bool          // the pipe is enlarged, or cannot be
	flushed chan struct{} // receives the answer to a flush
	closed  chan struct{} // closed when the last byte is sent
}

// frames are buffers with room for a frame's header in front of the output. A pump that
// waits for output holds none.
var frames = sync.Pool{New: func() any { return new([wire.HeaderLen + wire.MaxPayload]byte) }}

type frameBuf = *[wire.HeaderLen + wire.MaxPayload]byte

func newPump(r *run, kind wire.Kind, f *os.File) *pump {
	return &pump{run: r, kind: kind, file: f, tty: r.tty, flushed: make(chan struct{}, 1), closed: make(chan struct{})}
}

// copy runs until no process holds the pipe or terminal any more. A terminal reports that
// by an error.
func (p *pump) copy() {
	defer func() {
		close(p.closed)
		runtime.Gosched() // let the run continue, which may wait for this alone
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

// pass reads once and sends what it has read.
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
	// widePipe is the capacity of a pipe that carries much output, instead of 64 KiB: the
	// writer then waits less often for the agent. It is not used for every pipe, since
	// the kernel bounds the total capacity of all pipes of a user, across all boxes.
	widePipe = 256 << 10

	// widenAfter is how many bytes count as much output.
	widenAfter = 1 << 20
)

// widen counts the bytes copied, and enlarges a pipe that carries much.
func (p *pump) widen(fd, n int) {
	if p.wide || p.tty {
		return
	}
	if p.passed += n; p.passed >= widenAfter {
		p.wide = true
		unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, widePipe) // on failure the pipe stays as it is
	}
}

// print sends output of the run. frame has room for the header in front of it.
func (r *run) print(kind wire.Kind, frame []byte) {
	if r.persistent != nil {
		r.agent.persistence.print(r.persistent, kind, frame[wire.HeaderLen:])
		return
	}
	wire.Put(frame, kind, r.id, len(frame)-wire.HeaderLen)
	r.agent.out.send(frame) // on an error the pipe is still drained
}

// flush returns when all that is in the pipe now is sent, or the pipe is closed. It
// interrupts the pump by the read deadline, since only the pump may read.
func (p *pump) flush() {
	p.file.SetReadDeadline(time.Unix(1, 0))
	select {
	case <-p.flushed:
	case <-p.closed:
	}
}

// answerFlush sends as many bytes as the pipe holds and no more; of a terminal, as many
// as it can hold. A process that prints forever must not keep its run from ending.
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
