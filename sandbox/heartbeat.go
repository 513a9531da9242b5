package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// The heartbeat asks the agent whether it is there, a few times in a lease:
// always where the stream can die without a sign, elsewhere only while
// something runs, so that a silent agent cannot keep a caller waiting for ever
// and an idle box costs no wake-ups.

// armHeartbeat starts it where it is needed. The caller holds b.mu.
func (b *Box) armHeartbeat() {
	if b.beat == nil && b.cause == nil && (b.Place.Heartbeat || len(b.runs) > 0) {
		b.heard, b.asked = time.Now(), false
		b.beat = time.AfterFunc(b.lease/3, b.heartbeat)
	}
}

// hear notes a sign of life.
func (b *Box) hear() {
	b.mu.Lock()
	b.asked = false
	b.mu.Unlock()
}

func (b *Box) heartbeat() {
	b.mu.Lock()
	if b.cause != nil || !b.Place.Heartbeat && len(b.runs) == 0 {
		b.beat = nil
		b.mu.Unlock()
		return
	}
	if !b.asked {
		b.heard = time.Now()
	}
	silent := time.Since(b.heard)
	b.asked = true
	b.beat = time.AfterFunc(b.lease/3, b.heartbeat)
	b.mu.Unlock()
	if silent >= b.lease {
		b.fail(fmt.Errorf("its agent has been silent for %v", silent.Round(time.Second)))
		return
	}
	b.send(wire.Append(nil, wire.Ping, wire.ID{}, nil)) // a failure shows as silence
}

// answers asks the agent whether it is there, and waits for its answer.
func (b *Box) answers(ctx context.Context, patience time.Duration) bool {
	pong := make(chan struct{})
	b.mu.Lock()
	b.pong = pong
	b.mu.Unlock()
	if b.send(wire.Append(nil, wire.Ping, wire.ID{}, nil)) != nil {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-pong:
		return true
	case <-b.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (b *Box) ponged() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pong != nil {
		close(b.pong)
		b.pong = nil
	}
}
