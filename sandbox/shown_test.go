package sandbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A sharing launcher launches an agent that has a directory at /workspace, on some
// kernel, over a pipe in memory.
type sharing struct {
	shown   []sandbox.Shown
	has     string                // what is at /workspace
	seen    func([]string) string // answers a Look for other files than marks
	stopped chan struct{}         // closed when its host hung up
}

type sharedStream struct {
	net.Conn
	sharing
}

func (s sharedStream) Place() sandbox.Place { return sandbox.Place{Shown: s.shown} }

func (s sharing) Launch(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error) {
	host, agent := net.Pipe()
	go s.serve(agent)
	return sharedStream{host, s}, nil
}

func (s sharing) serve(host net.Conn) {
	defer close(s.stopped)
	r := wire.NewReader(host, wire.FromHost)
	for {
		f, err := r.Read()
		if err != nil {
			return
		}
		switch f.Kind {
		case wire.Hello: // answered with the Look: a pipe takes nothing while its other end writes
		case wire.Look:
			var body wire.LookBody
			if wire.Decode(f, &body) != nil {
				return
			}
			answer := s.look(body.Paths)
			if body.Paths[0] == "/workspace" {
				host.Write(wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{"pid":1,"shell":"/bin/sh"}`)))
			}
			host.Write(wire.Append(nil, wire.Seen, wire.ID{}, []byte(answer)))
		}
	}
}

func (s sharing) look(paths []string) string {
	if paths[0] == "/workspace" {
		return s.seen(paths)
	}
	if _, err := os.Lstat(filepath.Join(s.has, path.Base(paths[0]))); err != nil {
		return `{"boot":"other","files":[{"errno":2}]}`
	}
	return `{"boot":"other","files":[{"dev":7,"ino":8}]}`
}

// What an agent says of a box's files is compared with what the host opened, on the same
// kernel and on another one.
func TestBoxWithOtherFilesIsEnded(t *testing.T) {
	for _, c := range []struct {
		name  string
		seen  string
		other bool   // something else is mounted than what was meant
		want  string // "" gives a box
	}{
		{"another kernel", `{"boot":"other","files":[{"dev":1,"ino":2},{"dev":1,"ino":3}]}`, false, ""},
		{"no kernel", `{"files":[{"dev":1,"ino":2},{"dev":1,"ino":3}]}`, false, ""},
		{"another kernel, another directory", `{"boot":"other","files":[{"dev":1,"ino":2},{"dev":1,"ino":3}]}`, true, "does not appear in the box"},
		{"our kernel, another directory", `{"boot":"` + hostpath.Boot() + `","files":[{"dev":1,"ino":2},{"dev":1,"ino":3}]}`, false, "the box has device 1 inode 2"},
		{"nothing there", `{"boot":"other","files":[{"errno":2},{"dev":1,"ino":3}]}`, false, "cannot look at it: no such file"},
		{"the mount is not there", `{"boot":"other","files":[{"dev":1,"ino":2},{"errno":13}]}`, false, "its /mount is not"},
		{"one too few", `{"files":[{"dev":1,"ino":2}]}`, false, "1 files instead of 2"},
		{"no words", `nothing`, false, "invalid JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if hostpath.Boot() == "" && c.want != "" {
				t.Skip("this system does not tell its kernel")
			}
			meant, mounted := t.TempDir(), t.TempDir()
			if !c.other {
				mounted = meant
			}
			s := sharing{has: mounted, seen: func([]string) string { return c.seen }, stopped: make(chan struct{})}
			for at, dir := range map[string]string{"/workspace": meant, "/mount": t.TempDir()} {
				f, err := (*hostpath.Guard)(nil).Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				shown := sandbox.Shown{Path: at, Source: f.Path, ID: f.ID, Main: at == "/workspace"}
				s.shown = append(s.shown, shown)
				if shown.Main {
					s.shown[0], s.shown[len(s.shown)-1] = s.shown[len(s.shown)-1], s.shown[0]
				}
			}
			m := boxtest.Manager(t, s, sandbox.Spec{})
			box, _, err := m.Start(t.Context(), me, sandbox.Request{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if told, ok := errors.AsType[*sandbox.Error](err); err != nil && (!ok || told.Hint == "") {
				t.Errorf("no hint what to do about %v", err)
			}
			if box != nil {
				box.Close()
			}
			<-s.stopped
			for _, dir := range []string{meant, mounted} {
				if left, _ := os.ReadDir(dir); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}
