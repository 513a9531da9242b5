package link

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

var errHangs = errors.New("the carrier hangs")

// A carried stream has a carrier that may hang, and an agent at its other end that is
// silent while the carrier hangs or the agent is busy.
type carried struct {
	net.Conn
	hangs, busy atomic.Bool
	pings       atomic.Int32
}

func (c *carried) Ping(ctx context.Context) error {
	if !c.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return errHangs
}

// serve is the agent.
func (c *carried) serve(conn net.Conn) {
	for r := wire.NewReader(conn, wire.FromHost); ; {
		f, err := r.Read()
		if err != nil {
			return
		}
		answer := wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`))
		if f.Kind == wire.Ping {
			c.pings.Add(1)
			if c.hangs.Load() || c.busy.Load() {
				continue
			}
			answer = wire.Append(nil, wire.Pong, wire.ID{}, nil)
		}
		conn.Write(answer)
	}
}

// onCarrier runs a test with an open link on a carried stream, by a clock of its own.
func onCarrier(t *testing.T, test func(*testing.T, *carried, *Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		host, agent := net.Pipe()
		c := &carried{Conn: host}
		l := New(c, Config{Heartbeat: true})
		var running sync.WaitGroup
		running.Go(func() { c.serve(agent) })
		if err := greet(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { l.Serve(func(wire.Frame) error { return nil }) })
		test(t, c, l)
		l.Close(nil)
		running.Wait()
	})
}

func greet(ctx context.Context, l *Link) error {
	_, err := l.Greet(ctx, Greeting{Rest: func(wire.HelloBody, *wire.Reader) error { return nil }})
	return err
}

// A call that monitors a link whose carrier hangs is told within 5 s, each time. The
// link stays open meanwhile, and is responsive again when the carrier is.
func TestMonitorReportsSilentCarrier(t *testing.T) {
	onCarrier(t, func(t *testing.T, c *carried, l *Link) {
		for _, wait := range []time.Duration{0, 100 * time.Millisecond, 4 * time.Second} {
			silent, done := l.Monitor()
			time.Sleep(wait)
			c.hangs.Store(true)
			for range 2 {
				begun := time.Now()
				<-silent
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("reported after %v", took)
				}
				if err := l.Unresponsive(); !errors.Is(err, errHangs) || l.End().How != Open {
					t.Errorf("%v, %v", err, l.End())
				}
				done()
				silent, done = l.Monitor()
			}
			done()
			c.hangs.Store(false)
			time.Sleep(DefaultLease)
			if l.Unresponsive() != nil || l.End().How != Open {
				t.Errorf("later: %v, %v", l.Unresponsive(), l.End())
			}
		}
		c.hangs.Store(true)
		begun := time.Now()
		<-l.Ending()
		if took := time.Since(begun); took < DefaultLease || took > 2*DefaultLease {
			t.Errorf("lost after %v", took)
		}
	})
}

// A slow agent behind a carrier that answers is not reported as unresponsive.
func TestMonitorToleratesSlowAgent(t *testing.T) {
	onCarrier(t, func(t *testing.T, c *carried, l *Link) {
		silent, done := l.Monitor()
		defer done()
		c.busy.Store(true)
		select {
		case <-silent:
			t.Error(l.Unresponsive())
		case <-time.After(DefaultLease - time.Second):
		}
		c.busy.Store(false)
		time.Sleep(DefaultLease)
		if l.End().How != Open {
			t.Error(l.End())
		}
	})
}

// Without monitors the agent is pinged three times in a lease, and monitors that follow
// each other closely keep no beat from coming.
func TestPingsAreFrequentOnlyWhileMonitored(t *testing.T) {
	onCarrier(t, func(t *testing.T, c *carried, l *Link) {
		pings := func(during func(time.Duration)) int32 {
			before := c.pings.Load()
			during(time.Minute)
			return c.pings.Load() - before
		}
		if n := pings(time.Sleep); n < 11 || n > 12 {
			t.Errorf("%d pings in a minute without a monitor", n)
		}
		n := pings(func(d time.Duration) {
			for range d / (10 * time.Millisecond) {
				_, done := l.Monitor()
				time.Sleep(10 * time.Millisecond)
				done()
			}
		})
		if n < 50 || n > 61 {
			t.Errorf("%d pings in a minute with monitors", n)
		}
	})
}

// A stream that cannot die without a sign is pinged only while commands run.
func TestPingsRestWhileNothingIsActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, agent := net.Pipe()
		c := &carried{Conn: host}
		var active atomic.Bool
		l := New(host, Config{Active: active.Load})
		var running sync.WaitGroup
		running.Go(func() { c.serve(agent) })
		if err := greet(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { l.Serve(func(wire.Frame) error { return nil }) })
		for _, step := range []struct {
			active bool
			want   int32
		}{{false, 0}, {true, 12}, {false, 0}, {true, 12}} {
			active.Store(step.active)
			l.Activity()
			// The beat that finds nothing active is the last one. The second keeps beats
			// off the ends of the minute.
			time.Sleep(DefaultLease + time.Second)
			before := c.pings.Load()
			time.Sleep(time.Minute)
			if n := c.pings.Load() - before; n != step.want {
				t.Errorf("active %v: %d pings in a minute, want %d", step.active, n, step.want)
			}
		}
		l.Close(nil)
		running.Wait()
	})
}
