package tools

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// everyTool calls each tool, most of them as the setting of a reply needs it: with output, with
// a failure, with nothing.
var everyTool = []struct{ tool, args string }{
	{"exec", `{"cmd":"echo hi; exit 3"}`},
	{"exec", `{"cmd":"seq 3000"}`},
	{"exec", `{"cmd":"true"}`},
	{"exec", `{"cmd":"cat","background":true}`},
	{"exec", `{"cmd":"ls","containerId":"b-none"}`},
	{"logs", `{"execId":"$ID","grep":"hi"}`},
	{"input", `{"execId":"$RUNNING","text":"hello\n"}`},
	{"list", `{}`},
	{"stop", `{"execId":"$RUNNING"}`},
	{"start", `{"name":"second"}`},
}

// converse holds the conversation with a client of that name.
func converse(t *testing.T, s *Set, name, version string) (list []answer) {
	t.Helper()
	c := connectAs(t, s, name, version)
	var ids []string
	for _, call := range everyTool {
		args := call.args
		if len(ids) > 3 {
			args = strings.NewReplacer("$ID", ids[0], "$RUNNING", ids[3]).Replace(args)
		}
		a := callTool(t, c, call.tool, args)
		if t.Failed() {
			t.FailNow()
		}
		id, _ := a.fields["execId"].(string)
		ids = append(ids, id)
		list = append(list, a)
	}
	return list
}

// TestRepliesHaveTheFormOfTheirHost: of a host that shows its model one form, that one is whole and
// the other is short. The server of the test checks all of it against the schemas.
func TestRepliesHaveTheFormOfTheirHost(t *testing.T) {
	for _, test := range []struct {
		name, version    string
		setting          Form
		text, structured bool // which of them is whole
	}{
		{"claude-code", "2.1.330", "", false, true},
		{"codex-mcp-client", "0.170.0", "", false, true},
		{"opencode", "1.18.33", "", true, false},
		{"gemini-cli-mcp-client", "1.0", "", true, false},
		{"copilot-cli", "1.0.102", "", true, false},
		{"copilot-cli", "1.0.101", "", true, true},
		{"replay", "1", "", true, true},
		{"", "", "", true, true},
		{"claude-code", "2.1.330", FormBoth, true, true},
		{"claude-code", "2.1.330", FormText, true, false},
		{"replay", "1", FormStructured, false, true},
	} {
		t.Run(strings.Join([]string{test.name, test.version, string(test.setting)}, " "), func(t *testing.T) {
			s := newSet(t)
			s.Replies = test.setting
			for i, a := range converse(t, s, test.name, test.version) {
				call := everyTool[i]
				if lines := strings.Count(strings.TrimSuffix(a.text, "\n"), "\n"); !test.text && !a.isError && (lines > 0 || len(a.text) > 100) {
					t.Errorf("%s %s: the text is not one short line:\n%s", call.tool, call.args, a.text)
				}
				if most := 400; !test.structured && (len(a.json) > most || strings.Contains(a.json, "hi\\n") || strings.Contains(a.json, "2999")) {
					t.Errorf("%s %s: the structured content is not short: %s", call.tool, call.args, a.json)
				}
				if a.isError { // in both forms
					a.says(t, "hint: ", "code: ")
					a.has(t, map[string]any{"code": "BOX_NOT_FOUND"})
				}
				switch i {
				case 0:
					a.has(t, map[string]any{"status": "exited", "exitCode": 3, "summary": "exit 3, 1 line", "truncated": false})
					if whole := strings.HasSuffix(a.text, "stdout:\nhi\n"); whole != test.text {
						t.Errorf("whole text is %v: %q", whole, a.text)
					}
					if whole := a.fields["stdout"] == "hi\n"; whole != test.structured {
						t.Errorf("whole structured content is %v: %s", whole, a.json)
					}
					if most := 170; !test.structured && len(a.json) > most {
						t.Errorf("%d bytes of short structured content, want at most %d: %s", len(a.json), most, a.json)
					}
				case 1:
					a.has(t, map[string]any{"truncated": true, "status": "exited"})
				case 3:
					a.has(t, map[string]any{"status": "running", "exitCode": nil})
				case 7:
					if n := len(a.fields["containers"].([]any)); n != 1 {
						t.Errorf("%d containers: %s", n, a.json)
					}
					if n := len(a.fields["commands"].([]any)); n != 4 {
						t.Errorf("%d commands: %s", n, a.json)
					}
				case 8:
					a.has(t, map[string]any{"status": "killed"})
				}
			}
		})
	}
}

// TestShortFormsCountInMetrics: metrics know the outcome of a reply in any form.
func TestShortFormsCountInMetrics(t *testing.T) {
	for _, form := range []Form{FormBoth, FormText, FormStructured} {
		s := &Set{Replies: form}
		for want, result := range map[string]any{
			"ok": ExecResult{Status: "exited", ExitCode: new(0)}, "EXEC_FAILED": ExecResult{Status: "exited", ExitCode: new(1)},
			"EXEC_TIMEOUT": ExecResult{Status: "timeout", Code: execTimeout}, "INTERNAL": Failure{Error: "x", Code: "INTERNAL"},
		} {
			if r, ok := result.(ExecResult); ok {
				r.author, r.Stdout = byClient, "hi"
				result = r
			}
			res := reply(result, "text")
			s.shape(t.Context(), res)
			code, by := Outcome(res)
			if _, ran := result.(ExecResult); code != want || ran != (by == byClient) {
				t.Errorf("%s: %s by %q, want %s", form, code, by, want)
			}
		}
	}
}

// TestVersionsAreCompared: a host of an older version than the one that was tried on gets both forms.
func TestVersionsAreCompared(t *testing.T) {
	for version, want := range map[string]bool{
		"2.1.330": true, "2.1.331": true, "2.2": true, "3": true, "10.0.0": true, "2.1.330.1": true,
		"2.1.329": false, "2.1": false, "2": false, "1.9.999": false, "": false, "dev": false, "2.1.x": false, "2.1.-1": false,
		"2.1.99999999999999999999": false,
	} {
		if got := atLeast(version, "2.1.330"); got != want {
			t.Errorf("%q at least 2.1.330: %v, want %v", version, got, want)
		}
	}
}

// TestHostsAreThoseOfTheWeeklyTest: what the table says of a host is what the weekly test sees, in the
// version that it installs.
func TestHostsAreThoseOfTheWeeklyTest(t *testing.T) {
	raw, err := os.ReadFile("../server/testdata/hosts/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var installed struct{ Dependencies map[string]string }
	if err := json.Unmarshal(raw, &installed); err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{
		"claude-code": "@anthropic-ai/claude-code", "codex-mcp-client": "@openai/codex", "copilot-cli": "@github/copilot",
		"gemini-cli-mcp-client": "@google/gemini-cli", "opencode": "opencode-ai",
	}
	for name, host := range hosts {
		if version := installed.Dependencies[packages[name]]; !atLeast(version, host.since) {
			t.Errorf("the weekly test installs %q of %s, and the table is for %s and later", version, name, host.since)
		}
	}
	if len(hosts) != len(installed.Dependencies) {
		t.Errorf("the table has %d hosts, and the weekly test %d", len(hosts), len(installed.Dependencies))
	}
}

// TestShortTextOfHiddenOutputSaysWhereItIs: a host that shows its model only the text is not left
// with a verdict that looks complete.
func TestShortTextOfHiddenOutputSaysWhereItIs(t *testing.T) {
	s := newSet(t)
	s.Replies = FormStructured
	list := converse(t, s, "", "")
	for i, want := range map[int]string{0: "exit 3 · ", 2: "no output", 5: "in 1 line (in", 7: "1 container · 4 commands"} {
		list[i].says(t, want)
		hides := i != 2
		if strings.Contains(list[i].text, elsewhere) != hides {
			t.Errorf("%s says that there is more: %v", list[i].text, !hides)
		}
	}
}

// TestKnownHostsGetNoLink: they would show it beside the hint, which says the same.
func TestKnownHostsGetNoLink(t *testing.T) {
	for form, want := range map[Form]int{FormBoth: 2, FormText: 1, FormStructured: 1} {
		s := newSet(t)
		s.Replies = form
		var req mcp.CallToolRequest
		req.Params.Name, req.Params.Arguments = "exec", map[string]any{"cmd": "seq 3000"}
		res, err := connect(t, s).CallTool(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Content) != want {
			t.Errorf("%s: %d parts of content, want %d", form, len(res.Content), want)
		}
	}
}

// TestLateNewsAreInTheWholeForm: what a reply says of earlier calls is not lost in the short form.
func TestLateNewsAreInTheWholeForm(t *testing.T) {
	for form, whole := range map[Form]func(answer) string{
		FormText:       func(a answer) string { return a.text },
		FormStructured: func(a answer) string { return a.json },
	} {
		s := newSet(t)
		s.Replies = form
		a := callTool(t, connect(t, s), "exec", `{"command":"echo hi"}`)
		if got := whole(a); !strings.Contains(got, "note") {
			t.Errorf("%s: no note in %s\n%s", form, a.text, a.json)
		}
	}
}
