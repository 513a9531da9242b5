package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A fleet is several clients of one server, over HTTP: no single one may have so
// many calls under way as very many boxes take.
type fleet struct {
	dir     string
	cmd     *exec.Cmd
	clients []*server
}

// serveTime bounds how long a server may take until it serves.
const serveTime = 10 * time.Second

// newFleet starts a server, and so many clients of it.
func newFleet(ctx context.Context, o options, clients int) (f *fleet, err error) {
	f = &fleet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "warmbox-bench-*"); err != nil {
		return f, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, err
	}
	addr, token := l.Addr().String(), rand.Text()
	l.Close()
	if err := f.serve(o, addr, token); err != nil {
		return f, err
	}
	if err := await(ctx, "http://"+addr+"/healthz"); err != nil {
		return f, err
	}
	for i := range clients {
		client := mcp.NewClient(&mcp.Implementation{Name: fmt.Sprint("bench", i), Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: "http://" + addr + "/mcp", HTTPClient: &http.Client{Transport: withToken(token)}, DisableStandaloneSSE: true,
		}, nil)
		if err != nil {
			return f, err
		}
		f.clients = append(f.clients, &server{session, f.cmd.Process.Pid})
	}
	return f, nil
}

func (f *fleet) serve(o options, addr, token string) error {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return err
	}
	config, tokens := filepath.Join(f.dir, "warmbox.toml"), filepath.Join(f.dir, "token")
	settings := o.settings(0) + fmt.Sprintf("[http]\nlisten = %q\ntoken_file = %q\nmax_rate = 10000\n", addr, tokens)
	if err := errors.Join(os.WriteFile(config, []byte(settings), 0o600), os.WriteFile(tokens, []byte(token), 0o600)); err != nil {
		return err
	}
	f.cmd = exec.Command(program, "http", "--config", config)
	f.cmd.Env, f.cmd.Stderr = environment(f.dir), o.stderr
	if err := f.cmd.Start(); err != nil {
		f.cmd = nil
		return err
	}
	return nil
}

// await returns when an address answers.
func await(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, serveTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(url)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w (-v shows what the server logs)", err)
		}
	}
}

func (f *fleet) close() error {
	var errs []error
	for _, c := range f.clients {
		errs = append(errs, c.close())
	}
	if f.cmd != nil {
		errs = append(errs, f.cmd.Process.Signal(os.Interrupt), f.cmd.Wait())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// withToken is a token that each request shows.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}
