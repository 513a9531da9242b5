package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The record says whose token it was.
func TestAuditOfNamedTokens(t *testing.T) {
	if ok, err := has("agent"); err != nil || !ok {
		t.Skipf("no agent: %v", err)
	}
	dir := t.TempDir()
	tokens, record := filepath.Join(dir, "tokens"), filepath.Join(dir, "record")
	const ofAlice, ofBob = "0123456789-of-alice", "0123456789-of-bob"
	if err := os.WriteFile(tokens, []byte("alice = "+ofAlice+"\nbob.smith = "+ofBob+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := serveOverHTTP(t, dir, "--token-file", tokens, "--audit-file", record)
	for _, token := range []string{ofAlice, ofBob} {
		session, err := connectHTTP(t, url, token)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"cmd": "echo " + token[11:]}}); err != nil || r.IsError {
			t.Fatalf("%+v, %v", r, err)
		}
		session.Close()
	}
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"msg":"exec","owner":"alice","session":"`, `"msg":"exec","owner":"bob.smith","session":"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no line has %s: %s", want, text)
		}
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, `"cmd":"echo of-alice"`) && !strings.Contains(line, `"owner":"alice"`) {
			t.Errorf("%s", line)
		}
	}
	if strings.Contains(string(text), ofAlice) || strings.Contains(string(text), ofBob) {
		t.Errorf("the record has a token: %s", text)
	}
}
