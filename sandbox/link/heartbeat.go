package link

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// monitorBeat is between two pings while a call waits.
	monitorBeat = time.Second

	// carrierTimeout is how long the carrier of a stream may take to answer. With two
	// beats before it a waiting call learns within 5 s that it does not.
	carrierTimeout = 2 * time.Second
)

// A pinger is a stream that tells whether its carrier answers: the engine, of a relay.
type pinger interface {
	Ping(ctx context.Context) error
}

// A heartbeat pings the agent three times in a lease: always where the stream can die
// without a sign, elsewhere only while commands run. So a silent agent cannot block a
// caller for ever, and an idle box costs no wake-ups.
//
// A lease is long, since the link fails at its end. A waiting call should not wait as
// long to learn of silence. So while a call monitors the link, the agent is pinged each
// second, and where the agent is silent its carrier is pinged too. The link does not
// fail by that: only the waiting calls are told.
type heartbeat struct {
	link    *Link
	running atomic.Bool    // timer is set; written with mu held
	pinging sync.WaitGroup // the goroutine that pings the carrier

	mu           sync.Mutex
	timer        *time.Timer        // nil until the first beat is due
	last         time.Time          // when the agent last sent anything, by the beats
	pinged       bool               // a Ping went out since
	ponged       chan struct{}      // closed by the next Pong, nil where no call waits for one
	monitors     int                // calls that monitor the link
	slow         bool               // the next beat was set while there were none
	silent       chan struct{}      // closed when the carrier does not answer; nil until there is a monitor
	unresponsive error              // why it does not, nil while it does
	endPing      context.CancelFunc // cancels a ping of the carrier, nil where none is under way
}

// Monitor pings the agent closely until done is called, which must be. silent is closed
// when the carrier of the stream does not answer; Unresponsive says why. It is nil for
// a stream that cannot die without a sign.
func (l *Link) Monitor() (silent <-chan struct{}, done func()) {
	if !l.config.Heartbeat {
		return nil, func() {}
	}
	return l.beat.monitor()
}

// Unresponsive says why the agent and its carrier are silent, nil where they are not
// or no call monitors the link.
func (l *Link) Unresponsive() error { return l.beat.silence() }

// Answers pings the agent and reports whether a Pong comes in time.
func (l *Link) Answers(ctx context.Context, limit time.Duration) bool {
	pong := l.beat.expectPong()
	if l.ping() != nil {
		return false
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-pong:
		return true
	case <-l.ending:
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (l *Link) ping() error { return l.Send(wire.Append(nil, wire.Ping, wire.ID{}, nil)) }

// needed reports whether the agent is to be pinged.
func (l *Link) needed() bool {
	return l.config.Heartbeat || l.config.Active != nil && l.config.Active()
}

func (h *heartbeat) monitor() (silent <-chan struct{}, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.monitors++
	if h.silent == nil {
		h.silent = make(chan struct{})
	}
	if h.running.Load() && h.slow {
		h.timer.Reset(h.pause())
	}
	return h.silent, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.monitors--
	}
}

func (h *heartbeat) silence() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unresponsive
}

// start begins to count silence.
func (h *heartbeat) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = time.Now()
	h.arm()
}

// wake starts the heartbeat where it rests. A beat clears running before it asks
// whether it is needed, so either it sees what became active, or wake sees that it rests.
func (h *heartbeat) wake() {
	if h.running.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm()
}

// arm sets the first beat where one is needed. The caller holds h.mu.
func (h *heartbeat) arm() {
	if h.running.Load() || h.link.End().How != Open || !h.link.needed() {
		return
	}
	h.last, h.pinged = time.Now(), false
	h.set()
}

// set sets the next beat. The caller holds h.mu.
func (h *heartbeat) set() {
	h.running.Store(true)
	if h.timer == nil {
		h.timer = time.AfterFunc(h.pause(), h.beat)
	} else {
		h.timer.Reset(h.pause())
	}
}

// pause is the time to the next beat. It records whether that takes account of a
// monitor. The caller holds h.mu.
func (h *heartbeat) pause() time.Duration {
	h.slow = h.link.config.Heartbeat && h.monitors == 0
	if h.link.config.Heartbeat && !h.slow {
		return min(monitorBeat, h.link.config.Lease/3)
	}
	return h.link.config.Lease / 3
}

// beat is called by the timer.
func (h *heartbeat) beat() {
	silent, ok := h.next()
	switch {
	case !ok:
	case silent >= h.link.config.Lease:
		h.link.Fail(fmt.Errorf("its agent has been silent for %v", silent.Round(time.Second)))
	default:
		h.link.ping() // a failure shows as silence
	}
}

// next sets the next beat and returns how long the agent has been silent, or reports
// false where the heartbeat rests from now on.
func (h *heartbeat) next() (silent time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running.Store(false)
	if h.link.End().How != Open || !h.link.needed() {
		return 0, false
	}
	if !h.pinged {
		h.last = time.Now()
	} else if h.link.config.Heartbeat && h.monitors > 0 {
		h.pingCarrier()
	}
	h.pinged = true
	silent = time.Since(h.last)
	h.set()
	return silent, true
}

// heard records a sign of life.
func (h *heartbeat) heard() {
	h.mu.Lock()
	h.pinged, h.unresponsive = false, nil
	h.mu.Unlock()
}

func (h *heartbeat) expectPong() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ponged = make(chan struct{})
	return h.ponged
}

func (h *heartbeat) pong() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ponged != nil {
		close(h.ponged)
		h.ponged = nil
	}
}

// pingCarrier pings the carrier of a silent agent's stream, unless a ping is under way.
// The caller holds h.mu, and the link is open.
func (h *heartbeat) pingCarrier() {
	p, ok := h.link.stream.(pinger)
	if !ok || h.endPing != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), carrierTimeout)
	h.endPing = cancel
	h.pinging.Go(func() {
		err := p.Ping(ctx)
		cancel()
		h.carrierAnswered(err)
	})
}

func (h *heartbeat) carrierAnswered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.endPing = nil
	if err != nil && h.pinged && h.link.End().How == Open { // the agent is still silent
		h.unresponsive = err
		close(h.silent)
		h.silent = make(chan struct{})
	}
}

// cancelPing ends a ping of the carrier. The link has ended, so no other begins.
func (h *heartbeat) cancelPing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.endPing != nil {
		h.endPing()
	}
}

func (h *heartbeat) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}
