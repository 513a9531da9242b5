package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// stranger is a user of this machine who owns nothing of ours.
const stranger = 65534

// TestOtherUser: another user of the machine reaches the port, and nothing else:
// no token, no log, no raw output, no socket of a box.
func TestOtherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	if ok, err := has("agent"); err != nil || !ok {
		t.Skipf("no agent: %v", err)
	}
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	err := errors.Join(os.WriteFile(open, []byte("for everybody"), 0o644),
		os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)) // nothing of the test's own is in the way
	if err != nil {
		t.Fatal(err)
	}
	url, server := serveOverHTTP(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, "state", "warmbox", "http-token"))
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

	if out := asStranger(t, "cat", open); out != "for everybody" {
		t.Fatalf("the test does not see what is open: %q", out)
	}
	proc := filepath.Join("/proc", strconv.Itoa(server.Pid))
	for _, name := range append(files(t, dir), filepath.Join(proc, "environ"), filepath.Join(proc, "cmdline")) {
		if out := asStranger(t, "cat", name); name != open && (strings.Contains(out, token) || strings.Contains(out, printed) || strings.HasPrefix(name, dir) && out != "") {
			t.Errorf("another user reads %s: %q", name, out)
		}
	}
	if out := asStranger(t, "ls", filepath.Join(dir, "state", "warmbox"), filepath.Join(proc, "fd")); out != "" {
		t.Errorf("another user lists %q", out)
	}
	if _, err := connectHTTP(t, url, "a guess that is wrong"); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// serveOverHTTP runs the program until the test ends; all that it keeps is in
// dir.
func serveOverHTTP(t *testing.T, dir string, flags ...string) (url string, server *os.Process) {
	t.Helper()
	cmd := exec.Command("warmbox", append([]string{"http", "--listen", "127.0.0.1:0", "--backend", "process", "--exec-whitelist", "*", "--log-level", "info"}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_RUNTIME_DIR="+dir, "WARMBOX_CONFIG="+os.DevNull)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	untilTestEnds(t, cmd)
	address := regexp.MustCompile(`url=(\S+)`)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if match := address.FindStringSubmatch(lines.Text()); match != nil {
			return match[1], cmd.Process
		}
	}
	t.Fatal("it ended")
	return "", nil
}

// connectHTTP connects a client that shows a token, and keeps no connection.
func connectHTTP(t *testing.T, url, token string) (*mcp.ClientSession, error) {
	t.Helper()
	client := &http.Client{Transport: bearer{&http.Transport{DisableKeepAlives: true}, token}}
	transport := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client, DisableStandaloneSSE: true}
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
}

type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// files lists all that lies below a directory.
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

// asStranger returns what another user gets of a command.
func asStranger(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.Run() // that it is refused something is what we want
	return out.String()
}
