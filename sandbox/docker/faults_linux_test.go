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

// answerTime bounds the time in which a caller learns that no engine answers.
const answerTime = 5 * time.Second

// unavailable checks that a call fails in time because no engine answers.
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

// A tap is a proxy to an engine, which calls the test before the engine gets a
// request.
type tap struct {
	host string // as in DOCKER_HOST

	mu   sync.Mutex
	seen func(*http.Request) // nil to ignore requests
}

// on calls f before the engine gets the first request with a method and a suffix.
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

// newTap starts a proxy to an engine.
func newTap(t *testing.T, engine string) *tap {
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
			conns.Go(func() { p.proxy(life, conn, strings.TrimPrefix(engine, "unix://")) })
		}
	})
	return p
}

// proxy copies a connection to the engine and back.
func (p *tap) proxy(life context.Context, conn net.Conn, engine string) {
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

// privateEngine starts an engine with an image as the default image, and selects it for
// the test.
func privateEngine(t *testing.T, c enginetest.Config, image string) *enginetest.Engine {
	t.Helper()
	requireEngine(t)
	e := enginetest.Start(t, c)
	e.Load(image, DefaultImage)
	t.Setenv("DOCKER_HOST", e.Host)
	return e
}

// ourContainers counts the containers of a launcher on an engine.
func ourContainers(t *testing.T, l *Launcher, host string) int {
	t.Helper()
	e, err := find(t.Context(), host, newCleanups())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return len(containersOf(t.Context(), t, e, l))
}

// awaitNoContainers waits until an engine has no container of a launcher.
func awaitNoContainers(t *testing.T, l *Launcher, host string) {
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
	e := privateEngine(t, enginetest.Config{}, enginetest.Base(t, DefaultImage))
	p := newTap(t, e.Host)
	t.Setenv("DOCKER_HOST", p.host)
	t.Run("hangs", func(t *testing.T) { testHangingEngine(t, e, p, "/containers/create") })
	t.Run("hangs before it starts a box", func(t *testing.T) { testHangingEngine(t, e, p, "/start") })
	t.Run("hangs before it is attached", func(t *testing.T) { testHangingEngine(t, e, p, "/attach") })
	t.Run("is slow", func(t *testing.T) { testSlowEngine(t, p) })
	t.Run("is restarted", func(t *testing.T) { testRestartedEngine(t, e) })
}

// testHangingEngine has an engine hang at a request. Every call fails in time then,
// and succeeds after the engine has resumed: what the engine creates late for the
// failed request is removed.
func testHangingEngine(t *testing.T, e *enginetest.Engine, p *tap, request string) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{})
	r := greet(t, b)
	other, err := l.Launch(t.Context(), "other", sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	leaveLock(t, l, b.engine, "detached")
	// The engine may create the container of this launcher late. On a socket it would
	// miss files on the host by then.
	late := newLauncher(t, Config{Transport: relayTransport})
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
	all.Go(func() {
		unavailable(t, "launch", func() error {
			_, err := late.Launch(t.Context(), "late", sandbox.Spec{Workspace: workspace})
			return err
		})
	})
	<-hangs
	if out, code := sh(t, b, r, "echo still there"); out != "still there\n" || code != 0 {
		t.Errorf("a box that runs: %q, exit %d", out, code)
	}
	for name, call := range map[string]func() error{
		"list":     func() error { _, err := l.Boxes(t.Context()); return err },
		"detached": func() error { _, err := l.Detached(t.Context()); return err },
		"reattach": func() error { _, err := l.Reattach(t.Context(), sandbox.Detached{ID: "detached"}); return err },
		"sweep":    func() error { _, err := l.Sweep(t.Context(), false); return err },
		"probe":    func() error { _, err := l.Probe(t.Context()); return err },
	} {
		all.Go(func() { unavailable(t, name, call) })
	}
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
			t.Errorf("the next launch took %v", took)
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
	awaitNoContainers(t, l, e.Host)
	awaitNoContainers(t, late, e.Host)
}

// leaveLock leaves the lock of a detached box, after the sweep that would remove it.
func leaveLock(t *testing.T, l *Launcher, e *engine, id string) {
	t.Helper()
	l.instance.sweeps.Wait()
	lock, err := l.dirs.lockID(t.Context(), e, id)
	if err == nil {
		err = lock.release()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// testSlowEngine checks that a launch waits for an engine that answers pings, however
// long it takes.
func testSlowEngine(t *testing.T, p *tap) {
	l := newLauncher(t, Config{})
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

// The watchdog waits for an engine that answers pings, and cancels a request in time
// when it does not.
func TestWatchdogCancelsRequestsOfAHangingEngine(t *testing.T) {
	const timeout = time.Hour
	for _, c := range []struct {
		name       string
		ping, want time.Duration
	}{
		{"pings are answered at once", 0, timeout},
		{"pings are answered in time", pingTimeout - 1, timeout},
		{"a ping is answered too late", pingTimeout + 1, pingInterval + pingTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := fake(t, func(r *http.Request) (*http.Response, error) { return answerAfter(r.Context(), c.ping) })
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				begun := time.Now()
				watched, stop := e.watchdog(ctx)
				defer stop()
				<-watched.Done()
				if took := time.Since(begun); took != c.want || hangs(watched) != (c.want < timeout) {
					t.Errorf("the request ended after %v: %v", took, context.Cause(watched))
				}
			})
		})
	}
}

// A cleanup removes a container that could not be removed, while no call waits for
// it.
func TestFailedRemovalIsRetried(t *testing.T) {
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
		e.cleanups.close() // does not wait for ever
	})
}

// testRestartedEngine checks that boxes end with their engine and say so, and that
// the next launch finds the new engine.
func testRestartedEngine(t *testing.T, e *enginetest.Engine) {
	for name, end := range map[string]func(){"in its own way": func() {}, "after a crash": e.Kill} {
		t.Run(name, func(t *testing.T) {
			l := newLauncher(t, Config{})
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
				t.Fatal("the stream has not ended")
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
			awaitNoContainers(t, l, e.Host)
		})
	}
}
