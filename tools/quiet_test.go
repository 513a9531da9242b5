package tools

import (
	"strings"
	"testing"
)

// TestExecAtTerminalReturnsAtThePrompt: a call waits for the first output, and returns when the
// program is quiet after it. Calls that wait until the end of their wait would last longer than
// a test may.
func TestExecAtTerminalReturnsAtThePrompt(t *testing.T) {
	c := conversation{t, connect(t, newSet(t))}
	id := c.begin(`read -p "Really? " yes; echo "you said $yes"; sleep 1000`, `,"tty":true,"waitSeconds":600`)
	reply := callTool(t, c.Client, "input", `{"execId":"`+id+`","text":"yes\n","waitSeconds":600}`)
	if !strings.Contains(reply.text, "you said yes") || reply.fields["status"] != "running" {
		t.Error(reply.text)
	}
}
