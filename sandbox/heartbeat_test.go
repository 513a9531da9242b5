package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A wan is a stream that is carried by something which may hang, with an agent at its
// other end that says nothing while it does.
type wan struct {
	net.Conn
	hangs, busy atomic.Bool // what carries it does; only the agent is too slow to answer
	pings       atomic.Int32
}

func (w *wan) Place() Place { return Place{Heartbeat: true} }

func (w *wan) Ping(ctx context.Context) error {
	if !w.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return Errorf(DockerUnavailable, "", "it hangs")
}

// serve is the agent.
func (w *wan) serve(conn net.Conn) {
	for r := wire.NewReader(conn, wire.FromHost); ; {
		f, err := r.Read()
		if err != nil {
			return
		}
		answer := wire.Append(nil, wire.Started, f.Run, []byte(`{"pid":2}`))
		switch f.Kind {
		case wire.Hello:
			answer = wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`))
		case wire.Ping:
			w.pings.Add(1)
			if w.hangs.Load() || w.busy.Load() {
				continue
			}
			answer = wire.Append(nil, wire.Pong, wire.ID{}, nil)
		}
		conn.Write(answer)
	}
}

// over has a test use a box at the other end of a wan, with a command in it that
// does not end.
func over(t *testing.T, test func(t *testing.T, w *wan, b *Box)) {
	t.Helper()
	logs := &rawlog.Store{Dir: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		host, agent := net.Pipe()
		w := &wan{Conn: host}
		var served sync.WaitGroup
		served.Go(func() { w.serve(agent) })
		b, err := openBox(t.Context(), "b-test", w, Spec{}, logs, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Exec(t.Context(), Command{Cmd: "sleep 1000"}); err != nil {
			t.Fatal(err)
		}
		test(t, w, b)
		b.Close()
		served.Wait()
	})
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Who waits while what carries the stream hangs hears so in time, and again each
// time. The box stands meanwhile, and nothing is amiss when it is heard again.
func TestWhoWaitsHearsOfSilence(t *testing.T) {
	over(t, func(t *testing.T, w *wan, b *Box) {
		for _, wait := range []time.Duration{0, 100 * time.Millisecond, 4 * time.Second} {
			silent, done := b.Monitor()
			time.Sleep(wait)
			w.hangs.Store(true)
			for range 2 {
				begun := time.Now()
				<-silent
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("heard after %v", took)
				}
				if err := b.Unresponsive(); codeOf(err) != DockerUnavailable || b.Gone() != nil {
					t.Errorf("%v, %v", err, b.Gone())
				}
				done()
				silent, done = b.Monitor()
			}
			done()
			w.hangs.Store(false)
			time.Sleep(defaultLease)
			if b.Unresponsive() != nil || b.Gone() != nil {
				t.Errorf("later: %v, %v", b.Unresponsive(), b.Gone())
			}
		}
		w.hangs.Store(true)
		begun := time.Now()
		<-b.Done()
		if took := time.Since(begun); took < defaultLease || took > 2*defaultLease {
			t.Errorf("lost after %v", took)
		}
	})
}

// A box whose agent alone is slow is no matter of who carries its stream.
func TestSlowAgentIsNotUnheard(t *testing.T) {
	over(t, func(t *testing.T, w *wan, b *Box) {
		silent, done := b.Monitor()
		defer done()
		w.busy.Store(true)
		select {
		case <-silent:
			t.Error(b.Unresponsive())
		case <-time.After(defaultLease - time.Second):
		}
		w.busy.Store(false)
		time.Sleep(defaultLease)
		if b.Gone() != nil {
			t.Error(b.Gone())
		}
	})
}

// Nobody pays for those who might wait: without them a box is asked three times in
// a lease, and calls that follow each other keep no beat from coming.
func TestBeats(t *testing.T) {
	over(t, func(t *testing.T, w *wan, b *Box) {
		beats := func(during func(time.Duration)) int32 {
			before := w.pings.Load()
			during(time.Minute)
			return w.pings.Load() - before
		}
		if n := beats(time.Sleep); n < 11 || n > 12 {
			t.Errorf("%d beats in a minute in which nobody waits", n)
		}
		n := beats(func(d time.Duration) {
			for range d / (10 * time.Millisecond) {
				_, done := b.Monitor()
				time.Sleep(10 * time.Millisecond)
				done()
			}
		})
		if n < 50 || n > 61 {
			t.Errorf("%d beats in a minute in which somebody waits", n)
		}
	})
}
