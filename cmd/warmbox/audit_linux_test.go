package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAuditNamesTheOwnerOfTheToken checks that each line of the audit log has the
// name of the token whose client caused it, and no token.
func TestAuditNamesTheOwnerOfTheToken(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	const ofAlice, ofBob = "0123456789-of-alice", "0123456789-of-bob"
	tokens := h.write(t, "tokens", "alice = "+ofAlice+"\nbob.smith = "+ofBob+"\n")
	record := filepath.Join(h.dir, "record")
	url, _ := h.serveHTTP(t, "--token-file", tokens, "--audit-file", record)
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
		t.Errorf("the audit log contains a token: %s", text)
	}
}
