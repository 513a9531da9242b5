package server

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	mcpserver "github.com/mark3labs/mcp-go/server"
)

const (
	// workers is the most that mcp-go allows. A call takes one for as long as
	// it waits, and a call without one can be neither answered nor cancelled.
	workers = 100

	// queued is the most too: a full queue holds up even a ping.
	queued = 10_000
)

// ServeStdio serves one client until stdin ends, stdout fails, or ctx is done,
// and returns nil then. Every box is gone before it returns; where one does not
// end in time, an error says so. Only what hangs in the caller's own stdin or
// stdout stays behind, a goroutine each, until Read or Write returns.
func (s *Server) ServeStdio(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := caller{session: newSession(sessionKey{}, local)}
	out := &output{w: stdout, failed: cancel, asker: client.session.asker}
	m := s.mcp()
	short := &shortcut{server: m, out: out, logger: s.logger()}
	in := newLines(stdin, out, short.take, cancel)
	codec := mcpserver.NewStdioServer(m)
	for _, set := range []mcpserver.StdioOption{
		mcpserver.WithErrorLogger(slog.NewLogLogger(s.logger().Handler(), slog.LevelWarn)),
		mcpserver.WithWorkerPoolSize(workers),
		mcpserver.WithQueueSize(queued),
		mcpserver.WithStdioContextFunc(func(ctx context.Context) context.Context {
			session := mcpserver.ClientSessionFromContext(ctx).(stdioTransport)
			short.ctx = context.WithValue(m.WithContext(ctx, stdioSession{session, out.asker}), callerKey{}, client)
			return short.ctx
		}),
	} {
		set(codec)
	}
	served := make(chan struct{})
	go func() {
		codec.Listen(ctx, in, out) // what it says is that the input or the context ended
		short.close()
		close(served)
	}()

	// The boxes are not closed after the last call has ended but beside it: a
	// call that waits for a command ends with its box.
	<-ctx.Done()
	err := s.closeBoxes()
	select {
	case <-served:
	case <-time.After(endTimeout):
		s.logger().Warn("the client does not read its answers")
	}
	return err
}

// output is stdout. A message is one Write, so the lock keeps messages whole:
// mcp-go's own covers only some of them. When a write fails, nobody listens.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	failed func()
	asker  *asker // sees what goes out
}

func (o *output) Write(p []byte) (int, error) {
	o.asker.notice(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.w.Write(p)
	if err != nil {
		o.failed()
	}
	return n, err
}
