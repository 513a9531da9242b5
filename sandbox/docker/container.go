package docker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// create creates a container. It waits for the engine's answer also when ctx is
// canceled meanwhile: without its id the container could not be removed. If the
// engine hangs, a cleanup waits in the caller's place.
func (e *engine) create(ctx context.Context, config *container.Config, host *container.HostConfig) (container.CreateResponse, error) {
	type answer struct {
		container.CreateResponse
		err error
	}
	if ctx.Err() != nil {
		return container.CreateResponse{}, ctx.Err()
	}
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answers := make(chan answer, 1)
	go func() { // ends with the answer, which this call or the cleanup receives
		created, err := e.ContainerCreate(request, config, host, nil, nil, "")
		answers <- answer{created, err}
	}()
	longer, done := grace(ctx, launchGrace)
	defer done()
	select {
	case a := <-answers:
		cancel()
		if a.err != nil {
			return a.CreateResponse, fmt.Errorf("create container: %w", a.err)
		}
		return a.CreateResponse, nil
	case <-longer.Done():
	}
	e.cleanups.run(func(ctx context.Context) {
		defer context.AfterFunc(ctx, cancel)()
		defer cancel()
		if a := <-answers; a.err == nil {
			e.retryRemove(ctx, a.ID)
		}
	})
	return container.CreateResponse{}, fmt.Errorf("create container: %w", context.Cause(longer))
}

// discard removes a container, also when ctx is canceled. If that fails, a cleanup
// repeats it: the engine may hang, be about to restart, or still recover from a
// crash.
func (e *engine) discard(ctx context.Context, id string, limit time.Duration) error {
	ctx, done := grace(ctx, limit)
	defer done()
	watched, stop := e.watchdog(ctx)
	defer stop()
	err := orHangs(watched, e.remove(watched, id))
	if err != nil {
		e.cleanups.run(func(ctx context.Context) { e.retryRemove(ctx, id) })
	}
	return err
}

// The back-off between two attempts to remove a container.
const (
	removeBackoff    = 100 * time.Millisecond
	maxRemoveBackoff = 30 * time.Second
)

// retryRemove removes a container, with as many attempts as that takes.
func (e *engine) retryRemove(ctx context.Context, id string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for backoff := removeBackoff; ; backoff = min(2*backoff, maxRemoveBackoff) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if e.remove(ctx, id) == nil {
			return
		}
		timer.Reset(backoff)
	}
}

// remove has the engine kill and remove a container, and waits until it is gone.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if gone(err) && !errdefs.IsNotFound(err) {
		err = e.awaitRemoval(ctx, id) // AutoRemove is removing it
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
	return nil
}

// awaitRemoval polls until the engine reports an error for a container, which is
// that it does not exist if all is well.
func (e *engine) awaitRemoval(ctx context.Context, id string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := e.ContainerInspect(ctx, id); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cleanups remove in the background what could not be removed in time. Without them
// a container that was created and never started would exist for as long as its
// process lives; one that was started ends by itself.
type cleanups struct {
	ctx    context.Context // of all of them; outlives each call
	cancel context.CancelFunc
	all    sync.WaitGroup
}

func newCleanups() *cleanups {
	ctx, cancel := context.WithCancel(context.Background())
	return &cleanups{ctx: ctx, cancel: cancel}
}

// run runs f in the background. The context of f ends with the cleanups.
func (c *cleanups) run(f func(context.Context)) { c.all.Go(func() { f(c.ctx) }) }

// cleanupTime is how long cleanups may continue after their launcher was closed.
const cleanupTime = 2 * time.Second

// close waits for the cleanups, and cancels them after cleanupTime.
func (c *cleanups) close() {
	defer time.AfterFunc(cleanupTime, c.cancel).Stop()
	c.all.Wait()
	c.cancel()
}
