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

// A cutter is a launcher whose newest stream a test can cut as a fault does: both
// ends learn that it is gone, and nobody has closed the box.
type cutter struct {
	*Launcher

	mu     sync.Mutex
	newest *box
}

func (c *cutter) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	return c.note(c.Launcher.Launch(ctx, id, spec))
}

func (c *cutter) Reattach(ctx context.Context, k sandbox.Detached) (io.ReadWriteCloser, error) {
	return c.note(c.Launcher.Reattach(ctx, k))
}

func (c *cutter) note(stream io.ReadWriteCloser, err error) (io.ReadWriteCloser, error) {
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

// A counting is a command in a kept box that prints numbers until it is told to
// stop.
type counting struct {
	*testing.T
	m   *sandbox.Manager
	box *sandbox.Box
	run *sandbox.Run
}

func count(t *testing.T, l sandbox.Launcher) *counting {
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

// back waits until the box is there again after its stream was cut.
func (c *counting) back() {
	c.Helper()
	begun := time.Now()
	select {
	case <-c.run.Done():
	case <-time.After(time.Minute):
		c.Fatal("nobody notices that the stream is cut")
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
	c.Logf("back after %v", time.Since(begun).Round(time.Millisecond))
	run, err := c.m.Run(sandbox.Owner{Principal: "me"}, c.run.ID)
	if err != nil {
		c.Fatal(err)
	}
	c.run = run
}

// ends sees that the command goes on to its end and that no line of it is missing.
func (c *counting) ends() {
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

// A kept box whose stream breaks while its server lives comes back, and what runs
// in it never knows.
func TestKeptBoxIsDialledAgain(t *testing.T) {
	paths(t, func(t *testing.T, l *Launcher) {
		cut := &cutter{Launcher: l}
		c := count(t, cut)
		for range 3 {
			cut.cut()
			c.back()
		}
		c.ends()
		if err := c.m.Stop(sandbox.Owner{Principal: "me"}, c.box.ID); err != nil {
			t.Error(err)
		}
		nothingKept(t, l)
	})
}

// A kept box comes back from an engine that hung for longer than its lease, and is
// lost for good with one that was started anew and takes its containers along.
func TestKeptBoxAndItsEngine(t *testing.T) {
	need(t)
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, DefaultImage), DefaultImage)
	t.Setenv("DOCKER_HOST", e.Host)
	paths(t, func(t *testing.T, l *Launcher) {
		c := count(t, l)
		if l.config.Transport == relayTransport {
			e.Pause()
			<-c.run.Done()
			if _, err := c.m.Box(sandbox.Owner{Principal: "me"}, c.box.ID); !told(err, sandbox.DockerUnavailable, c.box.ID) {
				t.Errorf("while the engine hangs: %v", err)
			}
			e.Resume()
			c.back()
		}
		e.Restart()
		c.lost()
		nothingKept(t, l)
	})
}

// Who waits for a command on a relay hears in time that the engine hangs. The
// command is not lost by that.
func TestSilentRelay(t *testing.T) {
	need(t)
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, DefaultImage), DefaultImage)
	t.Setenv("DOCKER_HOST", e.Host)
	m := boxtest.Manager(t, launcher(t, Config{Transport: relayTransport}), sandbox.Spec{})
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

// told reports whether an error has a code and says something.
func told(err error, code, text string) bool {
	e, ok := errors.AsType[*sandbox.Error](err)
	return ok && e.Code == code && strings.Contains(e.Text, text)
}

// lost waits until the box is gone for good, and its command with it.
func (c *counting) lost() {
	c.Helper()
	c.until("end of the box", func() bool {
		_, err := c.m.Box(sandbox.Owner{Principal: "me"}, c.box.ID)
		return told(err, sandbox.BoxGone, "end")
	})
	if r, err := c.m.Record(sandbox.Owner{Principal: "me"}, c.run.ID); err != nil || r.Exit.Status != sandbox.Lost || !told(r.Exit.Err, sandbox.BoxGone, "") {
		c.Errorf("%+v, %v", r.Exit, err)
	}
}
