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
//
// A lease is long, since a box is lost when it is over. Who waits for a command
// shall not wait as long for a word, so while somebody does the agent is asked
// more often, and where it is silent what carries the stream is asked too. That
// costs the box nothing: it only tells who waits.

const (
	// closeBeat is between two questions while somebody waits.
	closeBeat = time.Second

	// carrierTime is how long what carries the stream may take to answer. With two
	// beats before it who waits hears within 5 s that it does not.
	carrierTime = 2 * time.Second
)

// A Pinger is a stream that tells whether what carries it answers: the engine, of a
// relay. nil is also the answer of one that nothing carries.
type Pinger interface {
	Ping(ctx context.Context) error
}

// Monitor has the box asked after closely until done is called, which must be.
// silent is closed when what carries its stream does not answer; Unheard says why. It
// is nil of a stream that cannot die without a sign.
func (b *Box) Monitor() (silent <-chan struct{}, done func()) {
	if !b.Place.Heartbeat {
		return nil, func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attendants++
	if b.silent == nil {
		b.silent = make(chan struct{})
	}
	if b.beat != nil && b.slow {
		b.beat.Reset(b.beatPause())
	}
	return b.silent, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.attendants--
	}
}

// Unresponsive says why nothing is heard of the box, nil where something is or nobody
// attends to it.
func (b *Box) Unresponsive() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unheard
}

// beatPause is the time to the next beat, and notes whether that counts on nobody
// who waits. The caller holds b.mu.
func (b *Box) beatPause() time.Duration {
	b.slow = b.Place.Heartbeat && b.attendants == 0
	if b.Place.Heartbeat && !b.slow {
		return min(closeBeat, b.lease/3)
	}
	return b.lease / 3
}

// armHeartbeat starts it where it is needed. The caller holds b.mu.
func (b *Box) armHeartbeat() {
	if b.beat == nil && b.cause == nil && (b.Place.Heartbeat || len(b.runs) > 0) {
		b.heard, b.asked = time.Now(), false
		b.beat = time.AfterFunc(b.beatPause(), b.heartbeat)
	}
}

// hear notes a sign of life.
func (b *Box) hear() {
	b.mu.Lock()
	b.asked, b.unheard = false, nil
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
	} else if b.Place.Heartbeat && b.attendants > 0 {
		b.askCarrier()
	}
	silent := time.Since(b.heard)
	b.asked = true
	b.beat.Reset(b.beatPause())
	b.mu.Unlock()
	if silent >= b.lease {
		b.fail(fmt.Errorf("its agent has been silent for %v", silent.Round(time.Second)))
		return
	}
	b.send(wire.Append(nil, wire.Ping, wire.ID{}, nil)) // a failure shows as silence
}

// askCarrier asks what carries the stream to a silent agent, unless somebody is at
// it. The caller holds b.mu, and the box is there.
func (b *Box) askCarrier() {
	p, ok := b.stream.(Pinger)
	if !ok || b.endAsking != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), carrierTime)
	b.endAsking = cancel
	b.asking.Go(func() {
		err := p.Ping(ctx)
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.endAsking = nil
		if err != nil && b.asked && b.cause == nil { // it is silent still
			b.unheard = err
			close(b.silent)
			b.silent = make(chan struct{})
		}
	})
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
