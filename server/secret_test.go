package server

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// TestErrorsShowNoSecret: errors repeat parts of the message, with secrets masked.
func TestErrorsShowNoSecret(t *testing.T) {
	const secret = "kP9vWx3LmQ8sTz4RbN7yHc2D"
	w := serveStdio(t, &Server{Manager: &sandbox.Manager{Secrets: &redact.Redactor{Values: []string{secret}}}})
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"x/` + secret + `"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + secret + `"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"warmbox://logs/` + secret + `"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"ping","` + secret + `":1,"` + secret + `":2}`,
	} {
		w.send(line)
		text, err := w.out.ReadString('\n')
		if err != nil || strings.Contains(text, secret) || !strings.Contains(text, `"error"`) {
			t.Errorf("%s: %v: %s", line, err, text)
		}
	}
}
