package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

// A cutter is a launcher whose newest stream a test can break as a fault does: both
// ends see that, and no call has closed the box.
type cutter struct {
	*Launcher

	mu     sync.Mutex
	newest *box
}

func (c *cutter) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	return c.record(c.Launcher.Launch(ctx, id, spec))
}

func (c *cutter) Reattach(ctx context.Context, k sandbox.Detached) (io.ReadWriteCloser, error) {
	return c.record(c.Launcher.Reattach(ctx, k))
}

func (c *cutter) record(stream io.ReadWriteCloser, err error) (io.ReadWriteCloser, error) {
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.newest = stream.(persistentBox).box
	}
	return stream, err
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest.stream.Close()
}

// A counting is a command in a persistent box that prints numbers until it is told to
// stop.
type counting struct {
	*testing.T
	m   *sandbox.Manager
	box *sandbox.Box
	run *sandbox.Run
}

func startCounting(t *testing.T, l sandbox.Launcher) *counting {
	t.Helper()
	workspace := t.TempDir()
	if err := os.Chmod(workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	c := &counting{T: t, m: boxtest.Manager(t, l, sandbox.Spec{Workspace: workspace, Lease: 3 * time.Second})}
	var err error
	if c.box, _, err = c.m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{Name: "dev", Persistent: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.m.Stop(sandbox.Owner{Principal: "me"}, c.box.ID) })
	c.run = c.exec("i=0; until [ -e go ]; do echo $((i++)); sleep 0.002; done; exit 6")
	c.until("output", func() bool { return c.run.LogStats().Bytes > 0 })
	return c
}

func (c *counting) exec(cmd string) *sandbox.Run {
	c.Helper()
	run, err := c.box.Exec(c.Context(), sandbox.Command{Cmd: cmd})
	if err != nil {
		c.Fatal(err)
	}
	return run
}

func (c *counting) until(what string, ok func() bool) {
	c.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			c.Fatalf("no %s within a minute", what)
		}
	}
}

// awaitReattach waits until the box is reattached after its stream broke.
func (c *counting) awaitReattach() {
	c.Helper()
	begun := time.Now()
	select {
	case <-c.run.Done():
	case <-time.After(time.Minute):
		c.Fatal("the server does not notice the broken stream")
	}
	if e := c.run.Exit(); e.Status != sandbox.Running || e.Err == nil {
		c.Errorf("meanwhile %+v", e)
	}
	c.until("box", func() bool {
		again, err := c.m.Box(sandbox.Owner{Principal: "me"}, c.box.ID)
		back := err == nil && again != c.box
		if back {
			c.box = again
		}
		return back
	})
	c.Logf("reattached after %v", time.Since(begun).Round(time.Millisecond))
	run, err := c.m.Run(sandbox.Owner{Principal: "me"}, c.run.ID)
	if err != nil {
		c.Fatal(err)
	}
	c.run = run
}

// awaitEnd checks that the command continues to its end and that its log misses no
// line.
func (c *counting) awaitEnd() {
	c.Helper()
	<-c.exec("touch go").Over()
	select {
	case <-c.run.Over():
	case <-time.After(time.Minute):
		c.Fatal("it does not end")
	}
	if e := c.run.Exit(); e.Status != sandbox.Exited || e.Code != 6 {
		c.Errorf("%+v", e)
	}
	text, err := os.ReadFile(c.run.LogPath())
	if err != nil {
		c.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if line != fmt.Sprintln(n) {
			c.Fatalf("%q instead of %d", line, n)
		}
		n++
	}
	c.Logf("%d lines", n)
}

// A server reattaches a persistent box whose stream breaks, and the command in it
// continues.
func TestBrokenStreamIsReattached(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		cut := &cutter{Launcher: l}
		c := startCounting(t, cut)
		for range 3 {
			cut.cut()
			c.awaitReattach()
		}
		c.awaitEnd()
		if err := c.m.Stop(sandbox.Owner{Principal: "me"}, c.box.ID); err != nil {
			t.Error(err)
		}
		noLocksLeft(t, l)
	})
}

// A persistent box is reattached after its engine hung for longer than the lease, and
// is lost after a restart of an engine that ends its containers.
func TestReattachAfterEngineFaults(t *testing.T) {
	e := privateEngine(t, enginetest.Config{}, enginetest.Base(t, DefaultImage))
	eachTransport(t, func(t *testing.T, l *Launcher) {
		c := startCounting(t, l)
		if l.config.Transport == relayTransport {
			e.Pause()
			<-c.run.Done()
			if _, err := c.m.Box(sandbox.Owner{Principal: "me"}, c.box.ID); !isError(err, sandbox.DockerUnavailable, c.box.ID) {
				t.Errorf("while the engine hangs: %v", err)
			}
			e.Resume()
			c.awaitReattach()
		}
		e.Restart()
		c.awaitLoss()
		noLocksLeft(t, l)
	})
}

// A call that waits for a command on a relay learns in time that the engine hangs.
// The command continues.
func TestHangingEngineIsReportedToWaitingCalls(t *testing.T) {
	e := privateEngine(t, enginetest.Config{}, enginetest.Base(t, DefaultImage))
	m := boxtest.Manager(t, newLauncher(t, Config{Transport: relayTransport}), sandbox.Spec{})
	box, _, err := m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "sleep 6; exit 4"})
	if err != nil {
		t.Fatal(err)
	}
	silent, done := box.Monitor()
	defer done()
	unavailable(t, "wait for a command", func() error {
		e.Pause()
		select {
		case <-silent:
			return box.Unresponsive()
		case <-time.After(time.Minute):
			return nil
		}
	})
	if err := box.Gone(); err != nil {
		t.Error(err)
	}
	e.Resume()
	select {
	case <-run.Done():
	case <-time.After(time.Minute):
	}
	if exit := run.Exit(); exit.Code != 4 {
		t.Errorf("%+v", exit)
	}
}

// isError reports whether an error has a code and contains a text.
func isError(err error, code, text string) bool {
	e, ok := errors.AsType[*sandbox.Error](err)
	return ok && e.Code == code && strings.Contains(e.Text, text)
}

// awaitLoss waits until the box is gone, and its command with it.
func (c *counting) awaitLoss() {
	c.Helper()
	c.until("end of the box", func() bool {
		_, err := c.m.Box(sandbox.Owner{Principal: "me"}, c.box.ID)
		return isError(err, sandbox.BoxGone, "end")
	})
	if r, err := c.m.Record(sandbox.Owner{Principal: "me"}, c.run.ID); err != nil || r.Exit.Status != sandbox.Lost || !isError(r.Exit.Err, sandbox.BoxGone, "") {
		c.Errorf("%+v, %v", r.Exit, err)
	}
}
