package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/warmbox/warmbox/sandbox"
)

// A box is a container and the stream to the agent in it.
type box struct {
	engine    *engine
	logger    *slog.Logger
	id        string
	container string // the engine's id; "" until it is created
	place     sandbox.Place
	workspace workspace

	claim    *claim    // nil unless it is kept
	name     *lock     // likewise; says who has the kept box of its name
	listener *listener // nil on the relay path
	covers   []cover   // to be verified before the stream is taken
	stream   io.ReadWriteCloser

	stderr  *sandbox.LastLines // the agent's
	cancel  context.CancelFunc
	tasks   sync.WaitGroup      // attach and wait, which end with cancel
	ended   chan struct{}       // closed when the container is gone, or nobody can say
	end     *sandbox.EndedError // valid after ended; nil if nobody can say
	unheard error               // valid after ended; why nobody can

	closing atomic.Bool
	close   sync.Once
	err     error // of Close
}

const (
	// firstDial is what the agent has to dial the box's socket from when its
	// container runs. It takes some 50 ms where that works at all.
	firstDial = time.Second

	// lastWords bounds the wait for the reason of a stream's end.
	lastWords = 2 * time.Second

	// closeTime bounds how long an engine may take to remove a container.
	closeTime = 20 * time.Second
)

var _ sandbox.Placed = (*box)(nil)

// create makes the container and all that must be in place before it starts:
// its directories, and who listens to its last words and its end.
func (b *box) create(ctx context.Context, c request) (warnings []string, err error) {
	config, host := c.container()
	created, err := b.engine.create(ctx, config, host)
	if err != nil {
		return nil, err
	}
	b.container = created.ID
	var fill sync.WaitGroup
	var filled error
	fill.Go(func() { filled = b.fill(ctx, c) })
	err = b.watch(ctx)
	fill.Wait()
	return created.Warnings, errors.Join(err, filled)
}

// watch sets up attach and wait, whose life is the box's.
func (b *box) watch(ctx context.Context) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.cancel = cancel
	conn, err := b.engine.upgrade(ctx, "/containers/"+b.container+"/attach", url.Values{"stream": {"1"}, "stderr": {"1"}}, nil)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	attached := make(chan struct{})
	b.tasks.Go(func() {
		defer close(attached)
		defer conn.Close()
		stop := context.AfterFunc(life, func() { conn.Close() })
		defer stop()
		io.Copy(io.Discard, &demux{r: conn, stderr: b.stderr})
	})
	// The client waits for the engine's first word here, and the launch may
	// be given up meanwhile.
	stop := context.AfterFunc(ctx, cancel)
	results, errs := b.engine.ContainerWait(life, b.container, container.WaitConditionRemoved)
	stop()
	b.tasks.Go(func() { b.await(results, errs, attached) })
	return context.Cause(ctx)
}

// await takes the engine's word about the container's end.
func (b *box) await(results <-chan container.WaitResponse, errs <-chan error, attached <-chan struct{}) {
	defer close(b.ended)
	select {
	case err := <-errs:
		b.unheard = err
		b.logger.Debug("nobody says how the container ended", "box", b.id, "err", err)
	case r := <-results:
		select {
		case <-attached:
		case <-time.After(lastWords):
		}
		b.end = &sandbox.EndedError{ExitCode: int(r.StatusCode), Stderr: b.stderr.String()}
		b.end.Memory = b.end.ExitCode == 128+9 && !b.closing.Load() && b.engine.sawOOM(b.container)
	}
}

const (
	// oomTime is how long before its end a box can have used up its memory for that to
	// be why it was killed: the kernel kills at once, and an engine says so by and by.
	oomTime = 5 * time.Second

	// oomDelay is for an event that comes behind the end.
	oomDelay = 100 * time.Millisecond

	// oomPatience is how long the engine may take to say it.
	oomPatience = time.Second
)

// sawOOM reports whether an engine has seen of late that a container's memory was used
// up. The container need not be there any more.
func (e *engine) sawOOM(container string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), oomPatience)
	defer cancel()
	now := time.Now()
	at := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	seen, errs := e.Events(ctx, events.ListOptions{
		Since: at(now.Add(-oomTime)), Until: at(now.Add(oomDelay)),
		Filters: filters.NewArgs(filters.Arg("container", container), filters.Arg("event", "oom")),
	})
	select {
	case <-seen:
		return true
	case <-errs: // also where it has no more to tell
		return false
	}
}

// run starts the container.
func (b *box) run(ctx context.Context) error {
	if err := b.engine.ContainerStart(ctx, b.container, container.StartOptions{}); err != nil {
		return fmt.Errorf("start container: %w", err)
	}
	return nil
}

// meet waits for the agent at the box's own socket.
func (b *box) meet(ctx context.Context, patience time.Duration) error {
	dial, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w within %v", errNoDial, patience))
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
		// Nothing may be left on disk should this process be killed: the
		// container's mount keeps the directory's inode.
		b.listener.Close()
		return nil
	case <-b.ended:
		return b.orEnded(ctx, errStopped)
	case <-dial.Done():
		return context.Cause(dial)
	}
}

var errStopped = errors.New("the container does not run")

// orEnded returns how the box ended where an error comes from that, or else
// the error.
func (b *box) orEnded(ctx context.Context, err error) error {
	if !errors.Is(err, errStopped) && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return err
	}
	select {
	case <-b.ended:
		if b.end != nil {
			return b.end
		}
	case <-time.After(lastWords):
	case <-ctx.Done():
	}
	return err
}

// Place tells where the box is.
func (b *box) Place() sandbox.Place { return b.place }

// Write writes to the agent.
func (b *box) Write(p []byte) (int, error) { return b.stream.Write(p) }

// Read reads from the agent. Where the box has ended by itself its error says
// how.
func (b *box) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	if err == nil || n > 0 {
		return n, nil // an error comes again
	}
	if b.closing.Load() {
		return 0, net.ErrClosed
	}
	select {
	case <-b.ended:
	case <-time.After(lastWords):
		return 0, err
	}
	if b.closing.Load() {
		return 0, net.ErrClosed
	}
	switch {
	case b.end != nil:
		return 0, b.end
	case b.unheard != nil:
		return 0, fmt.Errorf("the engine that had it was lost or restarted (%s)", reason(b.unheard))
	}
	return 0, err
}

// Close ends the box and takes back all that its launch took.
func (b *box) Close() error {
	b.close.Do(func() { b.err = b.remove(context.Background()) })
	return b.err
}

// abandon closes a box whose launch did not come to its end. ctx is the launch's,
// which may be the first to know that the engine hangs.
func (b *box) abandon(ctx context.Context) {
	b.close.Do(func() { b.err = b.remove(ctx) })
}

func (b *box) remove(ctx context.Context) error {
	b.hangUp()
	err := b.removeContainer(ctx)
	b.letGo()
	b.workspace.release()
	if b.claim == nil {
		return err
	}
	if err != nil {
		return errors.Join(err, b.claim.forfeit(), b.giveName())
	}
	return errors.Join(b.claim.remove(), b.giveName())
}

func (b *box) hangUp() {
	b.closing.Store(true)
	if b.stream != nil {
		b.stream.Close()
	}
	if b.listener != nil {
		b.listener.Close()
	}
}

// letGo ends what listens to the container.
func (b *box) letGo() {
	if b.cancel != nil {
		b.cancel()
	}
	b.tasks.Wait()
}

// removeContainer has the engine kill and remove the container. The agent is not
// asked: it may be anything by now.
func (b *box) removeContainer(ctx context.Context) error {
	if b.container == "" {
		return nil
	}
	if err := b.engine.discard(ctx, b.container, closeTime); err != nil {
		return fmt.Errorf("box %s: %w", b.id, err)
	}
	return nil
}
