package sandbox

import (
	"context"
	"io"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// stdinChunk is small enough that a window holds several, so that the next one
	// is on its way while the agent still writes the last.
	stdinChunk = 32 << 10

	// endRoom is kept free in the window, so that the end of input can be typed at
	// a terminal that takes nothing more.
	endRoom = 64

	// endOfFile is what a person types for the end of input. It counts as one only
	// at the beginning of a line; elsewhere it hands over what is typed so far, and
	// a second one is the end.
	endOfFile = "\x04"
)

// input is what is known of a run's input besides the window. The token in turn
// belongs to the one who sends: what one call sends stays together.
type input struct {
	turn    chan struct{} // has a token while somebody sends
	closed  bool          // no more can be sent; never true for a terminal
	midLine bool          // what was typed last was no end of a line
}

// hasInput reports whether the command reads anything but /dev/null.
func (c Command) hasInput() bool { return c.Stdin != nil || c.Interactive || c.TTY != nil }

// feed carries the command's Stdin to the agent. A Reader that blocks keeps this
// goroutine until it returns, beyond the end of the run; that is the caller's to
// end. Its owner has taken the turn for it.
func (r *Run) feed() {
	defer r.yield()
	buf := make([]byte, wire.HeaderLen+stdinChunk)
	for r.waitRoom(context.Background(), stdinChunk) == nil {
		n, err := r.Command.Stdin.Read(buf[wire.HeaderLen:])
		if r.ended() {
			return
		}
		if n > 0 && r.transmit(buf[:wire.HeaderLen+n]) != nil {
			return // the box is lost, and its reader says so
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			r.Box.logger.Warn("standard input ended early", "exec", r.ID, "err", err)
		}
		if !r.Command.Interactive {
			r.endInput()
		}
		return
	}
}

// Input gives the command more to read, and returns when all of it is on its way.
// A command that does not read takes 256 KiB; beyond that Input waits for it, as
// long as ctx allows.
func (r *Run) Input(ctx context.Context, p []byte) error {
	select {
	case r.in.turn <- struct{}{}:
		defer r.yield()
	case <-ctx.Done():
		return r.notRead(ctx, 0, len(p))
	case <-r.done:
	}
	if err := r.canType(); err != nil {
		return err
	}
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, stdinChunk)
		if err := r.waitRoom(ctx, n); err != nil {
			return r.notRead(ctx, sent, len(p))
		}
		frame := wire.Append(make([]byte, 0, wire.HeaderLen+n), wire.Stdin, r.wireID, p[sent:sent+n])
		if err := r.transmit(frame); err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// CloseInput says that no more input comes. At a terminal it types what a person
// would, ^D, which the program there takes for the end or not; more can follow.
func (r *Run) CloseInput() error {
	if err := r.canType(); err != nil {
		return err
	}
	select {
	case r.in.turn <- struct{}{}:
		defer r.yield()
	default:
		return Errorf(InvalidArgument, "Wait until the command has read it.", "other input of command %s is still on its way", r.ID)
	}
	return r.endInput()
}

func (r *Run) yield() { <-r.in.turn }

// canType says why nothing can be sent to the run, if so.
func (r *Run) canType() error {
	if !r.Command.hasInput() {
		return Errorf(InvalidArgument, "Start it with background: true, tty: true or stdin.", "the input of command %s is /dev/null", r.ID)
	}
	if r.ended() {
		return r.overError()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in.closed {
		return Errorf(InvalidArgument, "Start another command for more.", "the input of command %s has been closed", r.ID)
	}
	return nil
}

func (r *Run) overError() error {
	return Errorf(InvalidArgument, "Its output is in its log; start it again if need be.", "command %s has ended: %s, exit code %d", r.ID, r.Exit().Status, r.Exit().Code)
}

// notRead says why not all input was sent: the run has ended, or nobody takes it.
func (r *Run) notRead(ctx context.Context, sent, all int) error {
	if r.ended() {
		return r.overError()
	}
	return Errorf(LimitReached, "It reads nothing just now. Look with logs what it does, and send the rest later.",
		"command %s took only %d of %d bytes of input: %w", r.ID, sent, all, context.Cause(ctx))
}

// endInput ends the input of a run whose turn the caller has.
func (r *Run) endInput() error {
	if r.Command.TTY == nil {
		r.mu.Lock()
		r.in.closed = true
		r.mu.Unlock()
		return r.Box.sent(r.Box.link.Send(wire.Append(nil, wire.StdinClose, r.wireID, nil)))
	}
	r.mu.Lock()
	end := endOfFile
	if r.in.midLine {
		end += endOfFile
	}
	full := r.unacked+len(end) > wire.StdinWindow
	r.mu.Unlock()
	if full {
		return Errorf(LimitReached, "It reads nothing just now. Send it a signal, or end it with stop.", "command %s does not read what it was sent before", r.ID)
	}
	return r.transmit(wire.Append(nil, wire.Stdin, r.wireID, []byte(end)))
}

// waitRoom waits until n bytes fit the window, or until the run has ended.
func (r *Run) waitRoom(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		fits := r.unacked+n <= wire.StdinWindow-endRoom
		r.mu.Unlock()
		if fits {
			return ctx.Err()
		}
		select {
		case <-r.room:
		case <-r.done:
			return io.ErrClosedPipe
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// transmit sends a frame's room of bytes as input, header and all.
func (r *Run) transmit(frame []byte) error {
	n := len(frame) - wire.HeaderLen
	last := frame[len(frame)-1]
	r.mu.Lock()
	r.unacked += n
	r.in.midLine = last != '\n' && last != '\r' && last != endOfFile[0]
	r.mu.Unlock()
	wire.Put(frame, wire.Stdin, r.wireID, n)
	return r.Box.sent(r.Box.link.Send(frame))
}
