// Package link is one connection from the host to the agent of a box: a byte stream
// on which both sides speak the protocol of package wire.
//
// A Link exchanges the first frames (Greet), reads frames and hands them to a handler
// (Serve), writes frames one at a time (Send), notices an agent that is silent or
// does not read, and ends with one recorded reason. It knows no box, no run and no
// log, never redials, and decides nothing by what a frame says except a Pong.
//
// The caller greets the agent first, then calls Serve once, in a goroutine of its own.
// Every Link is ended by Close or Detach, or ends by itself; Serve returns afterwards.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// helloTimeout is how long a launched agent may take to answer. It has
	// been started already, so this is a round trip on a busy machine.
	helloTimeout = 10 * time.Second

	// writeTimeout is how long an agent may leave a frame unread. Its read loop
	// never waits for a command, so only a broken agent comes near.
	writeTimeout = 5 * time.Second

	// DefaultLease is the silence after which an agent takes its host for lost, and
	// the host its agent.
	DefaultLease = 15 * time.Second
)

// Config configures a Link. The Link holds no lock while it calls Survives and Failed, but
// it does while it calls Active.
type Config struct {
	Lease     time.Duration // silence after which the link fails; 0: DefaultLease
	Heartbeat bool          // the stream can die without a sign, so the agent is pinged all the time

	// Active reports whether the agent is pinged where Heartbeat is not set: while
	// commands run, which only the caller knows. It must not call the Link. Nil: never.
	Active func() bool

	// Survives reports whether the agent may still be there, and accept another
	// connection, after the link failed for a reason. The link then detaches the stream
	// instead of closing it. Nil: no agent survives its link. Only the caller knows, as
	// the reasons of a stream are its backend's.
	Survives func(cause error) bool

	// Failed is called once if the link fails, before the stream is ended. It must not
	// block. Nil: the failure shows in End only.
	Failed func(End)
}

// How is the way in which a link ended.
type How int

// The ways in which a link ends.
const (
	Open     How = iota // it has not ended
	Closed              // by Close or Stop, and the agent with it
	Detached            // by Detach; the agent waits for another host
	Broken              // it failed, and the agent may wait for another host
	Failed              // it failed, and the agent is lost
)

// An End is how and why a link ended. The first reason wins.
type End struct {
	How   How
	Cause error // nil of a Close without a reason
}

// A detacher is a stream that can end without its agent.
type detacher interface{ Detach() error }

// A Link is a connection to an agent. It is safe for use by several goroutines.
type Link struct {
	config Config
	stream io.ReadWriteCloser
	reader *wire.Reader // used by Greet, then by Serve

	wmu   sync.Mutex // held for the write of one frame
	beat  heartbeat
	later queue // of frames that the reader goroutine sends

	emu    sync.Mutex    // guards that ending is closed once
	ending chan struct{} // closed when end is set
	end    End           // not changed after ending is closed
}

// New returns a Link on a stream. No frame is sent before Greet.
func New(stream io.ReadWriteCloser, c Config) *Link {
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	l := &Link{config: c, stream: stream, reader: wire.NewReader(stream, wire.FromAgent), ending: make(chan struct{})}
	l.beat.link, l.later.send = l, l.Send
	return l
}

// A Greeting is the first exchange on a link.
type Greeting struct {
	Hello wire.HelloBody // its lease is filled in

	// Also is what is sent right behind the Hello, so that its answer costs no round
	// trip of its own.
	Also []byte

	// Rest reads what the agent sends after its own Hello. It may send more frames.
	Rest func(answer wire.HelloBody, r *wire.Reader) error
}

// Greet exchanges the first frames, and returns the agent's Hello. A stream has no
// deadline, so the stream of a silent agent is ended when ctx or the time for a Hello
// ends: detached where Hello.Resume is set, else closed.
func (l *Link) Greet(ctx context.Context, g Greeting) (answer wire.HelloBody, err error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.endStream(g.Hello.Resume) })
	defer stop()
	if l.config.Heartbeat {
		g.Hello.LeaseMillis = l.config.Lease.Milliseconds()
	}
	answer, err = l.greet(g)
	if !stop() && ctx.Err() != nil {
		return answer, fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	return answer, err
}

func (l *Link) greet(g Greeting) (answer wire.HelloBody, err error) {
	if err := l.SendJSON(wire.Hello, wire.ID{}, g.Hello); err != nil {
		return answer, err
	}
	if len(g.Also) > 0 {
		if err := l.Send(g.Also); err != nil {
			return answer, err
		}
	}
	f, err := l.reader.Read()
	if err != nil {
		return answer, err
	}
	if f.Kind != wire.Hello {
		return answer, wire.Violation("%v before Hello", f.Kind)
	}
	if err := wire.Decode(f, &answer); err != nil {
		return answer, err
	}
	return answer, g.Rest(answer, l.reader)
}

// Serve hands each frame except Pong to handle until the stream ends, and returns how
// the link ended. A frame's payload is valid during its call only. An error of handle
// fails the link. When Serve returns, the stream is ended, and nothing more is sent or pinged.
func (l *Link) Serve(handle func(wire.Frame) error) End {
	l.beat.start()
	err := l.read(handle)
	if err == io.EOF {
		err = errors.New("its agent hung up")
	}
	l.Fail(err)
	l.endStream(l.survived())
	l.beat.stop()
	l.later.Wait()
	l.beat.pinging.Wait()
	return l.end
}

func (l *Link) read(handle func(wire.Frame) error) error {
	for {
		f, err := l.reader.Read()
		if err != nil {
			return err
		}
		if l.reader.Buffered() == 0 {
			l.beat.heard()
		}
		if f.Kind == wire.Pong {
			l.beat.pong()
			continue
		}
		if err := handle(f); err != nil {
			return err
		}
	}
}

// Activity starts the heartbeat if Active has become true. It takes no lock while the
// heartbeat runs.
func (l *Link) Activity() { l.beat.wake() }

// Send writes one frame, or several in one piece. The stream has no deadline of its
// own, so an agent that does not read fails the link.
func (l *Link) Send(frame []byte) error {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	stuck := time.AfterFunc(writeTimeout, func() {
		l.Fail(fmt.Errorf("its agent has not read for %v", writeTimeout))
	})
	defer stuck.Stop()
	_, err := l.stream.Write(frame)
	return err
}

// SendJSON writes one frame whose payload is a JSON object.
func (l *Link) SendJSON(kind wire.Kind, run wire.ID, body any) error {
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		return err
	}
	return l.Send(frame)
}

// SendLater writes a frame from another goroutine: for a handler, since the reader
// goroutine must not wait for an agent that waits for the reader. Frames keep their
// order. A frame that cannot be written is dropped; Serve reports the broken stream.
func (l *Link) SendLater(frame []byte) {
	if l.End().How == Open {
		l.later.Add(frame)
	}
}

// Flush waits until the frames of SendLater have been written.
func (l *Link) Flush() { l.later.Wait() }

// End returns how the link ended. It takes no lock.
func (l *Link) End() End {
	select {
	case <-l.ending:
		return l.end
	default:
		return End{}
	}
}

// Ending is closed when the link has a reason to end; the stream ends soon after.
func (l *Link) Ending() <-chan struct{} { return l.ending }

// Close ends the link and the agent. It returns when the stream is closed.
func (l *Link) Close(cause error) {
	l.record(End{Closed, cause})
	l.stream.Close()
}

// Stop is Close without waiting for the stream.
func (l *Link) Stop(cause error) {
	if l.record(End{Closed, cause}) {
		go l.stream.Close()
	}
}

// Detach ends the link and leaves the agent to another host. If the link has a reason to
// end already, it only waits for the end of the stream, and reports false.
func (l *Link) Detach(cause error) (first bool, err error) {
	if !l.record(End{Detached, cause}) {
		return false, l.endStream(l.survived())
	}
	return true, l.endStream(true)
}

// Fail ends the link for a reason that this side did not want. It does not wait.
func (l *Link) Fail(cause error) {
	end := End{Failed, cause}
	if l.config.Survives != nil && l.config.Survives(cause) {
		end.How = Broken
	}
	if !l.record(end) {
		return
	}
	if l.config.Failed != nil {
		l.config.Failed(end)
	}
	go l.endStream(l.survived()) // Serve ends it too, and waits for it
}

// record records the reason for ending; the first wins.
func (l *Link) record(end End) (first bool) {
	l.emu.Lock()
	if l.end.How == Open {
		l.end, first = end, true
		close(l.ending)
	}
	l.emu.Unlock()
	if first {
		l.beat.cancelPing()
	}
	return first
}

// survived reports whether the agent outlives the link.
func (l *Link) survived() bool {
	how := l.End().How
	return how == Detached || how == Broken
}

// endStream ends the stream, and the agent with it unless detach is set and the stream
// can do that.
func (l *Link) endStream(detach bool) error {
	if d, ok := l.stream.(detacher); ok && detach {
		return d.Detach()
	}
	return l.stream.Close()
}
