// Command tryclient runs one MCP session with a warmbox server over stdio, as a
// model's host would, and prints every message: what a newcomer sees here is what a
// model sees. It checks only that each call succeeds.
//
//	tryclient ./bin/warmbox [flag…]
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessionTime bounds the whole session. Its longest part, the start of the first box,
// takes a second.
const sessionTime = 2 * time.Minute

// protocol is the version of current hosts. The SDK's default is newer: it has no
// initialize, and longer messages.
const protocol = "2025-11-25"

// sum is a command like a model's: it writes a file, builds a program and runs it.
const sum = `cat >sum.c <<'EOF'
#include <stdio.h>
int main(void) {
	long sum = 0;
	for (long i = 1; i <= 1000000; i++) sum += i;
	printf("%ld\n", sum);
}
EOF
make -s sum && ./sum && ls no-such-file`

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), sessionTime)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tryclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server []string) error {
	if len(server) == 0 {
		return fmt.Errorf("usage: tryclient SERVER [FLAG…]")
	}
	command := exec.Command(server[0], server[1:]...)
	command.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "tryclient", Version: "1"}, nil)
	transport := &printing{Transport: &mcp.CommandTransport{Command: command}, to: os.Stdout}
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", server[0], err)
	}
	defer session.Close() // on errors; closing twice is allowed
	if err := converse(ctx, session); err != nil {
		return err
	}
	return session.Close()
}

func converse(ctx context.Context, session *mcp.ClientSession) error {
	if _, err := session.ListTools(ctx, nil); err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	// Without a containerId the command runs in the session's default box.
	if _, err := call(ctx, session, "exec", args{"cmd": "whoami; uname -sr; python3 --version"}); err != nil {
		return err
	}
	started, err := call(ctx, session, "start", args{"name": "second"})
	if err != nil {
		return err
	}
	id, ok := started["containerId"].(string)
	if !ok {
		return fmt.Errorf("start: the result has no containerId: %v", started)
	}
	if _, err := call(ctx, session, "exec", args{"containerId": id, "cmd": sum}); err != nil {
		return err
	}
	_, err = call(ctx, session, "stop", args{"containerId": id})
	return err
}

type args map[string]any

// call returns the structured content of a result, or an error if the result is one. A
// command that exits with a code other than 0 is not an error.
func call(ctx context.Context, session *mcp.ClientSession, tool string, arguments args) (map[string]any, error) {
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	if result.IsError {
		return nil, fmt.Errorf("%s: the tool returned an error, see above", tool)
	}
	structured, _ := result.StructuredContent.(map[string]any)
	return structured, nil
}
