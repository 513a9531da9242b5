package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The secrets are put together here, so that no scanner of repositories reports them.
const (
	configured = "a value that was configured/7f3a"
	token      = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
)

// privateKey returns a private key of a number of lines.
func privateKey(lines int) string {
	var b strings.Builder
	b.WriteString("-----BEGIN OPENSSH " + "PRIVATE KEY-----\n")
	for i := range lines {
		fmt.Fprintf(&b, "KEYLINE%057d\n", i)
	}
	return b.String() + "-----END OPENSSH " + "PRIVATE KEY-----\n"
}

// seen collects everything that a client receives, in every form.
type seen struct {
	t *testing.T
	p *program

	mu   sync.Mutex
	text strings.Builder
}

func (s *seen) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.WriteString(text + "\n")
}

// call calls a tool, records the result, and returns its structured content.
func (s *seen) call(name string, args map[string]any) (fields map[string]any) {
	s.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: args}
	params.SetProgressToken(name)
	r, err := s.p.CallTool(s.t.Context(), params)
	if err != nil {
		s.t.Fatal(err)
	}
	structured, err := json.Marshal(r.StructuredContent)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(structured, &fields); err != nil {
		s.t.Fatal(err)
	}
	// A reader sees values, not how JSON writes them.
	for _, v := range fields {
		s.add(fmt.Sprint(v))
	}
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			s.add(text.Text)
		}
	}
	return fields
}

// run runs a command, reads its output in every way there is, and checks that the raw
// log contains a text.
func (s *seen) run(cmd, raw string) {
	s.t.Helper()
	r := s.call("exec", map[string]any{"cmd": cmd})
	id := fmt.Sprint(r["execId"])
	for _, args := range []map[string]any{
		{}, {"fromLine": 2}, {"tail": 2}, {"stream": "stdout"}, {"grep": "7f3a|KEYLINE|0123", "context": 1},
	} {
		args["execId"] = id
		s.call("logs", args)
	}
	resource, err := s.p.ReadResource(s.t.Context(), &mcp.ReadResourceParams{URI: "warmbox://logs/" + id})
	if err != nil {
		s.t.Fatal(err)
	}
	s.add(resource.Contents[0].Text)
	if log, err := os.ReadFile(fmt.Sprint(r["logPath"])); err != nil || !strings.Contains(string(log), raw) {
		s.t.Errorf("%s: its log lacks %q (%v)", cmd, raw, err)
	}
}

// TestSecretsAreMasked checks that nothing a client receives contains a secret, or half
// of one.
func TestSecretsAreMasked(t *testing.T) {
	needAgent(t)
	h := newHome(t, "MY_SECRET="+configured)
	dir := h.mkdir(t, "work")
	s := &seen{t: t}
	var notified atomic.Int32
	progress := func(text string) { notified.Add(1); s.add(text) }
	s.p = h.serveTo(t, progress, append([]string{"--workspace", dir, "--secrets-env", "MY_SECRET"}, processBackend...)...)
	file := func(name, text string) { h.write(t, filepath.Join("work", name), text) }
	file("value", configured)
	file("token", token)
	file("key", privateKey(100))

	s.run("cat value; echo; cat token; echo; cat key", token)
	s.run("cat value >&2; false", configured)
	s.run("head -c 20 token; echo warning >&2; sleep 0.2; tail -c +21 token; echo; head -c 9 value; sleep 0.2; tail -c +10 value", token[20:])
	s.run("for f in value token; do while IFS= read -r -n1 c; do printf '%s' \"$c\"; done <$f; echo; done", token)
	s.run("echo '"+configured+"' "+token+"; sleep 2.3", configured) // longer than the interval of progress
	for k := range 12 {
		// The head ends with byte 1,000, the tail begins 3,000 before the end.
		before, after := strings.Repeat("x", 1000-4*k), strings.Repeat("y", 2990-4*k)
		file("large", before+token+strings.Repeat("z\n", 100_000)+token+after)
		s.run("cat large", token)
		file("large", before+configured+strings.Repeat("z\n", 100_000)+configured+after)
		s.run("cat large", configured)
	}
	file("large", strings.Repeat("plain\n", 150)+privateKey(60)+strings.Repeat("plain\n", 30_000)+privateKey(60)+strings.Repeat("plain\n", 420))
	s.run("cat large", "KEYLINE")
	s.call("list", map[string]any{})

	all := s.text.String()
	for _, part := range []string{configured, configured[:16], configured[16:], token[:12], token[12:24], token[28:], "KEYLINE"} {
		if i := strings.Index(all, part); i >= 0 {
			t.Errorf("%q is not masked: %q", part, all[max(0, i-300):i+len(part)])
		}
	}
	for _, mask := range []string{"‹secret›", "‹github token›", "‹private key›"} {
		if !strings.Contains(all, mask) {
			t.Errorf("nothing is masked as %s", mask)
		}
	}
	if notified.Load() == 0 {
		t.Error("the client was notified of no progress")
	}
}

// TestSecretsCutByTheOtherStreamAreMasked checks secrets that a line of the other stream
// cuts in two: in whole output, in summaries and on pages.
func TestSecretsCutByTheOtherStreamAreMasked(t *testing.T) {
	needAgent(t)
	h := newHome(t, "MY_SECRET="+configured)
	s := &seen{t: t}
	s.p = h.serveTo(t, s.add, append([]string{"--workspace", h.mkdir(t, "work"), "--secrets-env", "MY_SECRET"}, processBackend...)...)
	cut := func(secret string, at int, before, after string) {
		script := fmt.Sprintf("head -c %s\nprintf %%s '%s'; sleep 0.1; echo 'error: %s' >&2; sleep 0.1; printf '%%s\\n' '%s'\n%s\nexit 1\n",
			before, secret[:at], secret, secret[at:], after)
		h.write(t, "work/script", script)
		s.run("bash script", secret[at:])
	}
	for _, before := range []string{"0 /dev/null", "3 <(yes a)", "63030 <(yes 'ab cd')", "65461 <(yes a | tr -d '\\n')"} {
		for _, after := range []string{"true", "for i in {1..1500}; do echo line $i; done"} {
			cut(configured, 11, before, after)
			cut(token, 17, before, after)
		}
	}
	all := s.text.String()
	for _, part := range []string{configured[:8], configured[8:16], configured[16:], token[:12], token[12:24], token[28:]} {
		if i := strings.Index(all, part); i >= 0 {
			t.Errorf("%q is not masked: %q", part, all[max(0, i-300):i+len(part)])
		}
	}
	if !strings.Contains(all, "‹secret›") || !strings.Contains(all, "‹github token›") {
		t.Error("nothing is masked")
	}
}
