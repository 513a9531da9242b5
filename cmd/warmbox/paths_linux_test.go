package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// refused calls a tool, which must fail with words.
func (p *program) refused(t *testing.T, tool string, args map[string]any, words string) {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, c := range r.Content {
		if c, ok := c.(*mcp.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	if !r.IsError || !strings.Contains(text.String(), words) {
		t.Errorf("%s %v: %s; want %q", tool, args, text.String(), words)
	}
}

// TestNestedWorkspaces: of two servers of one user the boxes of one can write above
// the workspace of the other. They replace it by a link to the user's home, and by
// a directory of theirs; no box of the other gets either, from the pool or not, nor
// does a server that is started then.
func TestNestedWorkspaces(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	h := newHome(t)
	h.mkdir(t, ".ssh")
	if err := os.WriteFile(filepath.Join(h.dir, ".ssh", "id"), []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
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
		victim.refused(t, "start", map[string]any{"name": fmt.Sprint("link", i)}, "is a link now")
	}
	attack("rm sub && mkdir sub")
	victim.refused(t, "start", map[string]any{"name": "made"}, "boxes can write "+filepath.Dir(inner))
	attack("rmdir sub && ln -s ../other sub")
	if err := attacker.Close(); err != nil {
		t.Error(err)
	}
	out, err := h.warmbox(t, "exec", "--workspace", inner, "--", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sub is a link, and boxes of yours could write "+filepath.Dir(inner)) {
		t.Errorf("a server that starts when the other has ended: %v, %s", err, out)
	}
	if err := errors.Join(os.Remove(inner), os.Rename(filepath.Join(filepath.Dir(inner), "away"), inner)); err != nil {
		t.Fatal(err)
	}
	if r := victim.call(t, "start", map[string]any{"name": "back"}); r["containerId"] == nil {
		t.Errorf("%v", r)
	}
}

// TestServerInAContainer runs the program in a container that has the engine's
// socket. The engine takes a path for its own: where that is another directory than
// the one which the program sees, no command runs.
func TestServerInAContainer(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	if os.Getenv("DOCKER_HOST") != "" || os.Getuid() != 0 {
		t.Skip("needs root, and the engine at its usual place")
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
		{"another one", other, 125, "mount it at the same path on both sides"},
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
