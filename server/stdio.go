package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

const (
	// maxLine is the longest message. A command may have a mebibyte, which is six as
	// JSON if it consists of control characters; the rest is room for its input and
	// other arguments.
	maxLine = 8 << 20

	// firstLine is the size of the read buffer, and of the largest line buffer that
	// is reused for the next message.
	firstLine = 64 << 10

	// maxReplies is how many replies of the reader goroutine may be queued.
	maxReplies = 256
)

// ServeStdio serves one client until stdin ends, stdout fails, or ctx is done, and then
// returns nil. Every box has ended before it returns; if one does not end in time, an error
// says so. After it returns, at most two goroutines are left, blocked in stdin.Read or
// stdout.Write.
func (s *Server) ServeStdio(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session := newSession(sessionKey{}, localOwner)
	c := &stdioConn{
		server: s.mcp(), logger: s.logger(), peer: session.peer, mask: s.Manager.Mask,
		in: bufio.NewReaderSize(stdin, firstLine), out: stdout, disconnected: cancel, replies: make(chan any, maxReplies),
	}
	go c.writeReplies()
	go func() {
		c.read(context.WithValue(ctx, sessionCtxKey{}, session))
		cancel()
	}()

	// The boxes are closed while calls still run: a call that waits for a command
	// ends with its box.
	<-ctx.Done()
	err := s.closeBoxes()
	served := make(chan struct{})
	go func() {
		c.close()
		close(served)
	}()
	select {
	case <-served:
	case <-time.After(endTimeout):
		s.logger().Warn("the client does not read its replies")
	}
	return err
}

// A stdioConn is the connection to the only client of stdio. Each message is a line of text.
type stdioConn struct {
	server *mcpserver.MCPServer
	logger *slog.Logger
	peer   *peer
	mask   func(string) string

	in   *bufio.Reader
	text []byte // the last line

	begins []byte // the beginning of the last line that was too long

	writing      sync.Mutex
	out          io.Writer
	disconnected func()   // called when a write fails
	replies      chan any // replies of the reader goroutine, to be written; closed by close

	mu      sync.Mutex
	closed  bool // no message is begun any more
	running sync.WaitGroup
}

// read serves the messages of the client until its input ends or the connection is closed.
func (c *stdioConn) read(ctx context.Context) {
	for {
		whole, err := c.next()
		if err != nil || !c.begin() {
			return
		}
		if c.serveLine(ctx, whole) {
			c.text = nil // it belongs to the message
			continue
		}
		c.running.Done()
	}
}

// serveLine serves the message in the line. It reports whether another goroutine goes on
// with it, and with the line, and calls running.Done.
func (c *stdioConn) serveLine(ctx context.Context, whole bool) bool {
	switch {
	case !whole:
		return c.queueReply(ctx, c.tooLong().message())
	case len(bytes.TrimSpace(c.text)) == 0:
		return false
	}
	return c.serveMessage(ctx)
}

// tooLong is the fault of a message that was skipped. It has the id of the message if that comes
// before the long part.
func (c *stdioConn) tooLong() *fault {
	return &fault{mcp.INVALID_REQUEST, leadingID(c.begins), fmt.Sprintf(
		"a message of more than %d MiB was skipped; write large input to a file in the box, piece by piece", maxLine>>20)}
}

// leadingID returns the id of a message of which only the beginning is known, nil if it is not
// there.
func leadingID(beginning []byte) (id json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(beginning))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil
		}
		if name == "id" && checkID(value) == nil && d.InputOffset() < int64(len(beginning)) { // else it may go on
			return value
		}
	}
}

// next reads one line. It reports false for a line that is too long, which it skips.
// mcp-go's own reader keeps lines of any length in memory.
func (c *stdioConn) next() (whole bool, err error) {
	if cap(c.text) > firstLine {
		c.text = nil
	}
	c.text = c.text[:0]
	for whole = true; ; {
		part, err := c.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return false, err // a last line without its end may be cut
		}
		if whole && len(c.text)+len(part) > maxLine {
			c.begins = bytes.Clone(c.text[:min(len(c.text), maxID<<1)])
			c.text, whole = nil, false
		}
		if whole {
			c.appendPart(part)
		}
		if err == nil {
			return whole, nil
		}
	}
}

// appendPart appends to the line. A short line gets a buffer of its size. A longer one grows
// in two steps to maxLine: the buffers that append outgrows add up to several times that.
func (c *stdioConn) appendPart(part []byte) {
	if need := len(c.text) + len(part); need > cap(c.text) {
		c.text = append(make([]byte, 0, min(max(16*cap(c.text), need), maxLine)), c.text...)
	}
	c.text = append(c.text, part...)
}

// serveMessage serves a message. It reports whether another goroutine goes on with it.
// Notifications, initialize and ping are served before the next message is read.
func (c *stdioConn) serveMessage(ctx context.Context) bool {
	m, err := parseMessage(c.text)
	switch {
	case err != nil:
		return c.refuse(ctx, err)
	case m.answers():
		c.peer.answer(m)
		c.text = nil // it belongs to the call that receives the answer
		return false
	case m.method == cancelled && m.id == nil:
		c.peer.cancel(m)
		return false
	}
	x := &exchange{peer: c.peer, server: c.server, logger: c.logger, message: m, send: c.send, mask: c.mask}
	call, end, room := x.begin(ctx)
	if !room || m.id == nil || m.method == string(mcp.MethodInitialize) || m.method == string(mcp.MethodPing) {
		defer end()
		return c.queueReply(ctx, x.serve(call))
	}
	go func() {
		defer c.running.Done()
		defer end()
		if answer := x.serve(call); answer != nil {
			c.send(answer)
		}
	}()
	runtime.Gosched() // to the call: another thread can read the next line
	return true
}

// refuse queues the error of a message, unless that is a notification, which has no reply.
func (c *stdioConn) refuse(ctx context.Context, err error) bool {
	if f, ok := errors.AsType[*fault](err); ok && (f.id != nil || f.code != mcp.INVALID_PARAMS) {
		masked := *f
		masked.text = c.mask(f.text)
		return c.queueReply(ctx, masked.message())
	}
	c.logger.Warn("invalid notification ignored", "why", err)
	return false
}

// queueReply queues a reply, which writeReplies writes while the next message is read: a
// client that does not read its replies may still disconnect, and the reader must notice.
// It reports whether the reply is queued.
func (c *stdioConn) queueReply(ctx context.Context, message any) bool {
	if message == nil {
		return false
	}
	select {
	case c.replies <- message:
		return true
	case <-ctx.Done():
		return false
	}
}

// writeReplies writes the queued replies.
func (c *stdioConn) writeReplies() {
	for m := range c.replies {
		c.send(m)
		c.running.Done()
	}
}

// send writes a message. The session ends if that fails.
func (c *stdioConn) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		c.logger.Error("cannot encode a message", "err", err)
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if _, err = c.out.Write(append(text, '\n')); err != nil {
		c.disconnected()
	}
	return err
}

// begin counts a message that is being served. It reports false once the connection is
// closed.
func (c *stdioConn) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}

// close returns when every message that was begun has been answered.
func (c *stdioConn) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
	close(c.replies)
}

// RefuseStdio answers the first request of a client with an error that says why there is no
// server. It returns when it has, when stdin ends, or when ctx is done; a goroutine may then be
// left, blocked in stdin.Read.
func RefuseStdio(ctx context.Context, stdin io.Reader, stdout io.Writer, why string) {
	c := &stdioConn{in: bufio.NewReaderSize(stdin, firstLine), out: stdout, disconnected: func() {}}
	request := make(chan json.RawMessage, 1) // its id
	go func() {
		defer close(request)
		for {
			whole, err := c.next()
			if err != nil {
				return
			}
			if m, _ := parseMessage(c.text); whole && m.id != nil && !m.answers() && checkID(m.id) == nil {
				request <- m.id
				return
			}
		}
	}()
	select {
	case id, ok := <-request:
		if ok {
			c.send((&fault{mcp.INTERNAL_ERROR, id, why}).message())
		}
	case <-ctx.Done():
	}
}
