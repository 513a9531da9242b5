package tools

import (
	"strings"
	"testing"
)

// TestClearArgumentsAreAccepted: another name of an argument, or a number in a string, is not
// worth a second call. The reply says what was used.
func TestClearArgumentsAreAccepted(t *testing.T) {
	c := connect(t, newSet(t))
	callTool(t, c, "start", `{"name":"tests"}`)
	for _, test := range []struct{ tool, args, note, stdout string }{
		{"exec", `{"command":"echo hi"}`, "used cmd for command", "hi\n"},
		{"exec", `{"cmd":"pwd","cwd":"/tmp"}`, "used workdir for cwd", "/tmp\n"},
		{"exec", `{"cmd":"echo hi","timeout":30}`, "used timeoutSeconds for timeout", "hi\n"},
		{"exec", `{"cmd":"echo hi","timeoutSeconds":"30"}`, "used 30 for timeoutSeconds, not a string", "hi\n"},
		{"exec", `{"cmd":"echo hi","background":"false"}`, "used false for background, not a string", "hi\n"},
		{"exec", `{"command":"echo hi","wait_seconds":"30"}`, "used cmd for command; used waitSeconds for wait_seconds; used 30 for waitSeconds, not a string", "hi\n"},
		{"exec", `{"cmd":"echo hi","containerId":"tests"}`, `for the name "tests"`, "hi\n"},
		{"exec", `{"cmd":"echo hi","container":"tests"}`, `used containerId for container; used containerId b-`, "hi\n"},
	} {
		a := callTool(t, c, test.tool, test.args)
		note, _ := a.fields["note"].(string)
		if a.isError || !strings.Contains(note, test.note) || a.fields["stdout"] != test.stdout || !strings.HasPrefix(a.text, "note: "+note+"\n") {
			t.Errorf("%s: %s\n%s", test.args, a.json, a.text)
		}
	}
	callTool(t, c, "exec", `{"cmd":"echo hi"}`).has(t, map[string]any{"note": nil})
	callTool(t, c, "logs", `{"id":"e-none"}`).has(t, map[string]any{"note": "used execId for id", "code": "EXEC_NOT_FOUND"})
	callTool(t, c, "stop", `{"id":"b-none"}`).has(t, map[string]any{"note": "used containerId for id", "code": "BOX_NOT_FOUND"})
	stopped := callTool(t, c, "stop", `{"containerId":"tests"}`)
	stopped.has(t, map[string]any{"status": "stopped"})
	stopped.says(t, `for the name "tests"`)
}

// TestUnclearArgumentsAreRefused: nothing runs if an argument may mean two things.
func TestUnclearArgumentsAreRefused(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	for _, test := range []struct{ args, text string }{
		{`{"cmd":"touch ran","command":"touch ran"}`, `exec has no argument "command"`},
		{`{"command":"touch ran","commandLine":"touch ran"}`, `exec has no argument "command`},
		{`{"cmd":"touch ran","cwd":".","dir":"."}`, `exec has no argument "cwd"`},
		{`{"cmd":"touch ran","timeout":120000}`, "timeout 120000 may be seconds or milliseconds\nhint: Give timeoutSeconds, in seconds."},
		{`{"cmd":"touch ran","timeout":"120000"}`, "may be seconds or milliseconds"},
		{`{"cmd":"touch ran","timeoutMs":5}`, `exec has no argument "timeoutMs"`},
		{`{"cmd":"touch ran","waitSeconds":"10s"}`, `waitSeconds must be a number, got "10s"`},
		{`{"cmd":"touch ran","waitSeconds":"NaN"}`, `waitSeconds must be a number`},
		{`{"cmd":"touch ran","background":"yes"}`, "background must be true or false"},
		{`{"cmd":"touch ran","zebra":1,"timeout":3}`, `exec has no argument "zebra"`},
		{`{"cmd":"touch ran","path":"/"}`, `exec has no argument "path"`},
		{`{"command":["touch","ran"]}`, `cmd must be a string`},
	} {
		a := callTool(t, c, "exec", test.args)
		if !a.isError || !strings.Contains(a.text, test.text) {
			t.Errorf("%s: %s", test.args, a.text)
		}
	}
	if a := callTool(t, c, "exec", `{"cmd":"ls"}`); a.fields["stdout"] != nil {
		t.Errorf("something ran: %s", a.text)
	}
}
