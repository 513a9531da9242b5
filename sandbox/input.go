package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// stdinChunk is small enough that a window holds several, so that the next one
	// is on its way while the agent still writes the last.
	stdinChunk = 32 << 10

	// endRoom is kept free in the window, so that the end of input can be typed at
	// a terminal whose window is full.
	endRoom = 64

	// endOfFile is what a person types for the end of input. It counts as one only
	// at the beginning of a line; elsewhere it hands over what is typed so far, and
	// a second one is the end.
	endOfFile = "\x04"
)

// errRunEnded is returned for input that its run, having ended, does not read.
var errRunEnded = errors.New("the command has ended")

// input sends a run's standard input, or what is typed at its terminal, within the
// window of the protocol. Commands that read /dev/null have none.
type input struct {
	conn *conn
	id   wire.ID
	exec string // id of the run, for errors
	tty  bool
	size int // of the window

	ended <-chan struct{} // closed when the run has ended
	turn  chan struct{}   // has a token while a call sends: the bytes of one call stay together
	room  chan struct{}   // has a token when the agent consumed bytes

	mu      sync.Mutex
	unacked int  // bytes on their way
	closed  bool // no more can be sent; never true for a terminal
	midLine bool // the last byte typed did not end a line
}

func newInput(c *conn, id wire.ID, exec string, tty bool, size int, ended <-chan struct{}) *input {
	return &input{conn: c, id: id, exec: exec, tty: tty, size: size, ended: ended, turn: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// feed sends all of from, and then, where end is set, the end of input. The caller has
// acquired the turn, which feed releases. A Reader that blocks keeps this goroutine
// until it returns, beyond the end of the run; the caller of Exec must end it.
func (in *input) feed(from io.Reader, end bool) {
	defer in.release()
	chunk := stdinChunk
	if in.size > wire.StdinWindow {
		chunk = wire.MaxPayload
	}
	buf := make([]byte, wire.HeaderLen+chunk)
	for in.waitRoom(context.Background(), chunk) == nil {
		n, err := from.Read(buf[wire.HeaderLen:])
		if in.isOver() {
			return
		}
		if n > 0 && in.transmit(buf[:wire.HeaderLen+n]) != nil {
			return // the box is lost, which its reader goroutine reports
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			in.conn.logger.Warn("standard input ended early", "exec", in.exec, "err", err)
		}
		if end {
			in.end()
		}
		return
	}
}

// write sends all of p, and waits for room in the window as long as ctx allows.
func (in *input) write(ctx context.Context, p []byte) error {
	select {
	case in.turn <- struct{}{}:
		defer in.release()
	case <-ctx.Done():
		return in.unread(ctx, 0, len(p))
	case <-in.ended:
	}
	if err := in.writable(); err != nil {
		return err
	}
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, stdinChunk)
		if err := in.waitRoom(ctx, n); err != nil {
			return in.unread(ctx, sent, len(p))
		}
		frame := wire.Append(make([]byte, 0, wire.HeaderLen+n), wire.Stdin, in.id, p[sent:sent+n])
		if err := in.transmit(frame); err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// close sends the end of input, unless a call still sends some.
func (in *input) close() error {
	if err := in.writable(); err != nil {
		return err
	}
	select {
	case in.turn <- struct{}{}:
		defer in.release()
	default:
		return Errorf(InvalidArgument, "Wait until the command has read it.", "earlier input of command %s has not been read yet", in.exec)
	}
	return in.end()
}

func (in *input) release() { <-in.turn }

func (in *input) isOver() bool {
	select {
	case <-in.ended:
		return true
	default:
		return false
	}
}

// writable returns nil if input can be sent, and otherwise the reason why not.
func (in *input) writable() error {
	if in.isOver() {
		return errRunEnded
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return Errorf(InvalidArgument, "To send more, start another command.", "the input of command %s has been closed", in.exec)
	}
	return nil
}

// unread says why not all input was sent: the run has ended, or does not read.
func (in *input) unread(ctx context.Context, sent, all int) error {
	if in.isOver() {
		return errRunEnded
	}
	return Errorf(LimitReached, "The command is not reading its input. Read its output with logs, and send the rest later.",
		"command %s accepted only %d of %d bytes of input: %w", in.exec, sent, all, context.Cause(ctx))
}

// end sends the end of input. The caller has the turn.
func (in *input) end() error {
	if !in.tty {
		in.markClosed()
		return in.conn.send(wire.Append(nil, wire.StdinClose, in.id, nil))
	}
	text, full := in.typedEnd()
	if full {
		return Errorf(LimitReached, "Send the command a signal, or end it with stop.", "command %s has not read its earlier input", in.exec)
	}
	return in.transmit(wire.Append(nil, wire.Stdin, in.id, []byte(text)))
}

func (in *input) markClosed() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
}

// typedEnd is what to type for the end of input, and whether the window is too full.
func (in *input) typedEnd() (text string, full bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	text = endOfFile
	if in.midLine {
		text += endOfFile
	}
	return text, in.unacked+len(text) > in.size
}

// waitRoom waits until n bytes fit the window, or until the run has ended.
func (in *input) waitRoom(ctx context.Context, n int) error {
	for !in.fits(n) {
		select {
		case <-in.room:
		case <-in.ended:
			return errRunEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

func (in *input) fits(n int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.unacked+n <= in.size-endRoom
}

// transmit sends a frame with room for its header as input.
func (in *input) transmit(frame []byte) error {
	n := len(frame) - wire.HeaderLen
	last := frame[len(frame)-1]
	in.mu.Lock()
	in.unacked += n
	in.midLine = last != '\n' && last != '\r' && last != endOfFile[0]
	in.mu.Unlock()
	wire.Put(frame, wire.Stdin, in.id, n)
	return in.conn.send(frame)
}

// consumed handles a StdinTaken of the agent. A run without input has none to consume.
func (in *input) consumed(f wire.Frame) error {
	if len(f.Payload) != 4 {
		return wire.Violation("%v of %d bytes", f.Kind, len(f.Payload))
	}
	if in == nil {
		return wire.Violation("%v by a command without input", f.Kind)
	}
	n := binary.BigEndian.Uint32(f.Payload)
	in.mu.Lock()
	defer in.mu.Unlock()
	if n == 0 || int64(n) > int64(in.unacked) {
		return wire.Violation("%v of %d bytes, where %d are on their way", f.Kind, n, in.unacked)
	}
	in.unacked -= int(n)
	select {
	case in.room <- struct{}{}:
	default:
	}
	return nil
}
