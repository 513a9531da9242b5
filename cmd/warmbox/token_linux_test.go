package main

import (
	"bytes"
	"context"
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

// otherUser is a user of this machine who owns no file of the test.
const otherUser = 65534

// TestOtherUserReadsNothing checks that another user of the machine reaches the port of
// a server and nothing else: no token, no log, no raw output, no socket of a box.
func TestOtherUserReadsNothing(t *testing.T) {
	needRoot(t, "only root can run commands as another user")
	needAgent(t)
	h := newHome(t)
	open := h.write(t, "open", "for everybody")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "state", "run", ".cache", ".config"} { // the program must protect its own files
		if err := os.Chmod(filepath.Join(h.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	url, server := h.serveHTTP(t)
	text, err := os.ReadFile(filepath.Join(h.state(), "warmbox", "http-token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	const printed = "what-a-command-printed"
	session, err := connectHTTP(t, url, token)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"cmd": "echo " + printed}})
	if err != nil || r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}

	if out := asOtherUser(t, "cat", open); out != "for everybody" {
		t.Fatalf("another user cannot read a file that is open to all: %q", out)
	}
	proc := filepath.Join("/proc", strconv.Itoa(server.Pid))
	for _, name := range append(files(t, h.dir), filepath.Join(proc, "environ"), filepath.Join(proc, "cmdline")) {
		if out := asOtherUser(t, "cat", name); name != open && (strings.Contains(out, token) || strings.Contains(out, printed) || strings.HasPrefix(name, h.dir) && out != "") {
			t.Errorf("another user reads %s: %q", name, out)
		}
	}
	if out := asOtherUser(t, "ls", filepath.Join(h.state(), "warmbox"), filepath.Join(proc, "fd")); out != "" {
		t.Errorf("another user lists %q", out)
	}
	if _, err := connectHTTP(t, url, "a guess that is wrong"); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// files lists the files below a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// asOtherUser returns what a command prints that another user runs.
func asOtherUser(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Run() // may fail: the output counts
	return out.String()
}
