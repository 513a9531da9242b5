package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tests run the program as its users do: as an ordinary user who is a member of
// the engine's group. A test runs it as root only where it says why.

// waitLimit is how long a test waits for something that takes milliseconds, unless
// the machine is busy.
const waitLimit = 30 * time.Second

// needDocker skips a test that needs an engine with the default image.
func needDocker(t *testing.T) {
	t.Helper()
	if ok, err := has("docker"); !ok {
		skip(t, err, "no engine answers, or it lacks the default image")
	}
}

// needAgent skips a test that starts boxes without an engine.
func needAgent(t *testing.T) {
	t.Helper()
	if ok, err := has("agent"); !ok {
		skip(t, err, "the process backend needs Linux and an agent")
	}
}

// skip skips a test for want of something, or fails it where has returned an error:
// WARMBOX_REQUIRE names what is missing.
func skip(t *testing.T, err error, why string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Skip(why)
}

// needRoot skips a test that only root can run, for the reason given.
func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

// A home is the directory of an ordinary user, for one test. It contains the state
// of the program, and workspaces.
type home struct {
	dir string
	env []string // more for the programs that run as the user
}

// newHome makes a home for the ordinary user, or for the user who runs the test if
// that is not root. Its path is short: the path of a socket must be.
func newHome(t *testing.T, env ...string) home {
	t.Helper()
	dir, err := os.MkdirTemp("", "wb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := home{filepath.Join(dir, "home"), env}
	for _, name := range []string{".", ".config", ".cache", "state", "run"} {
		h.mkdir(t, name)
	}
	return h
}

// mkdir makes a directory that belongs to the user and returns its path.
func (h home) mkdir(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(h.dir, name)
	if err := errors.Join(os.MkdirAll(dir, 0o700), h.own(dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write writes a file that only the user can read and returns its path.
func (h home) write(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(h.dir, name)
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o600), h.own(name)); err != nil {
		t.Fatal(err)
	}
	return name
}

// state is the directory of the program's state.
func (h home) state() string { return filepath.Join(h.dir, "state") }

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
		"XDG_STATE_HOME="+h.state(), "XDG_RUNTIME_DIR="+filepath.Join(h.dir, "run"), "TMPDIR="+os.TempDir())
	cmd.Env = append(cmd.Env, h.env...)
	asOrdinaryUser(cmd)
	return cmd
}

// program puts the program under test where the user can run it, and returns its
// path. It is the test binary, by another name.
func (h home) program(t *testing.T) string {
	t.Helper()
	name := filepath.Join(filepath.Dir(h.dir), "warmbox")
	if _, err := os.Stat(name); err == nil {
		return name
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, name) != nil { // another file system, or another user's file
		text, err := os.ReadFile(self)
		if err := errors.Join(err, os.WriteFile(name, text, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// A program is a running `warmbox stdio` and the session of a client with it.
type program struct {
	*mcp.ClientSession
	cmd   *exec.Cmd
	state string
}

// serve runs `warmbox stdio` as the user and connects a client to it, both until
// the test ends.
func (h home) serve(t *testing.T, flags ...string) *program {
	t.Helper()
	return h.serveTo(t, func(string) {}, flags...)
}

// serveTo serves a client that passes the progress that it is notified of to a
// function.
func (h home) serveTo(t *testing.T, progress func(string), flags ...string) *program {
	t.Helper()
	cmd := h.warmbox(t, append([]string{"stdio", "--log-level", "warn"}, flags...)...)
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params.Message) },
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &program{session, cmd, h.state()}
}

// serve serves boxes of the engine to a user with a new home.
func serve(t *testing.T, flags ...string) *program {
	t.Helper()
	needDocker(t)
	return newHome(t).serve(t, flags...)
}

// processBackend are the flags for boxes that are plain processes, whose commands
// are not checked.
var processBackend = []string{"--backend", "process", "--exec-whitelist", "*"}

// call calls a tool, which must not fail, and returns its structured content.
func (p *program) call(t *testing.T, tool string, args map[string]any) map[string]any {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return structured(t, r)
}

// structured returns the structured content of a result, which must be no error.
func structured(t *testing.T, r *mcp.CallToolResult) map[string]any {
	t.Helper()
	fields, ok := r.StructuredContent.(map[string]any)
	if !ok || r.IsError {
		t.Fatalf("%+v", r)
	}
	return fields
}

// exec calls exec, which may fail, and returns its structured content and the size
// of the result.
func (p *program) exec(t *testing.T, args map[string]any) (result map[string]any, size int) {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := r.StructuredContent.(map[string]any)
	return fields, len(whole)
}

// refused calls a tool, whose error must contain some words.
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

// serveHTTP runs `warmbox http` as the user, on the process backend unless flags
// name another, until the test ends.
func (h home) serveHTTP(t *testing.T, flags ...string) (url string, server *os.Process) {
	t.Helper()
	cmd := h.warmbox(t, append(append([]string{"http", "--listen", "127.0.0.1:0", "--log-level", "info"}, processBackend...), flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	untilTestEnds(t, cmd)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if match := address.FindStringSubmatch(lines.Text()); match != nil {
			go io.Copy(io.Discard, stderr) // until the server ends
			return match[1], cmd.Process
		}
	}
	t.Fatal("the server ended before it listened")
	return "", nil
}

// address finds in a server's log where it listens.
var address = regexp.MustCompile(`url=(http\S+)`)

// untilTestEnds runs a server until the test ends, and checks that SIGTERM ends it
// without an error.
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

// connectHTTP connects a client that sends a token, and keeps no connection.
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

// A wireClient speaks with a program on its standard input and output, line by line.
type wireClient struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startWire starts a program. The test waits for it.
func startWire(t *testing.T, cmd *exec.Cmd) *wireClient {
	t.Helper()
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	return &wireClient{t, cmd, in, bufio.NewReader(out)}
}

// containersOf lists the containers that a program has made and that run, or with
// --all also those that do not.
func containersOf(t *testing.T, p *program, flags ...string) []string {
	t.Helper()
	flags = append([]string{"ps", "--quiet", "--filter", fmt.Sprint("label=dev.warmbox.server-pid=", p.cmd.Process.Pid)}, flags...)
	out, err := exec.Command("docker", flags...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// soon waits until something is done that takes a moment.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitLimit); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, waitLimit)
		}
	}
}

// sweep returns the command that removes all boxes of the user.
func (h home) sweep(t *testing.T) *exec.Cmd { return h.warmbox(t, "sweep", "--all") }

// sweepAtEnd removes what the test leaves in persistent boxes, however it ends.
func (h home) sweepAtEnd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if out, err := h.sweep(t).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}
