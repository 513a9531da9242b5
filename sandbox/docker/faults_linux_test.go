package docker

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

// answerTime is what a caller may have to wait before it hears that no engine
// answers.
const answerTime = 5 * time.Second

// unavailable sees that something fails in time because no engine answers.
func unavailable(t *testing.T, what string, f func() error) {
	t.Helper()
	begun := time.Now()
	err := f()
	took := time.Since(begun)
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.DockerUnavailable || !strings.Contains(e.Text, "Cannot reach the Docker Engine at unix:///") {
		t.Errorf("%s: got %v, want %s", what, err, sandbox.DockerUnavailable)
	}
	if took > answerTime {
		t.Errorf("%s took %v", what, took)
	}
	t.Logf("%s: %v after %v", what, err, took.Round(time.Millisecond))
}

// tap is a way to an engine on which a test is told of requests before the
// engine is.
type tap struct {
	host string // as in DOCKER_HOST

	mu   sync.Mutex
	seen func(*http.Request) // nil: nobody wants to know
}

// on has f called before the engine hears of the first request that ends so.
func (p *tap) on(method, suffix string, f func()) {
	var once sync.Once
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = func(r *http.Request) {
		if r.Method == method && strings.HasSuffix(r.URL.Path, suffix) {
			once.Do(f)
		}
	}
}

// tapped opens a way to an engine.
func tapped(t *testing.T, engine string) *tap {
	t.Helper()
	path := filepath.Join(shortDir(t), "tap.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{host: "unix://" + path}
	life, end := context.WithCancel(context.Background())
	var conns sync.WaitGroup
	t.Cleanup(func() {
		end()
		l.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.carry(life, conn, strings.TrimPrefix(engine, "unix://")) })
		}
	})
	return p
}

// carry joins a connection to the engine.
func (p *tap) carry(life context.Context, conn net.Conn, engine string) {
	defer conn.Close()
	up, err := net.Dial("unix", engine)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(life, func() { conn.Close(); up.Close() })()
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		io.Copy(conn, up)
		conn.Close()
	})
	defer up.Close()
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		p.mu.Lock()
		seen := p.seen
		p.mu.Unlock()
		if seen != nil {
			seen(req)
		}
		upgrade := req.Header.Get("Upgrade") != ""
		if req.Write(up) != nil {
			return
		}
		if upgrade {
			io.Copy(up, r)
			return
		}
	}
}

// ourContainers counts those of a launcher that an engine has.
func ourContainers(t *testing.T, l *Launcher, host string) int {
	t.Helper()
	e, err := find(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return len(containersOf(t.Context(), t, e, l))
}

// none waits until an engine has nothing of a launcher.
func none(t *testing.T, l *Launcher, host string) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ourContainers(t, l, host) > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d containers are left", ourContainers(t, l, host))
		}
	}
}

func TestEngineFaults(t *testing.T) {
	need(t)
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, DefaultImage), DefaultImage)
	p := tapped(t, e.Host)
	t.Setenv("DOCKER_HOST", p.host)
	t.Run("hangs", func(t *testing.T) { hanging(t, e, p, "/containers/create") })
	t.Run("hangs before it starts a box", func(t *testing.T) { hanging(t, e, p, "/start") })
	t.Run("hangs before it is listened to", func(t *testing.T) { hanging(t, e, p, "/attach") })
	t.Run("is slow", func(t *testing.T) { slow(t, p) })
	t.Run("is restarted", func(t *testing.T) { restarted(t, e) })
}

// hanging has an engine hang when it gets a request. Whatever it is asked for
// then fails in time, and all goes on when it no longer hangs: what it makes then
// of that request nobody wants any more.
func hanging(t *testing.T, e *enginetest.Engine, p *tap, request string) {
	l := launcher(t, Config{})
	b := launch(t, l, sandbox.Spec{})
	r := greet(t, b)
	other, err := l.Launch(t.Context(), "other", sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	l.instance.sweeps.Wait() // else it would take the claim below
	waits, err := l.dirs.lockID(t.Context(), b.engine, "kept")
	if err == nil {
		err = waits.release()
	}
	if err != nil {
		t.Fatal(err)
	}
	// What this one asks for in vain the engine can make later: on the other path
	// it misses what lay on the host.
	late := launcher(t, Config{Transport: relayTransport})
	workspace := t.TempDir()
	if err := os.Chmod(workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := launch(t, late, sandbox.Spec{Workspace: workspace}).Close(); err != nil {
		t.Fatal(err)
	}
	hangs := make(chan struct{})
	p.on("POST", request, func() {
		e.Pause()
		close(hangs)
	})
	var all sync.WaitGroup
	ask := func(what string, f func() error) { all.Go(func() { unavailable(t, what, f) }) }
	ask("launch", func() error {
		_, err := late.Launch(t.Context(), "late", sandbox.Spec{Workspace: workspace})
		return err
	})
	<-hangs
	if out, code := sh(t, b, r, "echo still there"); out != "still there\n" || code != 0 {
		t.Errorf("a box that runs: %q, exit %d", out, code)
	}
	ask("list", func() error { _, err := l.Boxes(t.Context()); return err })
	ask("kept", func() error { _, err := l.Detached(t.Context()); return err })
	ask("redial", func() error { _, err := l.Reattach(t.Context(), sandbox.Detached{ID: "kept"}); return err })
	ask("sweep", func() error { _, err := l.Sweep(t.Context(), false); return err })
	ask("probe", func() error { _, err := l.Probe(t.Context()); return err })
	all.Go(func() {
		begun := time.Now()
		if err := other.Close(); err == nil || time.Since(begun) > answerTime {
			t.Errorf("close: %v after %v", err, time.Since(begun))
		}
	})
	all.Wait()
	unavailable(t, "another launch", func() error {
		begun := time.Now()
		_, err := l.Launch(t.Context(), "later", sandbox.Spec{})
		if took := time.Since(begun); took > pingInterval {
			t.Errorf("who comes right behind waits %v", took)
		}
		return err
	})
	e.Resume()
	<-time.After(hangTime)
	again, err := l.Launch(t.Context(), "again", sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	none(t, l, e.Host)
	none(t, late, e.Host)
}

// slow sees that an engine which answers is waited for, however long it takes.
func slow(t *testing.T, p *tap) {
	l := launcher(t, Config{})
	const delay = pingInterval + pingTimeout + time.Second
	p.on("POST", "/start", func() { <-time.After(delay) })
	begun := time.Now()
	b := launch(t, l, sandbox.Spec{})
	if took := time.Since(begun); took < delay {
		t.Errorf("took %v", took)
	}
	if out, code := sh(t, b, greet(t, b), "echo here"); out != "here\n" || code != 0 {
		t.Errorf("%q, exit %d", out, code)
	}
}

// TestAttend: an engine is waited for as long as it answers pings, and given up
// in time when it does not.
func TestAttend(t *testing.T) {
	for takes, most := range map[time.Duration]time.Duration{0: time.Hour, pingTimeout - 1: time.Hour, pingTimeout + 1: pingInterval + pingTimeout} {
		synctest.Test(t, func(t *testing.T) {
			e := fake(t, func(r *http.Request) (*http.Response, error) { return answerAfter(r.Context(), takes) })
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			begun := time.Now()
			attended, done := e.watchdog(ctx)
			defer done()
			<-attended.Done()
			if took := time.Since(begun); took != most || hangs(attended) != (most < time.Hour) {
				t.Errorf("where a ping takes %v it is given up after %v: %v", takes, took, context.Cause(attended))
			}
		})
	}
}

// TestDiscard: a container that cannot be removed is removed later, without anybody
// who waits.
func TestDiscard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 10
		e := fake(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && failures > 0 {
				failures--
				return fail(http.StatusInternalServerError, "device or resource busy")
			}
			return reply(http.StatusOK, "OK")
		})
		if err := e.discard(t.Context(), "x", removeTime); err == nil {
			t.Error("it is removed at once")
		}
		begun := time.Now()
		e.cleanups.all.Wait()
		if took := time.Since(begun); failures != 0 || took > 5*time.Minute {
			t.Errorf("%d failures and %v later", failures, took)
		}
		failures = 1000
		if err := e.discard(t.Context(), "x", removeTime); err == nil {
			t.Error("it is removed")
		}
		e.cleanups.close() // waits for nobody who fails for ever
	})
}

// restarted sees that boxes go with their engine, say so, and that the next one
// starts by itself.
func restarted(t *testing.T, e *enginetest.Engine) {
	for name, end := range map[string]func(){"in its own way": func() {}, "after a crash": e.Kill} {
		t.Run(name, func(t *testing.T) {
			l := launcher(t, Config{})
			b := launch(t, l, sandbox.Spec{})
			greet(t, b)
			ended := make(chan error, 1)
			go func() {
				_, err := b.Read(make([]byte, 1))
				ended <- err
			}()
			end()
			e.Restart()
			begun := time.Now()
			var died *sandbox.EndedError
			select {
			case err := <-ended:
				if !errors.As(err, &died) && (err == nil || !strings.Contains(err.Error(), "the engine that had it was lost or restarted")) {
					t.Errorf("its stream ended with %v", err)
				}
				t.Logf("ended with %v, %v after the engine was back", err, time.Since(begun))
			case <-time.After(answerTime):
				t.Fatal("the box does not know that it is gone")
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			again, err := l.Launch(t.Context(), "again", sandbox.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
			none(t, l, e.Host)
		})
	}
}
