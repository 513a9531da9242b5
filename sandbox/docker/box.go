package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/warmbox/warmbox/sandbox"
)

// A box is a container and the stream to the agent in it.
type box struct {
	engine    *engine
	id        string
	container string // the engine's id; "" before it is created
	place     sandbox.Place
	workspace workspace

	lock     *boxLock  // nil unless the box is persistent
	listener *listener // nil on a relay
	covers   []cover   // are verified before the agent is accepted
	stream   io.ReadWriteCloser
	monitor  *exitMonitor

	close sync.Once
	err   error // of Close
}

const (
	// firstDial bounds the time from the start of the container to the agent's
	// connection to the socket. That takes some 50 ms if it works at all.
	firstDial = time.Second

	// removeTime bounds the time in which an engine removes a container.
	removeTime = 20 * time.Second
)

var _ sandbox.Placed = (*box)(nil)

func newBox(e *engine, logger *slog.Logger, id string) *box {
	return &box{engine: e, id: id, monitor: newExitMonitor(e, logger, id)}
}

// create creates the container and what must exist before it starts: its directories
// and its monitor.
func (b *box) create(ctx context.Context, r request) (warnings []string, err error) {
	config, host := r.container()
	created, err := b.engine.create(ctx, config, host)
	if err != nil {
		return nil, err
	}
	b.container = created.ID
	var fill sync.WaitGroup
	var filled error
	fill.Go(func() { filled = b.fillHome(ctx, r) })
	err = b.monitor.start(ctx, b.container)
	fill.Wait()
	return created.Warnings, errors.Join(err, filled)
}

// run starts the container.
func (b *box) run(ctx context.Context) error {
	if err := b.engine.ContainerStart(ctx, b.container, container.StartOptions{}); err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	return nil
}

// errNoDial says that the agent did not connect to the box's socket in time.
var errNoDial = errors.New("the agent did not dial the box's socket")

// acceptAgent waits for the agent's connection to the box's own socket.
func (b *box) acceptAgent(ctx context.Context, timeout time.Duration) error {
	dial, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w within %v", errNoDial, timeout))
	defer cancel()
	state, err := b.engine.ContainerInspect(dial, b.container)
	if err != nil {
		return b.orEnded(ctx, fmt.Errorf("inspect container: %w", err))
	}
	if state.State == nil || state.State.Pid == 0 {
		return b.orEnded(ctx, errStopped)
	}
	if err := verify(state.State.Pid, b.covers); err != nil {
		return err
	}
	b.listener.expect(state.State.Pid)
	select {
	case b.stream = <-b.listener.found:
		// A process that is killed must leave no file behind. The container's mount
		// keeps the inode of the directory.
		b.listener.Close()
		return nil
	case <-b.monitor.ended:
		return b.orEnded(ctx, errStopped)
	case <-dial.Done():
		return context.Cause(dial)
	}
}

var errStopped = errors.New("the container does not run")

// orEnded returns how the box ended if that explains an error, or else the error.
func (b *box) orEnded(ctx context.Context, err error) error {
	// Of a container that is just being removed engines say so with status 500.
	removed := strings.Contains(err.Error(), "is not running")
	if !removed && !errors.Is(err, errStopped) && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return err
	}
	select {
	case <-b.monitor.ended:
		if b.monitor.exit != nil {
			return b.monitor.exit
		}
	case <-time.After(reasonTime):
	case <-ctx.Done():
	}
	return err
}

// Place returns where the box runs.
func (b *box) Place() sandbox.Place { return b.place }

// Write writes to the agent.
func (b *box) Write(p []byte) (int, error) { return b.stream.Write(p) }

// Read reads from the agent. Its error says how the box ended, if it ended by itself.
func (b *box) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	if err == nil || n > 0 {
		return n, nil // the next Read returns the error
	}
	if b.monitor.closing.Load() {
		return 0, net.ErrClosed
	}
	err = b.monitor.reason(err)
	if b.monitor.closing.Load() {
		return 0, net.ErrClosed
	}
	return 0, err
}

// Close ends the box and releases all that its launch acquired.
func (b *box) Close() error {
	b.close.Do(func() { b.err = b.remove(context.Background()) })
	return b.err
}

// abort closes a box whose launch failed. ctx is the launch's, which may be the first
// to know that the engine hangs.
func (b *box) abort(ctx context.Context) {
	b.close.Do(func() { b.err = b.remove(ctx) })
}

func (b *box) remove(ctx context.Context) error {
	b.closeStream()
	err := b.removeContainer(ctx)
	b.monitor.stop()
	b.workspace.removeIfEmpty()
	switch {
	case b.lock == nil:
		return err
	case err != nil:
		return errors.Join(err, b.lock.forfeit())
	}
	return b.lock.remove()
}

func (b *box) closeStream() {
	b.monitor.closing.Store(true)
	if b.stream != nil {
		b.stream.Close()
	}
	if b.listener != nil {
		b.listener.Close()
	}
}

// removeContainer has the engine kill and remove the container. It sends the agent no
// request to end, since a command may have compromised the agent.
func (b *box) removeContainer(ctx context.Context) error {
	if b.container == "" {
		return nil
	}
	if err := b.engine.discard(ctx, b.container, removeTime); err != nil {
		return fmt.Errorf("box %s: %w", b.id, err)
	}
	return nil
}
