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
	// maxLine is the longest message that is taken. A command may have a mebibyte,
	// which JSON makes six of if it is all control characters; the rest is room for
	// input and what else comes with it.
	maxLine = 8 << 20

	// firstLine is what is read at once, and kept from one message to the next.
	firstLine = 64 << 10

	// maxReplies is how many answers of the reader's own wait to be written.
	maxReplies = 256
)

// ServeStdio serves one client until stdin ends, stdout fails, or ctx is done,
// and returns nil then. Every box is gone before it returns; where one does not
// end in time, an error says so. Only what hangs in the caller's own stdin or
// stdout stays behind, a goroutine each, until Read or Write returns.
func (s *Server) ServeStdio(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := caller{session: newSession(sessionKey{}, localOwner)}
	l := &line{
		server: s.mcp(), logger: s.logger(), peer: client.session.peer, mask: s.Manager.Mask,
		in: bufio.NewReaderSize(stdin, firstLine), out: stdout, failed: cancel, replies: make(chan any, maxReplies),
	}
	go l.reply()
	go func() {
		l.read(context.WithValue(ctx, callerKey{}, client))
		cancel()
	}()

	// The boxes are not closed after the last call has ended but beside it: a
	// call that waits for a command ends with its box.
	<-ctx.Done()
	err := s.closeBoxes()
	served := make(chan struct{})
	go func() {
		l.close()
		close(served)
	}()
	select {
	case <-served:
	case <-time.After(endTimeout):
		s.logger().Warn("the client does not read its answers")
	}
	return err
}

// A line is what leads to the only client there is: messages come and go on it, a
// line of text each.
type line struct {
	server *mcpserver.MCPServer
	logger *slog.Logger
	peer   *peer
	mask   func(string) string

	in   *bufio.Reader
	text []byte // what was read last

	writing sync.Mutex
	out     io.Writer
	failed  func()   // called when a write fails: the client has gone
	replies chan any // what the reader answers itself; closed when nothing more comes

	mu      sync.Mutex
	over    bool // nothing more is begun
	running sync.WaitGroup
}

// read serves what the client sends, until nothing more comes.
func (l *line) read(ctx context.Context) {
	for {
		whole, err := l.next()
		if err != nil || !l.enter() {
			return
		}
		if whole && len(bytes.TrimSpace(l.text)) > 0 && l.take(ctx) || !whole && l.later(ctx, errLong.message()) {
			l.text = nil // is the message's now
			continue
		}
		l.running.Done()
	}
}

// errLong has no id: that may stand behind all that was skipped.
var errLong = &fault{mcp.INVALID_REQUEST, nil, fmt.Sprintf(
	"a message of more than %d MiB was skipped; write large input to a file in the box, piece by piece", maxLine>>20)}

// next reads one line, and of one that is too long only the end. mcp-go's own
// reader would collect a line of any length.
func (l *line) next() (whole bool, err error) {
	if cap(l.text) > firstLine {
		l.text = nil
	}
	l.text = l.text[:0]
	for whole = true; ; {
		part, err := l.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return false, err // of a line without an end nothing is known
		}
		if len(l.text)+len(part) > maxLine {
			l.text, whole = nil, false
		}
		if whole {
			l.keep(part)
		}
		if err == nil {
			return whole, nil
		}
	}
}

// keep appends to the line. A short one gets what it needs; a longer one grows in two
// steps to the most that it may have: what append leaves behind on the way adds up to
// several times that.
func (l *line) keep(part []byte) {
	if need := len(l.text) + len(part); need > cap(l.text) {
		l.text = append(make([]byte, 0, min(max(16*cap(l.text), need), maxLine)), l.text...)
	}
	l.text = append(l.text, part...)
}

// take serves the message in the line, and reports whether that goes on beside the
// next one, with the line and what enter counted. Notifications, the greeting and
// pings are served before what follows them.
func (l *line) take(ctx context.Context) bool {
	m, err := parseMessage(l.text)
	switch {
	case err != nil:
		return l.refuse(ctx, err)
	case m.answers():
		l.peer.answer(m)
		l.text = nil // is the question's now
		return false
	case m.method == cancelled && m.id == nil:
		l.peer.cancel(m)
		return false
	}
	x := &exchange{peer: l.peer, server: l.server, logger: l.logger, message: m, send: l.send, mask: l.mask}
	call, end, room := x.begin(ctx)
	if !room || m.id == nil || m.method == string(mcp.MethodInitialize) || m.method == string(mcp.MethodPing) {
		defer end()
		return l.later(ctx, x.serve(call))
	}
	go func() {
		defer l.running.Done()
		defer end()
		if answer := x.serve(call); answer != nil {
			l.send(answer)
		}
	}()
	runtime.Gosched() // to that: who reads the next line can be another thread
	return true
}

// refuse tells the client what is wrong with a message, unless that is a
// notification, which is never answered.
func (l *line) refuse(ctx context.Context, err error) bool {
	if f, ok := errors.AsType[*fault](err); ok && (f.id != nil || f.code != mcp.INVALID_PARAMS) {
		masked := *f
		masked.text = l.mask(f.text)
		return l.later(ctx, masked.message())
	}
	l.logger.Warn("a notification is ignored", "why", err)
	return false
}

// later has a message written beside what is read next: of a client that reads
// nothing it must still be heard that it has gone. It reports whether it will be.
func (l *line) later(ctx context.Context, message any) bool {
	if message == nil {
		return false
	}
	select {
	case l.replies <- message:
		return true
	case <-ctx.Done():
		return false
	}
}

// reply writes those messages.
func (l *line) reply() {
	for m := range l.replies {
		l.send(m)
		l.running.Done()
	}
}

// send writes a message, whole. When that fails, the session ends.
func (l *line) send(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		l.logger.Error("a message cannot be written", "err", err)
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if _, err = l.out.Write(append(text, '\n')); err != nil {
		l.failed()
	}
	return err
}

// enter counts a message that is being served, until the line is over.
func (l *line) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.running.Add(1)
	return true
}

// close returns when all that is under way has been answered.
func (l *line) close() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.running.Wait()
	close(l.replies)
}
