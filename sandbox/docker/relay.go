package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/warmbox/warmbox/sandbox"
)

// A relay is the stream to an agent through an exec of the engine: a second process in
// the box joins its stdio to the agent's listener.
//
// The engine does not say when that process has reached the agent, and the first
// execs may fail because the agent does not listen yet. So until the agent has
// answered, the relay keeps what was written, and repeats it to another exec if one
// ends without an answer.
type relay struct {
	exec   func(context.Context) (*rawConn, error)
	stderr *sandbox.LastLines // of the relaying process
	out    demultiplexer      // used by Read alone

	answered atomic.Bool // by the agent

	mu       sync.Mutex
	conn     *rawConn // never changes after the agent has answered
	sent     []byte   // nil after the agent has answered
	attempts int
	closed   bool
}

const (
	// relayAttempts are some 50 ms apart each, the time that an exec takes.
	relayAttempts = 20

	// relayTime bounds the start of one exec.
	relayTime = 5 * time.Second

	// maxSent bounds what can be repeated. A host sends one frame first.
	maxSent = 1 << 20
)

var _ sandbox.Pinger = (*box)(nil)

// relay starts the exec that joins the host to the agent.
func (b *box) relay(ctx context.Context, user string) error {
	exec := func(ctx context.Context) (*rawConn, error) { return b.execRelay(ctx, user) }
	conn, err := exec(ctx)
	if err != nil {
		return b.orEnded(ctx, err)
	}
	b.stream = newRelay(conn, exec)
	return nil
}

// newRelay returns a relay with its first connection, and with exec to make others.
func newRelay(conn *rawConn, exec func(context.Context) (*rawConn, error)) *relay {
	r := &relay{exec: exec, stderr: new(sandbox.LastLines)}
	r.use(conn)
	return r
}

// Ping reports whether the engine of a relay answers. It is nil on a socket, which no
// engine serves.
func (b *box) Ping(ctx context.Context) error {
	if b.place.Path != relayTransport {
		return nil
	}
	if _, err := b.engine.Ping(ctx); err != nil {
		return unreachable(b.engine.endpoint, err, nil)
	}
	return nil
}

func (b *box) execRelay(ctx context.Context, user string) (*rawConn, error) {
	exec, err := b.engine.ContainerExecCreate(ctx, b.container, container.ExecOptions{
		User: user, WorkingDir: "/", AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Cmd: []string{agentPath, "dial", agentName, "--pid", "1"},
	})
	if err != nil {
		return nil, fmt.Errorf("make a relay to the agent: %w", err)
	}
	conn, err := b.engine.upgrade(ctx, "/exec/"+exec.ID+"/start", nil, container.ExecStartOptions{})
	if err != nil {
		return nil, fmt.Errorf("start a relay to the agent: %w", err)
	}
	return conn, nil
}

func (r *relay) use(conn *rawConn) {
	r.conn = conn
	r.out = demultiplexer{r: conn, stderr: r.stderr}
}

// Read reads from the agent.
func (r *relay) Read(p []byte) (int, error) {
	for {
		n, err := r.out.Read(p)
		if n > 0 && !r.answered.Load() && fromEngine(p[:n]) {
			r.stderr.Write(p[:n])
			n, err = 0, io.EOF
		}
		if n > 0 && !r.answered.Load() {
			r.mu.Lock()
			r.sent = nil
			r.answered.Store(true)
			r.mu.Unlock()
		}
		if n > 0 || err == nil {
			return n, err
		}
		if r.answered.Load() || !r.retry() {
			return 0, r.explain(err)
		}
	}
}

// fromEngine reports whether the first bytes of a relay are text of the engine, which
// writes there why it cannot start the process. The agent's stream never begins with a
// letter.
func fromEngine(p []byte) bool { return p[0] >= ' ' && p[0] < 0x7f }

// retry replaces a connection that ended before the agent answered.
func (r *relay) retry() bool {
	r.mu.Lock()
	r.attempts++
	ok := !r.closed && r.attempts < relayAttempts && len(r.sent) <= maxSent
	r.mu.Unlock()
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), relayTime)
	defer cancel()
	conn, err := r.exec(ctx)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		conn.Close()
		return false
	}
	r.conn.Close()
	r.use(conn)
	conn.Write(r.sent) // if this fails, so does the next Read
	return true
}

// explain adds the last lines of the relay's stderr to the end of its stream.
func (r *relay) explain(err error) error {
	if text := r.stderr.String(); text != "" && err == io.EOF {
		return fmt.Errorf("the relay to the agent ended: %q", sanitize(text, 500))
	}
	return err
}

// Write writes to the agent.
func (r *relay) Write(p []byte) (int, error) {
	if r.answered.Load() {
		return r.conn.Write(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, net.ErrClosed
	}
	if r.answered.Load() {
		return r.conn.Write(p)
	}
	if len(r.sent) <= maxSent {
		r.sent = append(r.sent, p...)
	}
	r.conn.Write(p) // if this fails, Read repeats it
	return len(p), nil
}

// Close closes the connection to the agent.
func (r *relay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.conn.Close()
}
