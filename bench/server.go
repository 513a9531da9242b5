package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// readyTime bounds the start of a server, and of a box.
	readyTime = 30 * time.Second

	// endTime bounds the shutdown of a server with all its boxes, after which it is
	// killed. It is a little longer than the server's own limit.
	endTime = 12 * time.Second

	// maxAtOnce is the maximum of calls in flight of one client.
	maxAtOnce = 64
)

// A server is a child process that runs warmbox, and one client of it.
type server struct {
	session *client.Client
	journal *journal
	cmd     *exec.Cmd
	stdin   io.Closer // closing it ends a server on stdio
	dir     string    // its state; removed with it
	http    bool
	url     string
	token   string
}

// serve starts a server on "stdio" or "http", with additional flags, and a client.
func (b *Bench) serve(ctx context.Context, kind string, flags ...string) (s *server, err error) {
	s = &server{journal: newJournal(b.Log), http: kind == "http", token: rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("warmbox %s: %w\n%s", kind, err, s.journal.tail()), s.close())
			s = nil
		}
	}()
	if s.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return s, err
	}
	s.cmd = exec.Command(b.Program, append(append([]string{kind}, b.Args...), s.flags(flags)...)...)
	s.cmd.Env = append(append(os.Environ(), b.Env...), "XDG_STATE_HOME="+s.dir)
	s.cmd.Stderr = s.journal
	if !s.http {
		return s, s.pipe(ctx)
	}
	if err := s.listen(ctx); err != nil {
		return s, err
	}
	s.session, err = s.newClient(ctx, "bench")
	return s, err
}

// pipe starts a server on stdio.
func (s *server) pipe(ctx context.Context) error {
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return err
	}
	s.stdin = stdin
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.session, err = connect(ctx, newPipe(stdin, stdout), "bench")
	return err
}

// flags returns those of every server: a log that journal can read, files of its own,
// and an empty pool, so that no box starts during another measurement.
func (s *server) flags(more []string) []string {
	flags := []string{"--log-level=info", "--log-format=json", "--log-file=", "--log-dir=", "--pool-warm=0", "--pool-images="}
	if s.http {
		flags = append(flags, "--listen=127.0.0.1:0", "--max-rate=100000", "--tls-cert=", "--tls-key=", "--token-file="+filepath.Join(s.dir, "token"))
	}
	return append(flags, more...)
}

// listen starts a server on HTTP, and waits until it listens.
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
		return fmt.Errorf("the server does not listen: %w", ctx.Err())
	}
}

// newClient returns one more client of a server on HTTP.
func (s *server) newClient(ctx context.Context, name string) (*client.Client, error) {
	idle := http.DefaultTransport.(*http.Transport).Clone()
	idle.MaxIdleConnsPerHost = maxAtOnce // else connections are closed and opened again
	t, err := transport.NewStreamableHTTP(s.url, transport.WithHTTPBasicClient(&http.Client{Transport: idle}),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + s.token}))
	if err != nil {
		return nil, err
	}
	return connect(ctx, t, name)
}

// connect returns an initialized client. The context bounds only the initialization.
func connect(ctx context.Context, t transport.Interface, name string) (*client.Client, error) {
	c := client.NewClient(t)
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var hello mcp.InitializeRequest
	hello.Params.ClientInfo = mcp.Implementation{Name: name, Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// close ends the server and waits for it.
func (s *server) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	if s.session != nil {
		errs = append(errs, s.session.Close())
	}
	if s.cmd != nil && s.cmd.Process != nil {
		errs = append(errs, s.end())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// end shuts the server down, and kills it if that takes longer than endTime.
func (s *server) end() error {
	late := time.AfterFunc(endTime, func() { s.cmd.Process.Kill() })
	defer late.Stop()
	switch {
	case !s.http:
		s.stdin.Close() // the client may have closed it already
	case s.cmd.Process.Signal(os.Interrupt) != nil: // a system without signals
		s.cmd.Process.Kill()
	}
	return s.cmd.Wait()
}

// An answer holds the fields that are read from a reply to exec or start.
type answer struct {
	Status, Stdout, LogPath, ContainerID string
	ExitCode                             int

	text []byte // the structured content
}

// run runs a command in a box, "" for the client's default box.
func run(ctx context.Context, c *client.Client, box, cmd string) (*mcp.CallToolResult, error) {
	args := map[string]any{"cmd": cmd}
	if box != "" {
		args["containerId"] = box
	}
	r, err := call(ctx, c, "exec", args)
	if err != nil {
		return nil, err
	}
	content, _ := r.StructuredContent.(map[string]any)
	if content["status"] != "exited" || content["exitCode"] != 0.0 {
		return nil, fmt.Errorf("%q ended with status %v and exit code %v", cmd, content["status"], content["exitCode"])
	}
	return r, nil
}

func start(ctx context.Context, c *client.Client) (string, error) {
	r, err := call(ctx, c, "start", map[string]any{})
	if err != nil {
		return "", err
	}
	a, err := read(r)
	return a.ContainerID, err
}

func stop(ctx context.Context, c *client.Client, box string) error {
	_, err := call(ctx, c, "stop", map[string]any{"containerId": box})
	return err
}

// call decodes no more than the library does, because the decoding is part of the
// measured time.
func call(ctx context.Context, c *client.Client, tool string, args map[string]any) (*mcp.CallToolResult, error) {
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.Arguments = tool, args
	r, err := c.CallTool(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	if r.IsError {
		content, _ := r.StructuredContent.(map[string]any)
		return nil, fmt.Errorf("%s: %.1000v", tool, content["error"])
	}
	return r, nil
}

func read(r *mcp.CallToolResult) (a answer, err error) {
	if a.text, err = json.Marshal(r.StructuredContent); err == nil {
		err = json.Unmarshal(a.text, &a)
	}
	return a, err
}
