package tools

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/redact"
)

// The secrets are concatenated, so that scanners of repositories do not report them.
const (
	token   = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
	setting = "a-configured-value"
)

func secrets() *redact.Redactor { return &redact.Redactor{Values: []string{setting}} }

// TestGrepIsNoOracle: no line matches any part of a secret.
func TestGrepIsNoOracle(t *testing.T) {
	s := newSet(t)
	s.Manager.Secrets = secrets()
	c := connect(t, s)
	id := execID(t, c, `{"cmd":"echo deploy key `+setting+`; echo `+token+` >&2; echo plain"}`)
	for n := range len(setting) {
		for _, pattern := range []string{"deploy key " + setting[:n+1], "deploy key .{0," + fmt.Sprint(n) + "}" + setting[n:] + "$", setting[n:] + "$", "^" + token[:n+1], "[" + setting[:n+1] + "]{7}"} {
			for _, more := range []string{"", `,"stream":"stdout"`, `,"stream":"stderr"`, `,"context":1`, `,"fromLine":1`, `,"tail":9`} {
				if r := logsOf(t, c, id, `,"grep":"`+pattern+`"`+more); !strings.Contains(r.text, "no match in 3 lines") {
					t.Fatalf("%s%s: %s", pattern, more, r.text)
				}
			}
		}
	}
	if r := logsOf(t, c, id, `,"grep":"^deploy key ‹secret›$"`); !strings.Contains(r.text, "1 match in 3 lines") {
		t.Error(r.text)
	}
}

// TestSecretsInCommandsAreMasked: the list repeats the command, logs and resources its output.
func TestSecretsInCommandsAreMasked(t *testing.T) {
	s := newSet(t)
	s.Manager.Secrets = secrets()
	c := connect(t, s)
	id := execID(t, c, `{"cmd":"echo `+token+` `+setting+`"}`)
	resource, err := readResource(t, c, id)
	if err != nil {
		t.Fatal(err)
	}
	list, logs := callTool(t, c, "list", `{}`), logsOf(t, c, id, "")
	for _, text := range []string{resource, list.text, list.json, logs.text, logs.json} {
		if strings.Contains(text, token) || strings.Contains(text, setting) || !strings.Contains(text, "‹github token› ‹secret›") {
			t.Errorf("%s", text)
		}
	}
}
