package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	mcpserver "github.com/mark3labs/mcp-go/server"
)

func TestShortcut(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"none"}}`
	var out bytes.Buffer
	s := &shortcut{server: mcpserver.NewMCPServer("test", "1"), out: &out, logger: slog.New(slog.DiscardHandler)}
	if s.take([]byte(call)) {
		t.Fatal("it takes a call before there is a session")
	}
	s.ctx = t.Context()
	for _, other := range []string{
		"", "\n", "{", "[" + call + "]", `"tools/call"`, `{"jsonrpc":"2.0","method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","result":{}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","error":{}}`,
	} {
		if s.take([]byte(other)) {
			t.Errorf("it takes %s", other)
		}
	}
	s.under = workers
	if s.take([]byte(call)) {
		t.Error("it takes more calls than it has places")
	}
	s.under = 0
	if !s.take([]byte(call)) {
		t.Fatal("it does not take a call")
	}
	s.close()
	var answer struct{ ID int }
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil || answer.ID != 7 || !bytes.HasSuffix(out.Bytes(), []byte("}\n")) {
		t.Errorf("the answer is %q, %v", out.String(), err)
	}
	if s.under != 0 || s.take([]byte(call)) {
		t.Error("it takes a call after its end")
	}
}
