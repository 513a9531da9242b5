package sandbox

import (
	"errors"
	"log/slog"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// endTimeout is how long a failed write waits for the reader goroutine to learn how the
// box ended: longer than a backend takes to find out.
const endTimeout = 3 * time.Second

// A conn is the link of a box for all who send over it, the box and its runs: it knows
// the box by its id, and makes of the link's end the error that a caller reads.
type conn struct {
	*link.Link
	box    string
	logger *slog.Logger
}

// gone returns nil while the box is there, then the reason why it is not.
func (c *conn) gone() error {
	const hint = "Start another box, or leave containerId out."
	end := c.End()
	switch {
	case end.How == link.Open:
		return nil
	case end.How == link.Broken:
		return c.unreachable()
	case end.How == link.Closed && end.Cause == nil:
		return Errorf(BoxGone, hint, "box %s was stopped", c.box)
	case end.How == link.Closed:
		return Errorf(BoxGone, hint, "box %s was stopped: %w", c.box, end.Cause)
	}
	return Errorf(BoxGone, hint, "box %s is gone: %w", c.box, end.Cause)
}

// unreachable returns an error where the stream broke and the agent may still be
// there, nil elsewhere.
func (c *conn) unreachable() error {
	end := c.End()
	if end.How != link.Broken {
		return nil
	}
	return Errorf(DockerUnavailable, "The server is reconnecting, and commands in the box continue. Try again in a few seconds.",
		"box %s cannot be reached at the moment: %w", c.box, end.Cause)
}

// stopped reports whether this side has begun to stop the box: a signal that ends a
// command then is ours.
func (c *conn) stopped() bool { return c.End().How == link.Closed }

// send is Send with an error that says how the box ended.
func (c *conn) send(frame []byte) error { return c.explain(c.Send(frame)) }

// sendJSON is SendJSON with an error that says how the box ended.
func (c *conn) sendJSON(kind wire.Kind, run wire.ID, body any) error {
	return c.explain(c.SendJSON(kind, run, body))
}

// explain replaces the error of a failed write by how the box ended. The reader
// goroutine learns that; the write knows only that the stream is gone, and names of
// sockets.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	c.logger.Debug("frame not sent", "err", err)
	select {
	case <-c.Ending():
	case <-time.After(endTimeout):
		c.Fail(errors.New("its agent accepts no more frames"))
	}
	return c.gone()
}

// closedByOwner reports whether the box was stopped without a cause: its owner asked for it.
func (c *conn) closedByOwner() bool {
	end := c.End()
	return end.How == link.Closed && end.Cause == nil
}
