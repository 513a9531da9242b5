package server

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// TestPingAndStopWorkAtTheRequestLimit: at the limit of requests, ping is answered and stop is
// served; a call is refused with a result for the model, any other request with an error.
func TestPingAndStopWorkAtTheRequestLimit(t *testing.T) {
	s := newServer(t)
	session := newSession(sessionKey{}, localOwner)
	for range maxRequests {
		if !session.peer.enter(new(exchange), func() {}) {
			t.Fatal("a request below the limit was refused")
		}
	}
	m := s.mcp()
	for message, want := range map[string]string{
		ping: `"result":{}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`: `"code":-32000,"message":"100 requests are running`,
		toolCall(7, "list", `{}`):                        `"code":"LIMIT_REACHED"`,
		toolCall(7, "stop", `{"containerId":"b-none"}`):  `"code":"BOX_NOT_FOUND"`,
		`{"jsonrpc":"2.0","method":"no/such"}`:           "",
	} {
		e, err := parseMessage([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		x := &exchange{peer: session.peer, server: m, logger: slog.New(slog.DiscardHandler), message: e}
		ctx, end, _ := x.begin(context.WithValue(t.Context(), sessionCtxKey{}, session))
		var got strings.Builder
		if answer := x.serve(ctx); answer != nil {
			(&stdioConn{out: &got}).send(answer)
		}
		end()
		if !strings.Contains(got.String(), want) || want == "" && got.Len() > 0 {
			t.Errorf("%s: %s, want %s", message, got.String(), want)
		}
	}
	if n := len(session.peer.requests); n != maxRequests {
		t.Errorf("%d requests are running after that", n)
	}
}

// TestCancelComparesIDsExactly: ids that are equal as floating point, or without their quotes,
// are different.
func TestCancelComparesIDsExactly(t *testing.T) {
	s := newServer(t)
	arrived := make(chan struct{})
	s.Tools = []mcpserver.ServerTool{{Tool: mcp.NewTool("wait"), Handler: func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arrived <- struct{}{}
		<-ctx.Done()
		return mcp.NewToolResultText("cancelled"), nil
	}}}
	w := serveStdio(t, s)
	w.ask(initialize(1, legacy))
	ids := []string{`9007199254740992`, `9007199254740993`, `"9007199254740993"`, `1`, `"1"`}
	for _, id := range ids {
		w.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"wait"}}`)
		<-arrived
	}
	for _, id := range []string{ids[1], ids[4], ids[2], ids[3], ids[0]} {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		checkAnswer(t, w.line(), id)
	}
}
