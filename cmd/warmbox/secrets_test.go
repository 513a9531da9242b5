package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The secrets are put together here, so that no scanner of repositories takes
// them for real ones.
const (
	configured = "a value that was configured/7f3a"
	token      = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
)

// privateKey is one of so many lines.
func privateKey(lines int) string {
	var b strings.Builder
	b.WriteString("-----BEGIN OPENSSH " + "PRIVATE KEY-----\n")
	for i := range lines {
		fmt.Fprintf(&b, "KEYLINE%057d\n", i)
	}
	return b.String() + "-----END OPENSSH " + "PRIVATE KEY-----\n"
}

// serveHere serves boxes that are plain processes in a workspace, and tells what
// it hears of progress.
func serveHere(t *testing.T, workspace string, progress func(string), flags ...string) *program {
	t.Helper()
	if ok, err := has("agent"); err != nil {
		t.Fatal(err)
	} else if !ok {
		t.Skip("no agent")
	}
	state := t.TempDir()
	cmd := exec.Command("warmbox", append([]string{"stdio", "--log-level", "error", "--backend", "process", "--exec-whitelist", "*", "--workspace", workspace}, flags...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull)
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "promise", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params.Message) },
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &program{session, cmd, state}
}

// seen is all that a client is given, in every form.
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

// call calls a tool, takes note of the answer, and returns its fields.
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
	// Compared is what a reader sees, not how JSON writes it.
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

// run runs a command, reads on in all ways that there are, and sees that the
// raw log has what nobody was shown.
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

// Nothing that a client is given has a secret in it, or half of one.
func TestSecretsStayHidden(t *testing.T) {
	t.Setenv("MY_SECRET", configured)
	dir := t.TempDir()
	s := &seen{t: t}
	var heard atomic.Int32
	progress := func(text string) { heard.Add(1); s.add(text) }
	s.p = serveHere(t, dir, progress, "--secrets-env", "MY_SECRET")
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file("value", configured)
	file("token", token)
	file("key", privateKey(100))

	s.run("cat value; echo; cat token; echo; cat key", token)
	s.run("cat value >&2; false", configured)
	s.run("head -c 20 token; echo warning >&2; sleep 0.2; tail -c +21 token; echo; head -c 9 value; sleep 0.2; tail -c +10 value", token[20:])
	s.run("for f in value token; do while IFS= read -r -n1 c; do printf '%s' \"$c\"; done <$f; echo; done", token)
	s.run("echo '"+configured+"' "+token+"; sleep 2.3", configured) // longer than it takes to hear of it
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
			t.Errorf("%q is shown: %q", part, all[max(0, i-300):i+len(part)])
		}
	}
	for _, mask := range []string{"‹secret›", "‹github token›", "‹private key›"} {
		if !strings.Contains(all, mask) {
			t.Errorf("there is no %s", mask)
		}
	}
	if heard.Load() == 0 {
		t.Error("there was no progress to hide anything in")
	}
}

// A secret that the other stream's line cuts in two is shown nowhere, neither
// where it is small, nor in a summary, nor on any page.
func TestSecretsCutByTheOtherStream(t *testing.T) {
	t.Setenv("MY_SECRET", configured)
	dir := t.TempDir()
	s := &seen{t: t}
	s.p = serveHere(t, dir, func(text string) { s.add(text) }, "--secrets-env", "MY_SECRET")
	cut := func(secret string, at int, before, after string) {
		script := fmt.Sprintf("head -c %s\nprintf %%s '%s'; sleep 0.1; echo 'error: %s' >&2; sleep 0.1; printf '%%s\\n' '%s'\n%s\nexit 1\n",
			before, secret[:at], secret, secret[at:], after)
		if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
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
			t.Errorf("%q is shown: %q", part, all[max(0, i-300):i+len(part)])
		}
	}
	if !strings.Contains(all, "‹secret›") || !strings.Contains(all, "‹github token›") {
		t.Error("nothing is masked")
	}
}
