package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPersistentBoxBelongsToItsToken starts a persistent box with a token. Another token
// that has the first one's name by then, and a server over stdio, cannot reach, list,
// stop or reattach to the box. The first token can, by whatever name.
func TestPersistentBoxBelongsToItsToken(t *testing.T) {
	needDocker(t)
	h := tokenHome{t, newHome(t, "WARMBOX_POOL_WARM=0")}
	h.sweepAtEnd(t)
	const first, second = "0123456789-the-first", "0123456789-the-second"
	persistent := map[string]any{"name": "dev", "keep": true}

	alice, end := h.serveToken("alice = "+first, first)
	box := h.call(alice, "start", persistent)["id"]
	run := h.call(alice, "exec", map[string]any{"containerId": box, "cmd": "echo mine | tee /tmp/mine"})["execId"]
	end()

	other, end := h.serveToken("alice = "+second, second)
	h.cannotReach(other, box, run)
	if got := h.call(other, "start", persistent)["id"]; got == box {
		t.Error("another token of the same name has the box")
	} else {
		h.call(other, "stop", map[string]any{"containerId": got})
	}
	// These start while that server runs, so that a server which holds the box shows.
	local := h.serve(t)
	h.cannotReach(local.ClientSession, box, run)
	bob, endBob := h.serveToken("bob = "+first, first)
	if got := h.call(bob, "start", persistent)["id"]; got != box {
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

// A tokenHome is the home of servers with several tokens.
type tokenHome struct {
	*testing.T
	home
}

// serveToken runs a server whose token file has a text, and connects a client that
// sends a token. end ends both.
func (h tokenHome) serveToken(tokens, token string) (client *mcp.ClientSession, end func()) {
	h.Helper()
	file := h.write(h.T, "tokens-of-"+token, tokens+"\n")
	url, server := h.serveHTTP(h.T, "--backend", "docker", "--token-file", file)
	client, err := connectHTTP(h.T, url, token)
	if err != nil {
		h.Fatal(err)
	}
	return client, func() {
		client.Close()
		server.Signal(syscall.SIGTERM)
		soon(h.T, "the server ends", func() bool { return !runs(server.Pid) })
	}
}

func (h tokenHome) call(client *mcp.ClientSession, tool string, args map[string]any) map[string]any {
	h.Helper()
	return (&program{ClientSession: client}).call(h.T, tool, args)
}

// cannotReach checks that for a client a box and a run do not exist.
func (h tokenHome) cannotReach(client *mcp.ClientSession, box, run any) {
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
		if fields, _ := r.StructuredContent.(map[string]any); !r.IsError || fields["code"] != c.code {
			h.Errorf("%s %v: %+v", c.tool, c.args, r.StructuredContent)
		}
	}
}
