package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/tools"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(m.Run()) // the test that started it checks for leaks
	}
	boxtest.Main(m)
}

// waitLimit is how long a test waits for what takes milliseconds on an idle machine.
const waitLimit = 30 * time.Second

// newServer returns a server with the real tools over real agents.
func newServer(t testing.TB) *Server { return serverOf(t, &tools.Set{}) }

// serverOf returns a server with the tools of a Set.
func serverOf(t testing.TB, set *tools.Set) *Server {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	set.Manager, set.Owner, set.NoWait = m, Owner, NoWait
	return &Server{Manager: m, Tools: set.Tools(), Resources: set.Resources(), Version: "1.2.3", Logger: slog.New(slog.NewTextHandler(testLog{t}, nil))}
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// serveEnv makes the test program a server on stdio, for clients that start their server.
const serveEnv = "WARMBOX_TEST_SERVE"

// TestServe is that server.
func TestServe(t *testing.T) {
	if os.Getenv(serveEnv) == "" {
		t.Skip("it is a server for other tests")
	}
	os.Unsetenv(serveEnv) // its boxes are not servers
	stdout := os.Stdout
	os.Stdout = os.Stderr // the output of go test is not JSON
	s := newServer(t)
	s.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := s.ServeStdio(t.Context(), os.Stdin, stdout); err != nil {
		t.Error(err)
	}
}

// stdioServer returns a command that starts TestServe. It sets its environment itself, since
// hosts pass little of theirs to servers.
func stdioServer(t testing.TB) []string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", serveEnv + "=1", exe, "-test.run=^TestServe$", "-test.timeout=5m"}
}

func stdioCommand(t testing.TB) *exec.Cmd {
	argv := stdioServer(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = testLog{t}
	return cmd
}

// testToken is the token of clients that are not to be refused.
const testToken = "a token for tests"

// listen serves HTTP until the test ends, and returns the URL.
func listen(t testing.TB, s *Server, h HTTP) string {
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan net.Addr, 1)
	h.Ready = func(addr net.Addr) { ready <- addr }
	if h.Listen == "" {
		h.Listen = "127.0.0.1:0"
	}
	if h.Tokens == nil {
		h.Tokens = map[string]string{"tester": testToken}
	}
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("ListenAndServe: %v", err)
		}
	})
	select {
	case addr := <-ready:
		return h.scheme() + "://" + addr.String()
	case err := <-served:
		served <- nil
		t.Fatalf("ListenAndServe: %v", err)
	}
	return ""
}

// fields decodes the structured content of a result.
func fields(t testing.TB, content any) map[string]any {
	t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
