package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplacedWorkspaceIsRefused runs two servers of one user. The boxes of the one can
// write above the workspace of the other. They replace that workspace by a link to the
// user's home, then by a directory of their own. No box of the other server gets either
// of them, from the pool or not, nor does a server that is started later.
func TestReplacedWorkspaceIsRefused(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	h.mkdir(t, ".ssh")
	h.write(t, ".ssh/id", "key")
	inner := h.mkdir(t, "proj/sub")
	h.mkdir(t, "other")
	if err := h.own(h.dir); err != nil {
		t.Fatal(err)
	}
	victim := h.serve(t, "--workspace", inner)
	victim.call(t, "exec", map[string]any{"cmd": "echo mine >file"})
	attacker := h.serve(t, "--workspace", filepath.Dir(inner))
	attack := func(cmd string) {
		t.Helper()
		if r := attacker.call(t, "exec", map[string]any{"cmd": cmd}); r["exitCode"] != 0.0 {
			t.Fatalf("%s: %v", cmd, r)
		}
	}
	attack("mv sub away && ln -s ../../" + filepath.Base(h.dir) + " sub")
	for i := range 2 {
		victim.refused(t, "start", map[string]any{"name": fmt.Sprint("link", i)}, "is now a symbolic link")
	}
	attack("rm sub && mkdir sub")
	victim.refused(t, "start", map[string]any{"name": "made"}, "boxes can write "+filepath.Dir(inner))
	attack("rmdir sub && ln -s ../other sub")
	if err := attacker.Close(); err != nil {
		t.Error(err)
	}
	out, err := h.warmbox(t, "exec", "--workspace", inner, "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sub is a symbolic link, and your boxes could write "+filepath.Dir(inner)) {
		t.Errorf("a server that starts after the other has ended: %v, %s", err, out)
	}
	if err := errors.Join(os.Remove(inner), os.Rename(filepath.Join(filepath.Dir(inner), "away"), inner)); err != nil {
		t.Fatal(err)
	}
	if r := victim.call(t, "start", map[string]any{"name": "back"}); r["containerId"] == nil {
		t.Errorf("%v", r)
	}
}

// TestServerInContainerRefusesOtherDirectory runs the program in a container that has
// the engine's socket. The engine resolves a path on the host. If that is another
// directory than the program sees, no command runs.
func TestServerInContainerRefusesOtherDirectory(t *testing.T) {
	needDocker(t)
	needRoot(t, "in its container the program is root, whose files the test makes")
	if os.Getenv("DOCKER_HOST") != "" {
		t.Skip("needs the engine's usual socket")
	}
	program := newHome(t).program(t)
	both, other := t.TempDir(), t.TempDir()
	for dir, text := range map[string]string{both: "the host's", other: "the server's"} {
		if err := errors.Join(os.Chmod(dir, 0o777), os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, seen string
		code       int
		want       string
	}{
		{"the same directory", both, 0, "the host's"},
		{"another directory", other, 125, "mount the path at the same place in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command("docker", "run", "--rm", "--user", "0:0", "--env", "HOME=/root", "--entrypoint", "warmbox",
				"--volume", "/var/run/docker.sock:/var/run/docker.sock", "--volume", program+":/usr/bin/warmbox:ro", "--volume", c.seen+":"+both,
				"warmbox/sandbox:slim", "exec", "--workspace", both, "--", "cat", "file")
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				t.Skipf("no docker program: %v", err)
			}
			if cmd.ProcessState.ExitCode() != c.code || !strings.Contains(string(out), c.want) || c.code != 0 && strings.Contains(string(out), "the host's") {
				t.Errorf("exit %d, %s", cmd.ProcessState.ExitCode(), out)
			}
		})
	}
}
