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

// A replacer replaces a path of the host after a launch has checked it, and before
// the engine mounts it.
type replacer struct {
	*Launcher
	race func() error
}

func (r replacer) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
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

// The engine mounts what a path leads to by then, and the box ends before its first
// command.
func TestPathReplacedBeforeItsMountEndsTheBox(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		for _, name := range []string{"workspace", "mount", "file"} {
			t.Run(name, func(t *testing.T) {
				dir, other := makeFiles(t, "p/workspace/x", "p/mount/x", "p/file"), makeFiles(t, "workspace/key", "mount/key", "file")
				at := filepath.Join(dir, "p", name)
				spec := sandbox.Spec{Workspace: filepath.Join(dir, "p", "workspace"), Mounts: []sandbox.Mount{
					{Source: filepath.Join(dir, "p", "mount"), Target: "/home/agent/go/pkg/mod", Writable: true},
					{Source: filepath.Join(dir, "p", "file"), Target: "/skills/file"},
				}}
				race := func() error { return nil }
				m := boxtest.Manager(t, replacer{l, func() error { return race() }}, spec)
				box, _, err := m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{})
				if err != nil {
					t.Fatal(err)
				}
				boxtest.Expect(t, box, "cd /workspace && ls . ~/go/pkg/mod /skills", 0, ".:\nx\n\n/home/agent/go/pkg/mod:\nx\n\n/skills:\nfile\n")
				race = func() error {
					return errors.Join(os.Rename(at, at+".old"), os.Symlink(filepath.Join(other, name), at))
				}
				_, _, err = m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{})
				if !isError(err, sandbox.InvalidArgument, "stopped before its first command") || !strings.Contains(err.Error(), at) {
					t.Errorf("got %v", err)
				}
			})
		}
	})
}

// Processes of one user know what each other's boxes can write, and refuse a mount of
// it.
func TestMountsThatOtherProcessesWriteAreRefused(t *testing.T) {
	top := hostpath.Real(makeFiles(t, "work/lib/x", "persistent/lib/x", "lib/x"))
	in := func(name string) string { return filepath.Join(top, name) }
	one := newLauncher(t, Config{Writable: []string{in("work")}})
	launch(t, one, sandbox.Spec{Workspace: in("work")})
	two := newLauncher(t, Config{StateDir: one.config.StateDir})
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
		t.Errorf("what no box writes: %v", err)
	}
	if err := tries("work/lib"); !isError(err, sandbox.InvalidArgument, "boxes of another server can write "+in("work")) {
		t.Errorf("what a living server's boxes write: %v", err)
	}
	// A persistent box can write after its process has ended.
	three := otherProcess(t, one)
	box, err := three.Launch(t.Context(), "persistent", sandbox.Spec{Workspace: in("persistent"), Persistent: &sandbox.Persistent{Name: "n", Principal: "o", ReattachTimeout: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tries("persistent/lib"); !isError(err, sandbox.InvalidArgument, "boxes of another server can write "+in("persistent")) {
		t.Errorf("what a persistent box writes: %v", err)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if err := tries("persistent/lib"); err != nil {
		t.Errorf("when the box is gone: %v", err)
	}
	// A symbolic link that a box made outlives its server.
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if list, err := Written(one.config.StateDir); err != nil || !slices.Equal(list, []string{in("work")}) {
		t.Errorf("remembered: %q, %v", list, err)
	}
}
