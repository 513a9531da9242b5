package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/warmbox/warmbox/sandbox"
)

// An exitMonitor learns how a container ends: from its stderr, which it attaches to,
// and from the engine, which it waits for.
type exitMonitor struct {
	engine *engine
	logger *slog.Logger
	id     string // the box's, for the log

	closing atomic.Bool               // the box is being closed, so its end needs no reason
	broke   atomic.Pointer[time.Time] // when its stream ended; nil before
	stderr  *sandbox.LastLines        // the agent's
	cancel  context.CancelFunc        // nil before start
	tasks   sync.WaitGroup            // attach and wait, which end with cancel
	ended   chan struct{}             // closed when the container is gone, or the engine cannot tell
	exit    *sandbox.EndedError       // valid after ended; nil if the engine cannot tell
	err     error                     // valid after ended: why the engine cannot tell
}

// reasonTime bounds the wait for the reason why a stream ended. Until then the box counts
// as one that runs, and commands for it wait, so it is short: the kernel frees a box's
// memory and file systems before the engine reports the end, which can take longer where
// a box had very many files.
const reasonTime = 2 * time.Second

func newExitMonitor(e *engine, logger *slog.Logger, id string) *exitMonitor {
	return &exitMonitor{engine: e, logger: logger, id: id, stderr: new(sandbox.LastLines), ended: make(chan struct{})}
}

// start starts to monitor a container, beyond the end of ctx until stop.
func (m *exitMonitor) start(ctx context.Context, container string) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	conn, err := m.engine.upgrade(ctx, "/containers/"+container+"/attach", url.Values{"stream": {"1"}, "stderr": {"1"}}, nil)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	attached := make(chan struct{})
	m.tasks.Go(func() {
		defer close(attached)
		defer conn.Close()
		stop := context.AfterFunc(life, func() { conn.Close() })
		defer stop()
		io.Copy(io.Discard, &demultiplexer{r: conn, stderr: m.stderr})
	})
	return m.startWait(ctx, life, container, attached)
}

// startWait starts to wait for the end of the container.
func (m *exitMonitor) startWait(ctx, life context.Context, id string, attached <-chan struct{}) error {
	// The client blocks here until the engine's first bytes, and the caller may cancel
	// the launch meanwhile.
	stop := context.AfterFunc(ctx, m.cancel)
	results, errs := m.engine.ContainerWait(life, id, container.WaitConditionRemoved)
	stop()
	m.tasks.Go(func() { m.await(id, results, errs, attached) })
	return context.Cause(ctx)
}

// await records what the engine reports of the container's end.
func (m *exitMonitor) await(id string, results <-chan container.WaitResponse, errs <-chan error, attached <-chan struct{}) {
	defer close(m.ended)
	select {
	case err := <-errs:
		m.err = err
		m.logger.Debug("engine does not report how the container ended", "box", m.id, "err", err)
	case r := <-results:
		select {
		case <-attached:
		case <-time.After(reasonTime):
		}
		m.exit = &sandbox.EndedError{ExitCode: int(r.StatusCode), Stderr: m.stderr.String()}
		m.exit.Memory = m.exit.ExitCode == 128+9 && !m.closing.Load() && m.engine.sawOOM(id, m.brokeAt())
	}
}

// stop ends the monitor.
func (m *exitMonitor) stop() {
	if m.cancel != nil {
		m.cancel()
	}
	m.tasks.Wait()
}

// brokeAt returns when the stream ended, or now if that is not known yet.
func (m *exitMonitor) brokeAt() time.Time {
	if at := m.broke.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// errHungUp says in words that an agent closed its stream.
var errHungUp = errors.New("its agent hung up")

// reason waits for the reason of an error: how the box ended, or why the engine cannot
// tell. Without a reason in time it adds that to the error.
func (m *exitMonitor) reason(err error) error {
	now := time.Now()
	m.broke.CompareAndSwap(nil, &now)
	if err == io.EOF {
		err = errHungUp
	}
	select {
	case <-m.ended:
	case <-time.After(reasonTime):
		return fmt.Errorf("%w, and the engine did not report within %v how the box ended", err, reasonTime)
	}
	switch {
	case m.exit != nil:
		return m.exit
	case m.err != nil:
		return fmt.Errorf("the engine that had it was lost or restarted (%s)", reason(m.err))
	}
	return err
}

const (
	// oomTime bounds the time between a memory shortage and the end of the box that it
	// explains. The kernel kills at once, and an engine reports it later.
	oomTime = 5 * time.Second

	// oomDelay bounds how far an engine's event follows the end.
	oomDelay = 100 * time.Millisecond

	// oomTimeout bounds the engine's answer.
	oomTimeout = time.Second
)

// sawOOM reports whether the engine saw a container run out of memory a short time
// before its stream broke, or since. The container need not exist any more.
func (e *engine) sawOOM(container string, broke time.Time) bool {
	ctx, cancel := context.WithTimeout(context.Background(), oomTimeout)
	defer cancel()
	at := func(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	seen, errs := e.Events(ctx, events.ListOptions{
		Since: at(broke.Add(-oomTime)), Until: at(time.Now().Add(oomDelay)),
		Filters: filters.NewArgs(filters.Arg("container", container), filters.Arg("event", "oom")),
	})
	select {
	case <-seen:
		return true
	case <-errs: // io.EOF where the engine has no more events
		return false
	}
}
