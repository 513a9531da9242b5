package docker

import (
	"context"
	"errors"
	"sync"
	"time"
)

// An engine that hangs accepts connections and answers nothing, so no request to it
// ends. One request cannot tell it from an engine that is slow: images come over
// slow networks, and a machine under load starts a box in many seconds. A ping
// beside the request can tell.

// errHangs is why a request to an engine that hangs was canceled.
var errHangs = errors.New("no answer within 5 s")

const (
	// pingInterval is the time after which a request is slow, and the engine gets a
	// ping. Hardly any request takes so long.
	pingInterval = 1500 * time.Millisecond

	// pingTimeout bounds the answer to a ping.
	pingTimeout = 3 * time.Second
)

// watchdog returns a context for requests to the engine. It ends with errHangs once
// the engine leaves a ping unanswered. The caller calls stop when its requests are
// done.
func (e *engine) watchdog(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var pings sync.WaitGroup
	pings.Go(func() {
		tick := time.NewTicker(pingInterval)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if !e.answersPing(watched) {
				cancel(errHangs)
			}
		}
	})
	return watched, func() {
		cancel(nil)
		pings.Wait()
	}
}

func (e *engine) answersPing(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := e.Ping(ctx)
	return err == nil
}

// hangs reports whether the watchdog has ended a context.
func hangs(watched context.Context) bool {
	return errors.Is(context.Cause(watched), errHangs)
}

// orHangs returns errHangs in the place of an error that comes from it.
func orHangs(watched context.Context, err error) error {
	if err != nil && hangs(watched) {
		return errHangs
	}
	return err
}

// grace returns a context for what must be finished or undone after ctx is
// canceled, within a limit. It ends at once if the watchdog ends ctx.
func grace(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	timed, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	longer, cancel := context.WithCancelCause(timed)
	unhook := context.AfterFunc(ctx, func() {
		if hangs(ctx) {
			cancel(errHangs)
		}
	})
	return longer, func() {
		unhook()
		cancel(nil)
		stop()
	}
}
