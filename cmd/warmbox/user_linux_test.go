package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ordinaryUser is whom tests of the whole program run it as: no one special, and
// a member of the engine's group, as users are.
const ordinaryUser = 1000

// A home is a directory tree of an ordinary user, for one test: where the program
// keeps its state, and where workspaces can lie.
type home struct{ dir string }

// newHome makes one that belongs to the ordinary user, or to whoever runs the test
// where that is not root.
func newHome(t *testing.T) home {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	h := home{dir}
	for _, name := range []string{".", ".config", ".cache", "state", "run"} {
		h.mkdir(t, name)
	}
	return h
}

// mkdir makes a directory of the user's and returns its path.
func (h home) mkdir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(h.dir, name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), h.own(dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// own gives a path, and all below it, to the user.
func (h home) own(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return filepath.WalkDir(path, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, ordinaryUser, ordinaryUser))
	})
}

// warmbox returns a command that runs the program as the user.
func (h home) warmbox(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return h.command(t, h.program(t), args...)
}

// command returns a command that runs as the user, in the engine's group.
func (h home) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "HOME="+h.dir, "XDG_CONFIG_HOME="+filepath.Join(h.dir, ".config"), "XDG_CACHE_HOME="+filepath.Join(h.dir, ".cache"),
		"XDG_STATE_HOME="+filepath.Join(h.dir, "state"), "XDG_RUNTIME_DIR="+filepath.Join(h.dir, "run"), "TMPDIR=/tmp")
	if os.Getenv("WARMBOX_CONFIG") == "" {
		cmd.Env = append(cmd.Env, "WARMBOX_CONFIG="+os.DevNull)
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser, Groups: engineGroups(t)}}
	}
	return cmd
}

// engineGroups returns the group that may speak with the engine.
func engineGroups(t *testing.T) []uint32 {
	t.Helper()
	socket, isSocket := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !isSocket {
		socket = "/var/run/docker.sock"
	}
	info, err := os.Stat(socket)
	if err != nil {
		return nil // what needs an engine says so itself
	}
	return []uint32{info.Sys().(*syscall.Stat_t).Gid}
}

// program puts the program under test where the user can run it, and returns its
// path. It is this test's own program by another name, as in PATH.
func (h home) program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(h.dir), "warmbox")
	if _, err := os.Stat(name); err == nil {
		return name
	}
	if os.Link(self, name) != nil { // another file system
		text, err := os.ReadFile(self)
		if err := errors.Join(err, os.WriteFile(name, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// serve runs `warmbox stdio` as the user and connects a client to it, both until
// the test ends.
func (h home) serve(t *testing.T, flags ...string) *program {
	t.Helper()
	cmd := h.warmbox(t, append([]string{"stdio", "--log-level", "warn"}, flags...)...)
	cmd.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &program{session, cmd, filepath.Join(h.dir, "state")}
}

// untilTestEnds runs a server until the test ends, and sees that it then ends well.
func untilTestEnds(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestOrdinaryUserIsServed sees that the tests which run as a user do.
func TestOrdinaryUserIsServed(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	h := newHome(t)
	p := h.serve(t, "--workspace", h.mkdir(t, "project"))
	if r := p.call(t, "exec", map[string]any{"cmd": "id -u; touch made"}); r["exitCode"] != 0.0 {
		t.Fatalf("%v", r)
	}
	info, err := os.Stat(filepath.Join(h.dir, "project", "made"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; os.Getuid() == 0 && uid != ordinaryUser {
		t.Errorf("what commands make belongs to uid %d, want %d", uid, ordinaryUser)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil || os.Getuid() == 0 && !strings.Contains(string(status), "\nUid:\t1000\t1000\t1000\t1000\n") {
		t.Errorf("the server is not the user's: %v\n%s", err, status)
	}
}
