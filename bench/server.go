package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// readyTime bounds how long a server may take to serve, and a box to stand.
	readyTime = 30 * time.Second

	// endTime is how long a server may take to end with all its boxes before it
	// is killed: a little more than it takes itself.
	endTime = 12 * time.Second

	// maxAtOnce is how many calls of one client are under way at most.
	maxAtOnce = 64
)

// A server is a warmbox that is a child of ours, with one client of it.
type server struct {
	session *mcp.ClientSession
	journal *journal
	cmd     *exec.Cmd // on stdio the session starts and ends it
	dir     string    // what it keeps; removed with it
	http    bool
	url     string
	token   string
}

// serve starts a server on "stdio" or "http", with flags after those of all, and
// a client of it.
func (b *Bench) serve(ctx context.Context, transport string, flags ...string) (s *server, err error) {
	s = &server{journal: newJournal(b.Log), http: transport == "http", token: rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("warmbox %s: %w\n%s", transport, err, s.journal.tail()), s.close())
			s = nil
		}
	}()
	if s.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return s, err
	}
	s.cmd = exec.Command(b.Program, append(append([]string{transport}, b.Args...), s.flags(flags)...)...)
	s.cmd.Env = append(append(os.Environ(), b.Env...), "XDG_STATE_HOME="+s.dir)
	s.cmd.Stderr = s.journal
	if !s.http {
		s.session, err = connect(ctx, &mcp.CommandTransport{Command: s.cmd, TerminateDuration: endTime})
		return s, err
	}
	if err := s.listen(ctx); err != nil {
		return s, err
	}
	s.session, err = s.visit(ctx)
	return s, err
}

// flags are what every server that is measured needs: a log that can be read,
// files of its own, and no box that is started while something else is measured.
func (s *server) flags(more []string) []string {
	flags := []string{"--log-level=info", "--log-format=json", "--log-file=", "--log-dir=", "--pool-warm=0", "--pool-images="}
	if s.http {
		flags = append(flags, "--listen=127.0.0.1:0", "--max-rate=100000", "--tls-cert=", "--tls-key=", "--token-file="+filepath.Join(s.dir, "token"))
	}
	return append(flags, more...)
}

// listen starts a server on HTTP and returns when it serves.
func (s *server) listen(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(s.dir, "token"), []byte(s.token), 0o600); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	select {
	case s.url = <-s.journal.serving:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it does not serve: %w", ctx.Err())
	}
}

// visit returns one more client of a server on HTTP.
func (s *server) visit(ctx context.Context) (*mcp.ClientSession, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxAtOnce // else they are closed and dialled again
	return connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: s.url, HTTPClient: &http.Client{Transport: withToken{s.token, t}}, DisableStandaloneSSE: true,
	})
}

func connect(ctx context.Context, t mcp.Transport) (*mcp.ClientSession, error) {
	return mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, t, nil)
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// close ends the server and waits for it. Of one that was interrupted with us,
// it does not matter how it ended.
func (s *server) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.session != nil {
		errs = append(errs, s.session.Close())
	}
	if s.http && s.cmd != nil && s.cmd.Process != nil {
		errs = append(errs, s.end())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

func (s *server) end() error {
	if s.cmd.Process.Signal(os.Interrupt) != nil { // a system without signals
		s.cmd.Process.Kill()
	}
	late := time.AfterFunc(endTime, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	return s.cmd.Wait()
}

// withToken is a token that each request shows.
type withToken struct {
	token string
	next  http.RoundTripper
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(r)
}

// An answer is what is read of one to exec or start.
type answer struct {
	Status, Stdout, LogPath, ContainerID string
	ExitCode                             int

	text []byte // all of the structured part
}

// run runs a command in a box, "" for the client's own.
func run(ctx context.Context, c *mcp.ClientSession, box, cmd string) (*mcp.CallToolResult, error) {
	args := map[string]any{"cmd": cmd}
	if box != "" {
		args["containerId"] = box
	}
	r, err := call(ctx, c, "exec", args)
	if err != nil {
		return nil, err
	}
	said, _ := r.StructuredContent.(map[string]any)
	if said["status"] != "exited" || said["exitCode"] != 0.0 {
		return nil, fmt.Errorf("%q ended with status %v and exit code %v", cmd, said["status"], said["exitCode"])
	}
	return r, nil
}

func start(ctx context.Context, c *mcp.ClientSession) (string, error) {
	r, err := call(ctx, c, "start", map[string]any{})
	if err != nil {
		return "", err
	}
	a, err := read(r)
	return a.ContainerID, err
}

func stop(ctx context.Context, c *mcp.ClientSession, box string) error {
	_, err := call(ctx, c, "stop", map[string]any{"containerId": box})
	return err
}

// call decodes nothing but what the library does: that is the client's part of
// what is measured.
func call(ctx context.Context, c *mcp.ClientSession, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	if r.IsError {
		said, _ := r.StructuredContent.(map[string]any)
		return nil, fmt.Errorf("%s: %.1000v", tool, said["error"])
	}
	return r, nil
}

func read(r *mcp.CallToolResult) (a answer, err error) {
	if a.text, err = json.Marshal(r.StructuredContent); err == nil {
		err = json.Unmarshal(a.text, &a)
	}
	return a, err
}
