package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// server is a warmbox over stdio, a child of ours, and its client. The client
// is not the library that the server is built with.
type server struct {
	session *mcp.ClientSession
	pid     int
}

// newServer starts the server with settings, in TOML, and all that it keeps in
// dir.
func newServer(ctx context.Context, o options, dir, settings string) (*server, error) {
	program, err := filepath.Abs(o.program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("no server to measure at %s; try: go generate ./... && go build -o bin/warmbox ./cmd/warmbox", program)
	}
	config := filepath.Join(dir, "warmbox.toml")
	if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "stdio", "--config", config)
	cmd.Env = environment(dir)
	cmd.Stderr = o.stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w (-v shows what it logs)", program, err)
	}
	return &server{session: session, pid: cmd.Process.Pid}, nil
}

// environment is ours without the settings of warmbox: nothing is measured
// but its defaults, and what it keeps goes where it is removed.
func environment(dir string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WARMBOX_") })
	return append(env, "XDG_STATE_HOME="+dir)
}

// close ends the server and waits for it.
func (s *server) close() error { return s.session.Close() }

type execResult struct {
	Status   string `json:"status"`
	ExitCode int    `json:"exitCode"`
	LogPath  string `json:"logPath"`

	Stdout      string `json:"stdout"`
	ContainerID string `json:"containerId"`

	replyBytes int
}

// exec runs a command in a box, "" for the client's own.
func (s *server) exec(ctx context.Context, box, cmd string) (execResult, error) {
	var r execResult
	args := map[string]any{"cmd": cmd}
	if box != "" {
		args["containerId"] = box
	}
	n, err := s.call(ctx, "exec", args, &r)
	if err == nil && (r.Status != "exited" || r.ExitCode != 0) {
		err = fmt.Errorf("%q ended with status %s and exit code %d", cmd, r.Status, r.ExitCode)
	}
	r.replyBytes = n
	return r, err
}

func (s *server) start(ctx context.Context) (string, error) {
	var r struct {
		ContainerID string `json:"containerId"`
	}
	_, err := s.call(ctx, "start", map[string]any{}, &r)
	return r.ContainerID, err
}

func (s *server) stop(ctx context.Context, box string) error {
	_, err := s.call(ctx, "stop", map[string]any{"containerId": box}, nil)
	return err
}

// call calls a tool, decodes its structured result into result, if that is not
// nil, and returns the size of the whole reply.
func (s *server) call(ctx context.Context, tool string, args map[string]any, result any) (int, error) {
	reply, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", tool, err)
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return 0, err
	}
	if reply.IsError {
		return 0, fmt.Errorf("%s: %.1000s", tool, text)
	}
	if result == nil {
		return len(text), nil
	}
	structured, err := json.Marshal(reply.StructuredContent)
	if err != nil {
		return 0, err
	}
	return len(text), json.Unmarshal(structured, result)
}
