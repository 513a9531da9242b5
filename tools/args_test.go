package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

func call(tool, args string) mcp.CallToolRequest {
	var req mcp.CallToolRequest
	req.Params.Name = tool
	req.Params.RawArguments = json.RawMessage(args)
	return req
}

func parseExec(args string) (ExecArgs, error) {
	var a ExecArgs
	err := parse(call("exec", args), a.params())
	return a, err
}

func TestParseReadsArguments(t *testing.T) {
	for text, want := range map[string]ExecArgs{
		`{}`:                                    {},
		`null`:                                  {},
		``:                                      {},
		`{"cmd":"ls","containerId":"b-1"}`:      {Cmd: "ls", ContainerID: "b-1"},
		`{"cmd":"ls","env":{"A":"1","B":""}}`:   {Cmd: "ls", Env: map[string]string{"A": "1", "B": ""}},
		`{"cmd":"ls","maxBytes":10.0}`:          {Cmd: "ls", MaxBytes: new(10)},
		`{"cmd":"ls","maxBytes":1e3}`:           {Cmd: "ls", MaxBytes: new(1000)},
		`{"cmd":"ls","waitSeconds":0}`:          {Cmd: "ls", WaitSeconds: new(0.0)},
		`{"cmd":"ls","timeoutSeconds":1.5}`:     {Cmd: "ls", TimeoutSeconds: new(1.5)},
		`{"cmd":"ls","stdin":null,"env":null}`:  {Cmd: "ls"},
		` { "cmd" : "a\u0062" , "stdin":"x" } `: {Cmd: "ab", Stdin: "x"},
	} {
		got, err := parseExec(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", text, d)
		}
	}
}

// TestParseExplainsMistakes: each error says what is wrong, and if possible what to give instead.
func TestParseExplainsMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"cmd":"ls","timeout":3}`:             `exec has no argument "timeout". Did you mean "timeoutSeconds"? The arguments of exec: cmd, containerId, workdir, env, stdin, waitSeconds, timeoutSeconds, maxBytes, want, background, tty, cols, rows, shell.`,
		`{"command":"ls"}`:                     `exec has no argument "command". Did you mean "cmd"?`,
		`{"cmd":"ls","cwd":"/"}`:               `exec has no argument "cwd". Did you mean "workdir"?`,
		`{"cmd":"ls","container_id":"b"}`:      `exec has no argument "container_id". Did you mean "containerId"?`,
		`{"cmd":"ls","CMD":"rm"}`:              `exec has no argument "CMD". Did you mean "cmd"?`,
		`{"cmd":"ls","contanerId":"b"}`:        `exec has no argument "contanerId". Did you mean "containerId"?`,
		`{"cmd":"ls","zebra":1}`:               `exec has no argument "zebra". The arguments of exec:`,
		`{"cmd":"ls","cmd":"rm"}`:              `the arguments of exec have "cmd" twice`,
		`{"cmd":null,"cmd":"rm"}`:              `the arguments of exec have "cmd" twice`,
		`{"cmd":["ls"]}`:                       `cmd must be a string, got ["ls"]`,
		`{"cmd":"ls","waitSeconds":"10s"}`:     `waitSeconds must be a number, got "10s"`,
		`{"cmd":"ls","waitSeconds":true}`:      `waitSeconds must be a number, got true`,
		`{"cmd":"ls","waitSeconds":1e999}`:     `waitSeconds must be a number, got 1e999`,
		`{"cmd":"ls","maxBytes":1.5}`:          `maxBytes must be a whole number, got 1.5`,
		`{"cmd":"ls","maxBytes":1e300}`:        `maxBytes must be a whole number, got 1e300`,
		`{"cmd":"ls","env":["A=1"]}`:           `env must be an object of strings, got ["A=1"]`,
		`{"cmd":"ls","env":{"A":1}}`:           `env.A must be a string, got 1`,
		`{"cmd":"ls","env":{"A":"1","A":"2"}}`: `the members of env have "A" twice`,
		`[1]`:                                  `the arguments of exec must be an object, got [1]`,
		`"ls"`:                                 `the arguments of exec must be an object, got "ls"`,
		`{"cmd":"ls"} {}`:                      `the arguments of exec are not valid JSON: invalid character '{' after top-level value`,
		`{"cmd":"ls"`:                          `the arguments of exec are not valid JSON: unexpected end`,
	} {
		_, err := parseExec(text)
		if err == nil {
			t.Errorf("%s: accepted", text)
			continue
		}
		f := FailureOf(err)
		if got := f.Error + ". " + f.Hint; !strings.HasPrefix(got, want) || f.Code != sandbox.InvalidArgument {
			t.Errorf("%s:\n got %s (%s)\nwant %s", text, got, f.Code, want)
		}
	}
}

// TestParseReadsDecodedArguments: a caller in this process need not send JSON text.
func TestParseReadsDecodedArguments(t *testing.T) {
	var req mcp.CallToolRequest
	req.Params.Name, req.Params.Arguments = "exec", map[string]any{"cmd": "ls", "maxBytes": 10}
	var a ExecArgs
	if err := parse(req, a.params()); err != nil || a.Cmd != "ls" || *a.MaxBytes != 10 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestExecArgumentsAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    "cmd is empty",
		`{"cmd":" \n"}`:                         "cmd is empty",
		`{"cmd":"ls","waitSeconds":601}`:        "waitSeconds must be between 0 and 600, got 601",
		`{"cmd":"ls","waitSeconds":-1}`:         "waitSeconds must be between 0 and 600, got -1",
		`{"cmd":"ls","timeoutSeconds":0}`:       "timeoutSeconds must be above 0 and at most 86400, got 0",
		`{"cmd":"ls","timeoutSeconds":1e9}`:     "timeoutSeconds must be above 0 and at most 86400, got 1e+09",
		`{"cmd":"ls","maxBytes":0}`:             "maxBytes must be between 1 and 100000, got 0",
		`{"cmd":"ls","maxBytes":100001}`:        "maxBytes must be between 1 and 100000, got 100001",
		`{"cmd":"ls","workdir":"` + long + `"}`: "workdir has 5000 bytes, and a path has at most 4096",
		`{"cmd":"ls","maxBytes":100000}`:        "",
	} {
		a, err := parseExec(text)
		if err == nil {
			err = a.check(defaultMaxBytes)
		}
		if err == nil {
			err = new(Set).command(execCall{ExecArgs: a}, nil, excerpt.Limits{}).Check()
		}
		if got := errorText(err); got != want {
			t.Errorf("%.50s: got %q, want %q", text, got, want)
		}
	}
}

var long = strings.Repeat("x", 5000)

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParse: all input is refused with a short error, or read as encoding/json reads it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"cmd":"ls","env":{"A":"1"},"waitSeconds":1.5,"maxBytes":10.0}`, `{"cmd":"a","cmd":"b"}`, `{"Cmd":"a"}`,
		`null`, `[]`, `{"cmd":`, `{"cmd":"` + "\xff" + `"}`, `{"env":{"A":null}}`, `{"maxBytes":1e300}`, `{} {}`, `{"":""}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseExec(text)
		if err != nil {
			if n := len(Failed(err).Content[0].(mcp.TextContent).Text); n > 2000 {
				t.Errorf("an error of %d bytes", n)
			}
			return
		}
		if strings.TrimSpace(text) == "" {
			return
		}
		var want struct {
			Cmd, ContainerID, Workdir, Stdin string
			Env                              map[string]string
			WaitSeconds, TimeoutSeconds      *float64
			MaxBytes                         *float64
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("accepted, but %v", err)
		}
		if got.Cmd != want.Cmd || got.ContainerID != want.ContainerID || got.Stdin != want.Stdin || len(got.Env) != len(want.Env) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if (got.MaxBytes != nil) != (want.MaxBytes != nil) || got.MaxBytes != nil && float64(*got.MaxBytes) != *want.MaxBytes {
			t.Errorf("maxBytes %v, want %v", got.MaxBytes, want.MaxBytes)
		}
	})
}

func TestNearestArgumentIsSuggested(t *testing.T) {
	var a ExecArgs
	var names []string
	for _, p := range a.params() {
		names = append(names, p.name)
	}
	for given, want := range map[string]string{
		"script": "cmd", "work_dir": "workdir", "wait_seconds": "waitSeconds", "timeoutSecond": "timeoutSeconds", "environment": "env",
		"comd": "cmd", "input": "stdin", "std_in": "stdin", "max_bytes": "maxBytes", "": "", "xyzzy": "", "run_in_background": "background",
		strings.Repeat("cmd", 1000): "",
	} {
		if got := nearest(given, names); got != want {
			t.Errorf("%.30q: %q, want %q", given, got, want)
		}
	}
	if !slices.Contains(names, "cmd") {
		t.Error(names)
	}
}
