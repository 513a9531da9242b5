package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// Commands by which a script of testdata is a client of the program.

type clientKey struct{}

// connect FLAGS... starts the program on stdio and connects to it with the
// official SDK. The program ends with the script, or with the next connect.
func connectClient(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: connect FLAGS...")
	}
	if before := *ts.Value(clientKey{}).(**mcp.ClientSession); before != nil {
		ts.Check(before.Close()) // which ends its server
	}
	cmd := exec.Command("warmbox", append([]string{"stdio"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"HOME", "PATH", "DOCKER_HOST", "WARMBOX_BACKEND", "WARMBOX_EXEC_WHITELIST", "WARMBOX_POOL_WARM", "DEPLOY_KEY"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+filepath.Join(ts.Getenv("HOME"), "state"))
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	defer log.Close() // the program has a descriptor of its own
	cmd.Stderr = log
	client := mcp.NewClient(&mcp.Implementation{Name: "session", Version: "1"}, nil)
	session, err := client.Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
	ts.Check(err)
	ts.Defer(func() { session.Close() })
	*ts.Value(clientKey{}).(**mcp.ClientSession) = session
}

// call TOOL JSON calls a tool and prints the text of its result. It sets EXEC to the
// result's execId, and BOX to its containerId.
func callTool(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] call TOOL JSON")
	}
	session := *ts.Value(clientKey{}).(**mcp.ClientSession)
	ctx, cancel := context.WithTimeout(context.Background(), 2*waitLimit)
	defer cancel()
	r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: args[0], Arguments: json.RawMessage(args[1])})
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), r.Content[0].(*mcp.TextContent).Text)
	if r.IsError != neg {
		ts.Fatalf("isError is %v", r.IsError)
	}
	fields, _ := r.StructuredContent.(map[string]any)
	for name, field := range map[string]string{"EXEC": "execId", "BOX": "containerId"} {
		if value, ok := fields[field].(string); ok {
			ts.Setenv(name, value)
		}
	}
}
