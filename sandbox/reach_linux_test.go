package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A road is a Launcher of one site's box, whose streams a test can cut, and which can be
// unreachable.
type road struct {
	*site

	mu      sync.Mutex
	current *siteStream
	closed  error // why the box is unreachable; nil: it is reachable
	tries   int   // that failed
}

func (r *road) Launch(context.Context, string, Spec) (io.ReadWriteCloser, error) { return r.open() }

func (r *road) Detached(context.Context) ([]Detached, error) { return nil, nil }

func (r *road) Reattach(context.Context, Detached) (io.ReadWriteCloser, error) { return r.open() }

func (r *road) open() (io.ReadWriteCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		r.tries++
		return nil, r.closed
	}
	r.current = r.stream()
	return r.current, nil
}

// cut breaks the stream as a fault of the network does.
func (r *road) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.Conn.Close()
}

func (r *road) close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.tries = why, 0
}

// failed waits until so many tries to reattach have failed.
func (r *road) failed(times int) {
	r.t.Helper()
	r.until("tries", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.tries >= times
	})
}

func (r *road) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			r.t.Fatalf("no %s within a minute", what)
		}
	}
}

// newRoad returns the manager of a persistent box with the name dev.
func newRoad(t *testing.T) (*road, *Manager, *Box) {
	t.Helper()
	r := &road{site: newSite(t)}
	m := &Manager{Launcher: r, Logs: r.logs}
	t.Cleanup(m.Close)
	b, _, err := m.Start(t.Context(), me, Request{Name: "dev", Persistent: true})
	if err != nil {
		t.Fatal(err)
	}
	return r, m, b
}

// The server reattaches to a persistent box whose stream breaks, and what runs in it does
// not notice: its output is in its log, all and in order.
func TestBrokenStreamReattachesAndLosesNothing(t *testing.T) {
	r, m, b := newRoad(t)
	run := r.start(b, Command{Cmd: "i=0; until [ -e go ]; do echo $((i++)); done; exit 6", Dir: r.dir})
	for range 10 {
		r.printed(run, "\n")
		r.cut()
		<-run.Done()
		if e := run.Exit(); e.Status != Running || codeOf(e.Err) != DockerUnavailable {
			t.Fatalf("whose stream is cut: %+v", e)
		}
		r.until("box", func() bool { again, err := m.Box(me, b.ID); return err == nil && again != b })
		b, _ = m.Box(me, b.ID)
		again, err := m.Run(me, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		run = again
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := r.over(run); e.Status != Exited || e.Code != 6 {
		t.Errorf("%+v", e)
	}
	n := 0
	for line := range strings.Lines(r.logged(run.ID)) {
		if line != fmt.Sprintln(n) {
			t.Fatalf("%q instead of %d", line, n)
		}
		n++
	}
	t.Logf("%d lines", n)
	if record, err := m.Record(me, run.ID); err != nil || record.Exit.Status != Exited {
		t.Errorf("%+v, %v", record, err)
	}
	if box, reused, err := m.Start(t.Context(), me, Request{Name: "dev"}); box != b || !reused || err != nil {
		t.Errorf("the name gives %v, %v, %v", box, reused, err)
	}
	if err := m.Stop(me, b.ID); err != nil {
		t.Error(err)
	}
}

// While a box is unreachable calls report why, and none gets another box in its place.
func TestUnreachableBoxIsReportedAndNotReplaced(t *testing.T) {
	r, m, b := newRoad(t)
	run := r.start(b, Command{Cmd: "echo up; exec sleep 1000"})
	r.printed(run, "up\n")
	r.close(Errorf(DockerUnavailable, "", "no engine"))
	r.cut()
	r.failed(3)
	_, berr := m.Box(me, b.ID)
	_, _, serr := m.Start(t.Context(), me, Request{Name: "dev", Persistent: true})
	for _, err := range []error{berr, serr, m.Stop(me, b.ID)} {
		if codeOf(err) != DockerUnavailable || !strings.Contains(err.Error(), b.ID) {
			t.Errorf("%v", err)
		}
	}
	if record, err := m.Record(me, run.ID); err != nil || record.Exit.Status != Running || codeOf(record.Exit.Err) != DockerUnavailable {
		t.Errorf("%+v, %v", record, err)
	}
	r.close(nil)
	r.until("box", func() bool { _, err := m.Box(me, b.ID); return err == nil })
	if again, err := m.Run(me, run.ID); err != nil || again.Exit().Status != Running {
		t.Errorf("%+v, %v", again, err)
	}
}

// A box that has ended meanwhile is lost, and its commands with it, for a reason that is
// reported.
func TestBoxThatEndedIsNotReattached(t *testing.T) {
	r, m, b := newRoad(t)
	run := r.start(b, Command{Cmd: "echo up; exec sleep 1000"})
	r.printed(run, "up\n")
	r.close(Errorf(BoxGone, "", "the box has ended"))
	r.cut()
	r.until("end", func() bool { _, err := m.Box(me, b.ID); return codeOf(err) == BoxGone })
	record, err := m.Record(me, run.ID)
	if e := record.Exit; err != nil || e.Status != Lost || codeOf(e.Err) != BoxGone || !strings.Contains(e.Err.Error(), "has ended") {
		t.Errorf("%+v, %v", e, err)
	}
	if s := m.Stats(); s.Ended[Lost] != 1 || s.Runs != 0 || s.Boxes != 0 {
		t.Errorf("%+v", s)
	}
	r.close(nil)
	m.history.forget(me)
	if record, err := m.Record(me, run.ID); err != nil || record.Exit.Status != Lost {
		t.Errorf("%+v, %v", record, err)
	}
}

// A server that is shut down while it tries to reattach leaves the box to the next one.
func TestCloseLeavesUnreachableBoxDetached(t *testing.T) {
	r, m, b := newRoad(t)
	run := r.start(b, Command{Cmd: "echo up; exec sleep 1000"})
	r.printed(run, "up\n")
	r.close(Errorf(DockerUnavailable, "", "no engine"))
	r.cut()
	r.failed(1)
	m.Close()
	r.kept.ID = b.ID
	b = r.mustResume()
	if len(b.all()) != 1 {
		t.Errorf("%d commands were resumed", len(b.all()))
	}
	b.Close()
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
