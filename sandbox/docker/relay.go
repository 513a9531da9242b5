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

// A relay is the stream to an agent through an exec of the engine: a second
// process in the box joins its stdio to the agent's listener.
//
// The engine does not say when that process has reached the agent, and the
// first relays may find it not listening yet. So until the agent has spoken the
// relay keeps what was written, and says it again to another one where the
// first ends without a word.
type relay struct {
	exec   func(context.Context) (*rawConn, error)
	stderr *sandbox.LastLines // of the relaying process
	out    demux              // used by Read alone
	spoken atomic.Bool

	mu     sync.Mutex
	conn   *rawConn // never changes once the agent has spoken
	sent   []byte   // nil once the agent has spoken
	tries  int
	closed bool
}

const (
	// relayTries are some 50 ms apart each, the time that an exec takes.
	relayTries = 20

	// relayTime bounds the start of one exec.
	relayTime = 5 * time.Second

	// maxSent is how much can be said again. A host speaks one frame first.
	maxSent = 1 << 20
)

var _ sandbox.Pinger = (*box)(nil)

// relay starts the exec that joins us to the agent.
func (b *box) relay(ctx context.Context, user string) error {
	r := &relay{stderr: new(sandbox.LastLines)}
	r.exec = func(ctx context.Context) (*rawConn, error) { return b.dial(ctx, user) }
	conn, err := r.exec(ctx)
	if err != nil {
		return b.orEnded(ctx, err)
	}
	r.use(conn)
	b.stream = r
	return nil
}

// Ping asks the engine of a relay whether it is there. Without a relay no engine is
// between us and the agent.
func (b *box) Ping(ctx context.Context) error {
	if b.place.Path != pathRelay {
		return nil
	}
	if _, err := b.engine.Ping(ctx); err != nil {
		return unreachable(b.engine.endpoint, err, nil)
	}
	return nil
}

func (b *box) dial(ctx context.Context, user string) (*rawConn, error) {
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
	r.out = demux{r: conn, stderr: r.stderr}
}

// Read reads from the agent.
func (r *relay) Read(p []byte) (int, error) {
	for {
		n, err := r.out.Read(p)
		if n > 0 && !r.spoken.Load() && complaint(p[:n]) {
			r.stderr.Write(p[:n])
			n, err = 0, io.EOF
		}
		if n > 0 && !r.spoken.Load() {
			r.mu.Lock()
			r.sent = nil
			r.spoken.Store(true)
			r.mu.Unlock()
		}
		if n > 0 || err == nil {
			return n, err
		}
		if r.spoken.Load() || !r.again() {
			return 0, r.why(err)
		}
	}
}

// complaint reports whether the first bytes of a relay are the engine's: where
// it cannot start the process, it says so in the place of the output. No
// agent's stream begins with a letter.
func complaint(p []byte) bool { return p[0] >= ' ' && p[0] < 0x7f }

// again replaces a relay that ended before the agent spoke.
func (r *relay) again() bool {
	r.mu.Lock()
	r.tries++
	ok := !r.closed && r.tries < relayTries && len(r.sent) <= maxSent
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
	conn.Write(r.sent) // where that fails, so does the next Read
	return true
}

// why adds the relay's own last words to the end of its stream.
func (r *relay) why(err error) error {
	if words := r.stderr.String(); words != "" && err == io.EOF {
		return fmt.Errorf("the relay to the agent ended: %q", clean(words, 500))
	}
	return err
}

// Write writes to the agent.
func (r *relay) Write(p []byte) (int, error) {
	if r.spoken.Load() {
		return r.conn.Write(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, net.ErrClosed
	}
	if r.spoken.Load() {
		return r.conn.Write(p)
	}
	if len(r.sent) <= maxSent {
		r.sent = append(r.sent, p...)
	}
	r.conn.Write(p) // where that fails, Read will say it again
	return len(p), nil
}

// Close hangs up.
func (r *relay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.conn.Close()
}
