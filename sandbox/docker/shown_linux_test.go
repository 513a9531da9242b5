package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// A racer replaces something of the host after a launch has judged it, and before
// the engine mounts it.
type racer struct {
	*Launcher
	race func() error
}

func (r racer) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	e, err := r.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	p, err := r.plan(ctx, e, id, spec)
	if err != nil {
		return nil, err
	}
	defer p.closeFiles()
	if err := r.race(); err != nil {
		return nil, p.undo(err)
	}
	return r.start(ctx, e, p, r.config.Transport)
}

// TestPathReplacedWhileItIsMounted: the engine follows what is there by then, and
// the box is ended before its first command.
func TestPathReplacedWhileItIsMounted(t *testing.T) {
	paths(t, func(t *testing.T, l *Launcher) {
		for _, name := range []string{"workspace", "mount", "file"} {
			t.Run(name, func(t *testing.T) {
				dir, other := lay(t, "p/workspace/x", "p/mount/x", "p/file"), lay(t, "workspace/key", "mount/key", "file")
				at := filepath.Join(dir, "p", name)
				spec := sandbox.Spec{Workspace: filepath.Join(dir, "p", "workspace"), Mounts: []sandbox.Mount{
					{Source: filepath.Join(dir, "p", "mount"), Target: "/home/agent/go/pkg/mod", Writable: true},
					{Source: filepath.Join(dir, "p", "file"), Target: "/skills/file"},
				}}
				race := func() error { return nil }
				m := boxtest.Manager(t, racer{l, func() error { return race() }}, spec)
				box, _, err := m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{})
				if err != nil {
					t.Fatal(err)
				}
				boxtest.Expect(t, box, "cd /workspace && ls . ~/go/pkg/mod /skills", 0, ".:\nx\n\n/home/agent/go/pkg/mod:\nx\n\n/skills:\nfile\n")
				race = func() error {
					return errors.Join(os.Rename(at, at+".old"), os.Symlink(filepath.Join(other, name), at))
				}
				_, _, err = m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{})
				if !told(err, sandbox.InvalidArgument, "ended before its first command") || !strings.Contains(err.Error(), at) {
					t.Errorf("got %v", err)
				}
			})
		}
	})
}

// TestMountsThatOtherServersWrite: programs of one user know what each other's boxes
// can write, and a mount of that is refused.
func TestMountsThatOtherServersWrite(t *testing.T) {
	top := hostpath.Real(lay(t, "work/lib/x", "kept/lib/x", "lib/x"))
	in := func(name string) string { return filepath.Join(top, name) }
	one := launcher(t, Config{Writable: []string{in("work")}})
	launch(t, one, sandbox.Spec{Workspace: in("work")})
	two := launcher(t, Config{StateDir: one.config.StateDir})
	guard := new(hostpath.Guard)
	tries := func(name string) error {
		if _, err := guard.Mount(in(name), false); err != nil {
			t.Fatal(err)
		}
		stream, err := two.Launch(t.Context(), "two", sandbox.Spec{Paths: guard, Mounts: []sandbox.Mount{{Source: in(name), Target: "/lib2"}}})
		if err == nil {
			err = stream.Close()
		}
		return err
	}
	if err := tries("lib"); err != nil {
		t.Errorf("what nobody writes: %v", err)
	}
	if err := tries("work/lib"); !told(err, sandbox.InvalidArgument, "boxes of another server can write "+in("work")) {
		t.Errorf("what a living server's boxes write: %v", err)
	}
	// A kept box goes on writing when its program has ended.
	three := neighbour(t, one)
	kept, err := three.Launch(t.Context(), "kept", sandbox.Spec{Workspace: in("kept"), Persistent: &sandbox.Persistent{Name: "n", Principal: "o", ReattachTimeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tries("kept/lib"); !told(err, sandbox.InvalidArgument, "boxes of another server can write "+in("kept")) {
		t.Errorf("what a kept box writes: %v", err)
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if err := tries("kept/lib"); err != nil {
		t.Errorf("when that is gone: %v", err)
	}
	// A link that a box made outlives its server.
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if list, err := Written(one.config.StateDir); err != nil || !slices.Equal(list, []string{in("work")}) {
		t.Errorf("remembered: %q, %v", list, err)
	}
}
