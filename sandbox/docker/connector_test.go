package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

func TestUnreachableEngineIsReported(t *testing.T) {
	noEngineInEnv(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	l := New(Config{Host: "unix://" + path})
	for range 2 { // a failure is not remembered
		_, err := l.Launch(t.Context(), "box", sandbox.Spec{})
		e, ok := errors.AsType[*sandbox.Error](err)
		if !ok || e.Code != sandbox.DockerUnavailable {
			t.Fatalf("got %v, want %s", err, sandbox.DockerUnavailable)
		}
		want := "Cannot reach the Docker Engine at unix://" + path + " (no such file or directory). Is it running? Try: docker ps."
		if e.Text != want {
			t.Errorf("got %q, want %q", e.Text, want)
		}
	}
	t.Setenv("DOCKER_HOST", "unix://"+path+strings.Repeat("x", 100))
	if _, err := New(Config{}).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a socket path that is too long: %v", err)
	}
}

func TestErrorNamesOtherEndpoints(t *testing.T) {
	e, _ := errors.AsType[*sandbox.Error](unreachable(endpoint{Host: "unix:///a"}, os.ErrNotExist, []endpoint{{Host: "unix:///b"}, {Host: "unix:///c"}}))
	if !strings.HasSuffix(e.Text, "Other endpoints tried: unix:///b, unix:///c.") {
		t.Errorf("got %q", e.Text)
	}
}

func TestHangingEngineIsReportedInTime(t *testing.T) {
	noEngineInEnv(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	hanging, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close() // its backlog accepts connections, and no process answers
	begun := time.Now()
	_, err = New(Config{Host: "unix://" + path}).Launch(t.Context(), "box", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.DockerUnavailable || !strings.Contains(e.Text, "no answer within 5 s") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// A launcher drops an engine that stops answering. The next launch searches again,
// and sweeps.
func TestLostEngineIsDialedAgain(t *testing.T) {
	e := requireEngine(t)
	path := filepath.Join(shortDir(t), "engine.sock")
	if err := os.Symlink(strings.TrimPrefix(e.endpoint.Host, "unix://"), path); err != nil {
		t.Skip(err)
	}
	l := newLauncher(t, Config{Host: "unix://" + path})
	first, err := l.connector.connect(t.Context())
	if err != nil {
		t.Skip(err)
	}
	launch(t, l, sandbox.Spec{}).Close()
	dead := New(Config{StateDir: l.config.StateDir, CacheDir: l.config.CacheDir})
	defer dead.Close()
	left := launch(t, dead, sandbox.Spec{})
	killInstance(t, dead)
	target, _ := os.Readlink(path)
	os.Remove(path)
	first.Close() // also its idle connections
	_, err = l.Launch(t.Context(), "box", sandbox.Spec{})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.DockerUnavailable {
		t.Fatalf("got %v, want %s", err, sandbox.DockerUnavailable)
	}
	os.Symlink(target, path)
	launch(t, l, sandbox.Spec{})
	<-left.monitor.ended
}

// The error for a user outside the engine's group names the group, and does not say
// to start an engine that runs.
func TestForbiddenSocketNamesTheGroup(t *testing.T) {
	for _, others := range [][]endpoint{nil, {{Host: "unix:///b"}}} {
		err := fmt.Errorf("ping: %w", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)})
		e, _ := errors.AsType[*sandbox.Error](unreachable(endpoint{Host: "unix:///a"}, err, others))
		if want := "Cannot reach the Docker Engine at unix:///a: this user may not use its socket (permission denied)."; e.Text != want || !strings.Contains(e.Hint, "usermod -aG docker") {
			t.Errorf("got %q, hint %q", e.Text, e.Hint)
		}
	}
}
