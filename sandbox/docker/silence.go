package docker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// An engine that hangs takes connections and answers nothing, and no request to
// it ends. One that is slow looks the same from any one request, so time alone
// cannot tell: images come over slow networks, and a crowded machine starts a
// box in many seconds. What tells is a ping beside the request.

// errSilent is why something ended that waited for an engine that hangs.
var errSilent = errors.New("no answer within 5 s")

const (
	// slowTime is how long a request may take before its engine is asked
	// whether it is there at all. Hardly any takes so long.
	slowTime = 1500 * time.Millisecond

	// pulseTime is how long the answer to that may take.
	pulseTime = 3 * time.Second

	// silenceTime is how long an engine that hung is believed to hang still.
	// Without that, who waits in line behind one that waited in vain would do so
	// anew.
	silenceTime = time.Second
)

// A silence is the last time that somebody waited in vain.
type silence struct {
	err error
	at  time.Time
}

// noted returns err, having noted it where it tells of an engine that hangs.
func (l *Launcher) noted(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, errSilent) || errors.Is(err, context.DeadlineExceeded)) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.silence = silence{err, time.Now()}
	}
	return err
}

// attend returns a context that ends when the engine hangs, and lives on for as
// long as the engine answers a ping. done must be called once what the engine
// was asked for is there.
func (e *engine) attend(ctx context.Context) (attended context.Context, done func()) {
	attended, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(slowTime)
		defer tick.Stop()
		for {
			select {
			case <-attended.Done():
				return
			case <-tick.C:
			}
			if !e.beats(attended) {
				cancel(errSilent)
			}
		}
	})
	return attended, func() {
		cancel(nil)
		watch.Wait()
	}
}

// beats reports whether the engine answers a ping.
func (e *engine) beats(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pulseTime)
	defer cancel()
	_, err := e.Ping(ctx)
	return err == nil
}

// hung reports whether an attended context has ended because of its engine.
func hung(attended context.Context) bool {
	return errors.Is(context.Cause(attended), errSilent)
}

// orSilence returns errSilent for an error that comes from an engine's silence.
func orSilence(attended context.Context, err error) error {
	if err != nil && hung(attended) {
		return errSilent
	}
	return err
}

// detach returns a context that lives on for some time when ctx is given up, but
// not when ctx has ended because of its engine.
func detach(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	timed, stop := context.WithTimeout(context.WithoutCancel(ctx), most)
	detached, cancel := context.WithCancelCause(timed)
	heed := context.AfterFunc(ctx, func() {
		if hung(ctx) {
			cancel(errSilent)
		}
	})
	return detached, func() {
		heed()
		cancel(nil)
		stop()
	}
}

// create makes a container. It waits for the engine's answer even when ctx is
// done meanwhile: a container whose id nobody heard could not be removed. Where
// the engine hangs it is waited for behind the caller's back.
func (e *engine) create(ctx context.Context, config *container.Config, host *container.HostConfig) (container.CreateResponse, error) {
	type answer struct {
		container.CreateResponse
		err error
	}
	if ctx.Err() != nil {
		return container.CreateResponse{}, ctx.Err()
	}
	asking, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	answers := make(chan answer, 1)
	go func() { // ends with its answer, which somebody takes
		created, err := e.ContainerCreate(asking, config, host, nil, nil, "")
		answers <- answer{created, err}
	}()
	patient, done := detach(ctx, launchGrace)
	defer done()
	select {
	case a := <-answers:
		giveUp()
		if a.err != nil {
			return a.CreateResponse, fmt.Errorf("create container: %w", a.err)
		}
		return a.CreateResponse, nil
	case <-patient.Done():
	}
	e.errands.run(func(ctx context.Context) {
		defer context.AfterFunc(ctx, giveUp)()
		defer giveUp()
		if a := <-answers; a.err == nil {
			e.removeInTime(ctx, a.ID)
		}
	})
	return container.CreateResponse{}, fmt.Errorf("create container: %w", context.Cause(patient))
}

// discard removes a container, even when ctx is done. Where that fails it is left to
// when the engine can: it may hang, be about to start anew, or have just done so and
// not be done with what a crash left.
func (e *engine) discard(ctx context.Context, id string, most time.Duration) error {
	ctx, done := detach(ctx, most)
	defer done()
	attended, answered := e.attend(ctx)
	defer answered()
	err := orSilence(attended, e.remove(attended, id))
	if err != nil {
		e.errands.run(func(ctx context.Context) { e.removeInTime(ctx, id) })
	}
	return err
}

const (
	// removePause is between two tries to remove a container, at first and at last.
	removePause    = 100 * time.Millisecond
	maxRemovePause = 30 * time.Second
)

// removeInTime removes a container however often that takes.
func (e *engine) removeInTime(ctx context.Context, id string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for pause := removePause; ; pause = min(2*pause, maxRemovePause) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if e.remove(ctx, id) == nil {
			return
		}
		timer.Reset(pause)
	}
}

// remove has the engine kill and remove a container, and waits until it is gone.
func (e *engine) remove(ctx context.Context, id string) error {
	err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if gone(err) && !errdefs.IsNotFound(err) {
		err = e.vanish(ctx, id) // the engine is at it already, because of AutoRemove
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove container %.12s: %w", id, err)
	}
	return nil
}

// vanish waits until the engine does not know a container any more.
func (e *engine) vanish(ctx context.Context, id string) error {
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

// errands are what is taken back from engines that hang, when they no longer do
// and nobody waits for it. A container that was made and never started would
// stay for as long as its program lives; others end by themselves too.
type errands struct {
	life context.Context // of all of them
	end  context.CancelFunc
	all  sync.WaitGroup
}

func newErrands() *errands {
	life, end := context.WithCancel(context.Background())
	return &errands{life: life, end: end}
}

// run does something in the background until it is done or nobody may wait for
// it any more.
func (e *errands) run(f func(context.Context)) { e.all.Go(func() { f(e.life) }) }

// close gives them a moment, then ends them.
func (e *errands) close() {
	defer time.AfterFunc(lastWords, e.end).Stop()
	e.all.Wait()
	e.end()
}
