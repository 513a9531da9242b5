package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A minimal Launcher's agents answer Hello and Ping, and no more: so its boxes run by a
// clock of a test's own.
type minimal struct{}

func (minimal) Launch(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error) {
	host, agent := net.Pipe()
	go func() { // ends with its box
		defer agent.Close()
		r := wire.NewReader(agent, wire.FromHost)
		for {
			f, err := r.Read()
			switch {
			case err != nil:
				return
			case f.Kind == wire.Hello:
				agent.Write(wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`)))
			case f.Kind == wire.Ping:
				agent.Write(wire.Append(nil, wire.Pong, wire.ID{}, nil))
			}
		}
	}()
	return placeless{host}, nil
}

// placeless is a box of which nothing is known, as counted wants it.
type placeless struct{ net.Conn }

func (placeless) Place() sandbox.Place { return sandbox.Place{} }

// inTime runs a test by a clock of its own, with a pool of such boxes.
func inTime(t *testing.T, p sandbox.Pool, test func(*testing.T, *sandbox.Manager, *counter)) {
	synctest.Test(t, func(t *testing.T) {
		c := &counter{Launcher: minimal{}}
		m := boxtest.Manager(t, c, sandbox.Spec{Image: "standard"})
		m.Pool = p
		test(t, m, c)
	})
}

// pass lets time pass, and all that it sets off happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A spare box whose workspace was deleted and made again since its start has the old one,
// and is not handed over.
func TestSpareBoxOfReplacedWorkspaceIsNotHandedOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workspace")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	old, err := os.Open(dir) // as a box has it mounted: so its number goes to no other
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	inTime(t, sandbox.Pool{Warm: 1}, func(t *testing.T, m *sandbox.Manager, c *counter) {
		m.Defaults.Workspace = dir
		m.Warm(sandbox.Owner{})
		synctest.Wait()
		start(t, m, sandbox.Request{})
		pass(2 * time.Second) // so that what follows is no burst
		if launched, _ := c.figures(); launched != 2 || m.Stats().Ready != 1 {
			t.Errorf("%d launched, %+v: want that the spare box was claimed", launched, m.Stats())
		}
		stale := c.streams[1]
		if err := errors.Join(os.Remove(dir), os.Mkdir(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
		start(t, m, sandbox.Request{})
		synctest.Wait()
		if _, err := stale.Write(nil); err == nil {
			t.Error("the box with the old workspace runs on")
		}
		if launched, _ := c.figures(); launched != 4 || m.Stats().Ready != 1 {
			t.Errorf("%d launched, %+v: want one that was started, and one spare box", launched, m.Stats())
		}
		if s := m.Stats(); s.Hits != 1 || s.Misses != 1 {
			t.Errorf("%+v: want one hit and one miss", s)
		}
	})
}

// A pool whose boxes do not start tries less and less often. A box that starts, for the
// pool or for a caller, resets the back-off.
func TestPoolBacksOffUntilABoxStarts(t *testing.T) {
	inTime(t, sandbox.Pool{Warm: 1}, func(t *testing.T, m *sandbox.Manager, c *counter) {
		// attempts counts them from cause on, which may set the first one off.
		attempts := func(d time.Duration, cause func()) int {
			before, _ := c.figures()
			cause()
			pass(d)
			after, _ := c.figures()
			return after - before
		}
		c.breakWith(errors.New("no engine"))
		if n := attempts(10*time.Second, func() { m.Warm(sandbox.Owner{}) }); n != 4 { // after 0, 1, 3 and 7 s
			t.Errorf("%d attempts in the first 10 s", n)
		}
		pass(10 * time.Minute)
		if n := attempts(10*time.Minute, func() {}); n != 10 {
			t.Errorf("%d attempts in 10 min, long after", n)
		}

		c.breakWith(nil)
		start(t, m, sandbox.Request{Env: map[string]string{"A": "1"}}) // which no spare box has
		if synctest.Wait(); m.Stats().Ready != 1 {
			t.Error("a box started for a caller, and the pool still backs off")
		}

		c.breakWith(errors.New("no engine"))
		took := func() { start(t, m, sandbox.Request{}) } // the spare box
		if n := attempts(10*time.Second, took); n != 4 {
			t.Errorf("%d attempts in the first 10 s after a box had started", n)
		}
		c.breakWith(nil)
		pass(time.Minute)
		c.breakWith(errors.New("no engine"))
		lost := func() { c.streams[len(c.streams)-1].Close() }
		if n := attempts(10*time.Second, lost); n != 4 {
			t.Errorf("%d attempts in the first 10 s after the pool had started one", n)
		}
	})
}

// An idle box, and a spare one, end when their time is over and not before.
func TestBoxesEndWhenTheirTimeIsOver(t *testing.T) {
	inTime(t, sandbox.Pool{Warm: 1, Idle: time.Hour, Life: 20 * time.Minute}, func(t *testing.T, m *sandbox.Manager, c *counter) {
		m.IdleTimeout = 30 * time.Minute
		m.Warm(sandbox.Owner{})
		synctest.Wait()
		box := start(t, m, sandbox.Request{})
		pass(20*time.Minute - time.Millisecond)
		if launched, _ := c.figures(); launched != 2 {
			t.Errorf("%d boxes were launched, want the one that was taken and its successor", launched)
		}
		pass(2 * time.Millisecond)
		if launched, _ := c.figures(); launched != 3 || m.Stats().Ready != 1 {
			t.Errorf("%d boxes were launched, and %+v: want another in the place of the old one", launched, m.Stats())
		}
		pass(10*time.Minute - 3*time.Millisecond)
		if err := box.Gone(); err != nil {
			t.Error(err)
		}
		pass(2 * time.Millisecond)
		if box.Gone() == nil {
			t.Error("it runs though it was idle for its time")
		}
		pass(30*time.Minute - 3*time.Millisecond)
		if s := m.Stats(); s.Ready != 1 {
			t.Errorf("%+v before an hour without a client", s)
		}
		pass(4 * time.Millisecond)
		if s := m.Stats(); s.Ready != 0 {
			t.Errorf("%+v after an hour without a client", s)
		}
	})
}
