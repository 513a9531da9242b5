package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/agentbin"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// requireEngine skips a test if there is no engine with the default image, or fails
// it if WARMBOX_REQUIRE demands one.
func requireEngine(t *testing.T) *engine {
	t.Helper()
	missing := t.Skipf
	for _, r := range strings.Split(os.Getenv("WARMBOX_REQUIRE"), ",") {
		if r == "docker" {
			missing = t.Fatalf
		}
	}
	if _, err := agentbin.For(runtime.GOARCH); err != nil {
		missing("%v", err)
	}
	e, err := find(t.Context(), "", newCleanups())
	if err != nil {
		missing("%v", err)
	}
	t.Cleanup(func() { e.Close() })
	if _, err := e.ImageInspect(t.Context(), DefaultImage); err != nil {
		missing("default image: %v", err)
	}
	return e
}

// newLauncher returns a Launcher with directories of its own, and fails the test if
// anything of it is left at the end.
func newLauncher(t *testing.T, config Config) *Launcher {
	t.Helper()
	e := requireEngine(t)
	config.StateDir, config.CacheDir = cmp.Or(config.StateDir, t.TempDir()), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", shortDir(t))
	l := New(config)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, c := range containersOf(ctx, t, e, l) {
			t.Errorf("container %.12s (%s) is left: %v", c.ID, c.Status, c.Labels)
		}
		if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "warmbox", "*")); len(left) > 0 {
			t.Errorf("left on the host: %v", left)
		}
		workspaces, _ := filepath.Glob(filepath.Join(config.StateDir, "workspaces", "*"))
		for _, dir := range workspaces {
			if os.Remove(dir) == nil {
				t.Errorf("an empty workspace is left: %s", dir)
			}
		}
	})
	return l
}

// containersOf returns the containers of a launcher on an engine, without those that
// are listed as dead and do not exist: an engine that removes a container while it
// recovers from a crash may list it until a restart.
func containersOf(ctx context.Context, t *testing.T, e *engine, l *Launcher) []container.Summary {
	t.Helper()
	mine := filters.NewArgs(filters.Arg("label", labelPrefix+"instance="+l.instance.id))
	list, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: mine})
	if err != nil {
		t.Error(err)
	}
	return slices.DeleteFunc(list, func(c container.Summary) bool {
		_, err := e.ContainerInspect(ctx, c.ID)
		ghost := c.State == container.StateDead && errdefs.IsNotFound(err)
		if ghost {
			t.Logf("container %.12s is listed as dead, and the engine does not know it", c.ID)
		}
		return ghost
	})
}

// otherProcess returns another launcher with the same directories, as another process
// on this host has.
func otherProcess(t *testing.T, l *Launcher) *Launcher {
	t.Helper()
	p := New(l.config)
	t.Cleanup(func() { p.Close() })
	return p
}

// killInstance releases the lock of an instance, as the kernel does when its process
// is killed.
func killInstance(t *testing.T, l *Launcher) {
	t.Helper()
	if err := l.instance.alive.release(); err != nil {
		t.Fatal(err)
	}
}

// shortDir returns a directory whose name is short enough for a socket in it.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "wb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// anonymousVolumes returns the volumes that must be removed with a box.
func anonymousVolumes(t *testing.T, b *box) (names []string) {
	t.Helper()
	c, err := b.engine.ContainerInspect(t.Context(), b.container)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Mounts {
		if m.Type == "volume" && m.Destination != agentDir {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		t.Fatal("the box has no volume for its home")
	}
	return names
}

func launch(t *testing.T, l *Launcher, spec sandbox.Spec) *box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := l.Launch(ctx, "t"+strings.ToLower(l.instance.id[:12]), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	})
	b, _ := stream.(*box)
	return b
}

// greet exchanges the first frames and returns a reader of those that follow.
func greet(t *testing.T, b *box) *wire.Reader {
	t.Helper()
	hello, err := wire.AppendJSON(nil, wire.Hello, wire.ID{}, wire.HelloBody{Dir: b.Place().Dir, Env: b.Place().Env})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(hello); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(t.Context(), func() { b.Close() })
	t.Cleanup(func() { stop() })
	r := wire.NewReader(b, wire.FromAgent)
	f, err := r.Read()
	if err != nil || f.Kind != wire.Hello {
		t.Fatalf("got %v, %v, want the agent's Hello", f.Kind, err)
	}
	return r
}

// sh runs a command in a box after greet, and returns its output and exit code.
func sh(t *testing.T, b *box, r *wire.Reader, cmd string) (string, int) {
	t.Helper()
	id := wire.ID{1}
	copy(id[1:], fmt.Sprint(time.Now().UnixNano()))
	start, err := wire.AppendJSON(nil, wire.Start, id, wire.StartBody{Cmd: cmd})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(start); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for {
		f, err := r.Read()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		switch f.Kind {
		case wire.Stdout, wire.Stderr:
			out.Write(f.Payload)
		case wire.Refused:
			t.Fatalf("%s: refused: %s", cmd, f.Payload)
		case wire.Exit:
			var exit wire.ExitBody
			if err := wire.Decode(f, &exit); err != nil {
				t.Fatal(err)
			}
			return out.String(), exit.Code
		}
	}
}

// eachTransport runs a test for each transport.
func eachTransport(t *testing.T, test func(t *testing.T, l *Launcher)) {
	for _, path := range []string{socketTransport, relayTransport} {
		t.Run(path, func(t *testing.T) { test(t, newLauncher(t, Config{Transport: path})) })
	}
}

func TestBoxRunsCommandsAndLeavesNothing(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launch(t, l, sandbox.Spec{})
		made := anonymousVolumes(t, b)
		r := greet(t, b)
		out, code := sh(t, b, r, `whoami; id -u; pwd; echo $HOME; touch here ~/there "$TMPDIR"/temp /tmp/x && rm here && echo fine; exit 7`)
		if want := "agent\n1000\n/workspace\n/home/agent\nfine\n"; out != want || code != 7 {
			t.Errorf("got %q, exit %d, want %q, exit 7", out, code, want)
		}
		if got := b.Place().Path; got != l.config.Transport {
			t.Errorf("path %q, want %q", got, l.config.Transport)
		}
		begun := time.Now()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("closed after %v", time.Since(begun))
		if _, err := b.Read(make([]byte, 1)); err == nil || errors.As(err, new(*sandbox.EndedError)) || err == io.EOF {
			t.Errorf("read after close: %v, want that it is closed", err)
		}
		for _, name := range made {
			if _, err := b.engine.VolumeInspect(t.Context(), name); !errdefs.IsNotFound(err) {
				t.Errorf("volume %s is left: %v", name, err)
			}
		}
	})
}
