package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestKeptBoxIsItsTokens keeps a box with a token. Neither another token that has the
// name of the first one by now, nor a server over stdio, reaches it, lists it, stops it
// or takes it over; the token has it again, by whatever name.
func TestKeptBoxIsItsTokens(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	t.Setenv("WARMBOX_POOL_WARM", "0")
	h := tokenHome{t, t.TempDir()}
	state := filepath.Join(h.dir, "state")
	t.Cleanup(func() { sweepAll(t, state) })
	const first, second = "0123456789-the-first", "0123456789-the-second"
	keep := map[string]any{"name": "dev", "keep": true}

	alice, end := h.serve("alice = "+first, first)
	box := h.call(alice, "start", keep)["id"]
	run := h.call(alice, "exec", map[string]any{"containerId": box, "cmd": "echo mine | tee /tmp/mine"})["execId"]
	end()

	stranger, end := h.serve("alice = "+second, second)
	h.knowsNothing(stranger, box, run)
	if got := h.call(stranger, "start", keep)["id"]; got == box {
		t.Error("a token of the same name has the box")
	} else {
		h.call(stranger, "stop", map[string]any{"containerId": got})
	}
	// While that server runs, so that it would be seen to hold the box.
	local := serveIn(t, state)
	h.knowsNothing(local.ClientSession, box, run)
	bob, endBob := h.serve("bob = "+first, first)
	if got := h.call(bob, "start", keep)["id"]; got != box {
		t.Errorf("the token by another name has the box %v, want %v", got, box)
	}
	if r := h.call(bob, "exec", map[string]any{"containerId": box, "cmd": "cat /tmp/mine"}); r["stdout"] != "mine\n" {
		t.Errorf("%v", r)
	}
	if r := h.call(bob, "logs", map[string]any{"execId": run}); !strings.Contains(fmt.Sprint(r["text"]), "mine") {
		t.Errorf("%v", r)
	}
	h.call(bob, "stop", map[string]any{"containerId": box})
	endBob()
	end()
}

// A tokenHome is where servers of several tokens have their state, one at a time or
// several.
type tokenHome struct {
	*testing.T
	dir string
}

// serve runs a server whose file of tokens has a text, and connects a client that shows
// one. Whoever has both ends them.
func (h tokenHome) serve(tokens, token string) (client *mcp.ClientSession, end func()) {
	h.Helper()
	file, err := os.CreateTemp(h.dir, "tokens")
	if err != nil {
		h.Fatal(err)
	}
	fmt.Fprintln(file, tokens)
	file.Close()
	url, server := serveOverHTTP(h.T, h.dir, "--backend", "docker", "--token-file", file.Name())
	client, err = connectHTTP(h.T, url, token)
	if err != nil {
		h.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Signal(syscall.SIGTERM)
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", server.Pid))
			if err != nil || strings.Contains(string(status), "\nState:\tZ") {
				return
			}
			if time.Now().After(deadline) {
				h.Fatal("the server does not end")
			}
		}
	}
}

func (h tokenHome) call(client *mcp.ClientSession, tool string, args map[string]any) map[string]any {
	h.Helper()
	return (&program{ClientSession: client}).call(h.T, tool, args)
}

// knowsNothing sees that for a client there is no such box and no such run.
func (h tokenHome) knowsNothing(client *mcp.ClientSession, box, run any) {
	h.Helper()
	if r := h.call(client, "list", map[string]any{}); strings.Contains(fmt.Sprint(r), fmt.Sprint(box)) || strings.Contains(fmt.Sprint(r), fmt.Sprint(run)) {
		h.Errorf("list: %v", r)
	}
	for _, c := range []struct {
		tool, code string
		args       map[string]any
	}{
		{"exec", "BOX_NOT_FOUND", map[string]any{"containerId": box, "cmd": "true"}},
		{"stop", "BOX_NOT_FOUND", map[string]any{"containerId": box}},
		{"logs", "EXEC_NOT_FOUND", map[string]any{"execId": run}},
		{"stop", "EXEC_NOT_FOUND", map[string]any{"execId": run}},
	} {
		r, err := client.CallTool(h.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		if err != nil {
			h.Fatal(err)
		}
		if told, _ := r.StructuredContent.(map[string]any); !r.IsError || told["code"] != c.code {
			h.Errorf("%s %v: %+v", c.tool, c.args, r.StructuredContent)
		}
	}
}
