package tools

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/policy"
)

// A roomy Launcher starts boxes with a room, as an isolating backend does.
type roomy struct {
	sandbox.Launcher
	room   sandbox.Room
	memory int64
	image  string
}

func (l roomy) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	stream, err := l.Launcher.Launch(ctx, id, spec)
	return furnished{stream, l}, err
}

type furnished struct {
	io.ReadWriteCloser
	with roomy
}

func (f furnished) Place() sandbox.Place {
	place := f.ReadWriteCloser.(sandbox.Placed).Place()
	place.Room, place.Memory, place.Image = &f.with.room, f.with.memory, f.with.image
	return place
}

// usual is the room of a box by default.
var usual = sandbox.Room{Network: "none", CPUs: 2, Pids: 512, Tmp: 512 << 20, Home: "/home/agent"}

// roomySet returns tools whose boxes have a room, which is no more than told.
func roomySet(t *testing.T, room sandbox.Room) *Set {
	return &Set{Manager: boxtest.Manager(t, roomy{boxtest.Agent(t), room, 2 << 30, "acme/tools:1"}, sandbox.Spec{})}
}

// fails is a command that prints an error as a program does, and fails.
func fails(line string) string { return "printf '%s\\n' \"" + line + "\" >&2; exit 1" }

// TestDeadEndsAreTold: each case runs in a session of its own. The errors are those of real
// programs; TestHints of cmd/warmbox has them printed by the programs themselves.
func TestDeadEndsAreTold(t *testing.T) {
	offline, online, readOnly := usual, usual, usual
	online.Network, readOnly.ReadOnly = "bridge", true
	const (
		network = "has no network"
		root    = "The root file system of this container is read-only: write to "
	)
	for name, test := range map[string]struct {
		room sandbox.Room
		cmd  string
		hint string // a part of it; "" is none
	}{
		"curl":                {offline, fails("curl: (6) Could not resolve host: example.com"), network},
		"curl, silent":        {offline, "curl() { exit 6; }; curl -s http://example.com", network},
		"curl, an address":    {offline, fails("curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server"), network},
		"curl, local":         {offline, fails("curl: (7) Failed to connect to localhost port 3000 after 0 ms: Connection refused"), ""},
		"curl with a network": {online, fails("curl: (6) Could not resolve host: example.com"), ""},
		"git":                 {offline, fails("fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com"), network},
		"npm":                 {offline, fails("npm error request to https://registry.npmjs.org/x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org"), network},
		"pip":                 {offline, fails("WARNING: Retrying after connection broken by 'NewConnectionError: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution'"), network},
		"go":                  {offline, fails("go: example.com/m@v1: Get https://proxy.golang.org/x: dial tcp: lookup proxy.golang.org: no such host"), network},
		"piped":               {offline, "echo 'curl: (6) Could not resolve host: example.com' 2>&1 | tail -1", network},
		"words in a file":     {offline, "echo 'curl: (6) Could not resolve host: example.com'", ""},
		"apt":                 {online, "apt-get() { echo 'E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)' >&2; exit 100; }; apt-get install -y x", "No system packages can be installed"},
		"sudo":                {online, "sudo() { echo '/bin/bash: line 1: sudo: command not found' >&2; return 127; }; sudo ls", "commands are not root"},
		"apt in words":        {online, "grep apt no-such-file", ""},
		"etc":                 {online, fails("touch: cannot touch '/etc/x': Read-only file system"), root},
		"etc, denied":         {online, fails("/bin/bash: line 1: /etc/hosts: Permission denied"), root},
		"etc, read":           {online, fails("cat: /etc/shadow: Permission denied"), ""},
		"a workspace":         {readOnly, fails("touch: cannot touch 'x': Read-only file system"), "The workspace and the root file system of this container are read-only (workspace_mode)"},
		"tmp":                 {online, fails("dd: error writing '/tmp/x': No space left on device"), "/tmp of this container holds 512 MB"},
		"no pip":              {online, fails("/usr/bin/python3: No module named pip"), "Python has no pip here"},
		"managed":             {online, fails("error: externally-managed-environment"), "python3 -m venv .venv"},
		"managed, offline":    {offline, fails("error: externally-managed-environment"), "has no network to download them"},
		"cd":                  {online, "cd /tmp", `shell: "dev"`},
		"export":              {online, "export A=1 && cd /tmp", `shell: "dev"`},
		"export for":          {online, "export A=1 && ls /no/such 2>/dev/null; true", ""},
		"cd elsewhere":        {online, "cd /no/such", ""},
		"memory":              {online, fails("fatal error: runtime: cannot allocate memory"), "2 GB of memory, without swap"},
		"processes":           {online, fails("/bin/bash: fork: retry: Resource temporarily unavailable"), "512 processes and threads"},
		"editor":              {online, fails("error: Terminal is dumb, but EDITOR unset"), "git commit -m"},
		"not found":           {online, "pythn3 -c 1", ""},
		"interpreter":         {online, fails("/bin/bash: line 1: ./x: cannot execute: required file not found"), "the program in its first line (#!)"},
		"no x permission":     {online, "echo '/bin/bash: line 1: ./calc.py: Permission denied' >&2; exit 126", "The file may not be executed"},
		"no node":             {online, "echo '/usr/bin/env: ‘node’: No such file or directory' >&2; exit 127", "but node, the interpreter that"},
		"an unknown name":     {online, "echo 'env: ‘ask-me’: No such file or directory' >&2; exit 127", "the program in its first line (#!)"},
		"bad interpreter":     {online, "echo '/bin/bash: ./x: /usr/bin/perl: bad interpreter: No such file or directory' >&2; exit 126", "but perl, the interpreter that"},
		"CRLF":                {online, `echo '/usr/bin/env: ‘node\r’: No such file or directory' >&2; exit 127`, "carriage return"},
		"success":             {offline, "echo fine", ""},
		"warning":             {offline, "echo warning: unused >&2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := roomySet(t, test.room)
			run := func() string {
				r, err := s.exec(t.Context(), sandbox.Owner{}, execCall{ExecArgs: ExecArgs{Cmd: test.cmd}, follows: true}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r.Hint
			}
			first := run()
			if test.hint != "" && !strings.Contains(first, test.hint) || name != "not found" && test.hint == "" && first != "" {
				t.Errorf("%s: hint %q, want %q", test.cmd, first, test.hint)
			}
			if again := run(); again != "" {
				t.Errorf("%s: told again: %q", test.cmd, again)
			}
		})
	}
}

// TestMissingProgramHasANeighbour: the hint for a program that was not found names one that is
// there, whatever the exit code.
func TestMissingProgramHasANeighbour(t *testing.T) {
	box := func(has ...string) *scene { return &scene{box: &sandbox.Box{Has: has}} }
	for _, test := range []struct {
		name, near string
		has        []string
	}{
		{"python", "python3", []string{"bash", "python3"}}, {"python", "", []string{"bash"}}, {"rg", "grep", nil}, {"mak", "make", []string{"make"}},
		{"gti", "", []string{"go"}}, {"gitt", "git", []string{"git"}}, {"xyz", "", []string{"git"}},
	} {
		if got := box(test.has...).near(test.name); got != test.near {
			t.Errorf("%s: %q, want %q", test.name, got, test.near)
		}
	}
	for line, want := range map[string]string{
		"/bin/bash: line 1: foo: command not found":                "foo",
		"sh: 1: foo: not found":                                    "foo",
		"/bin/sh: foo: not found":                                  "foo",
		"env: 'python': No such file or directory":                 "python",
		"/usr/bin/env: ‘node’: No such file or directory":          "node",
		"make: foo: No such file or directory":                     "",
		"cat: foo: No such file or directory":                      "",
		"error: foo: not found":                                    "",
		"bash: line 1: X: unbound variable":                        "",
		"bash: ignore\x1b[1mall: command not found":                "",
		"bash: " + strings.Repeat("x", 41) + ": command not found": "",
	} {
		if got := missingIn(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestShellHintFollowsThePolicy: a hint names no argument that would be refused.
func TestShellHintFollowsThePolicy(t *testing.T) {
	s := roomySet(t, usual)
	s.Manager.Commands = policy.Commands{Allow: []string{"cd"}}
	r, err := s.exec(t.Context(), sandbox.Owner{}, execCall{ExecArgs: ExecArgs{Cmd: "cd /tmp"}, follows: true}, nil, nil)
	if err != nil || !strings.Contains(r.Hint, "Use workdir and env") || strings.Contains(r.Hint, "dev") {
		t.Errorf("%v, %q", err, r.Hint)
	}
}

// TestRoomIsToldOnce: by start or the first exec, in at most 60 tokens.
func TestRoomIsToldOnce(t *testing.T) {
	c := connect(t, roomySet(t, usual))
	first := callTool(t, c, "exec", `{"cmd":"echo hi"}`)
	room, _ := first.fields["room"].(string)
	t.Logf("%d bytes: %s", len(room), room)
	if !strings.HasPrefix(room, "no network · 2 GB memory · 2 CPUs · /tmp 512 MB · image acme/tools:1 · has ") || len(room) > 240 || !strings.HasPrefix(first.text, "room: "+room+"\n") {
		t.Errorf("%s\n%s", first.json, first.text)
	}
	for _, again := range []answer{callTool(t, c, "exec", `{"cmd":"echo hi"}`), callTool(t, c, "start", `{"name":"another"}`), callTool(t, c, "list", `{}`)} {
		again.has(t, map[string]any{"room": nil})
	}
	other := connect(t, roomySet(t, usual))
	if started := callTool(t, other, "start", `{"name":"x"}`); started.fields["room"] == nil {
		t.Error(started.json)
	}
	callTool(t, other, "exec", `{"cmd":"echo hi"}`).has(t, map[string]any{"room": nil})
	callTool(t, connect(t, newSet(t)), "exec", `{"cmd":"echo hi"}`).has(t, map[string]any{"room": nil})
}

// TestLoopHintsNameNoTool: a model that has only commands is told of no tool and no argument.
func TestLoopHintsNameNoTool(t *testing.T) {
	box, err := roomySet(t, usual).Manager.DefaultBox(t.Context(), sandbox.Owner{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &scene{box: box, room: usual, loop: true, cmd: "cd x"}
	hints := c.notFound("nosuchprogram", func(string) bool { return true })
	for _, d := range deadEnds {
		if d.name != "input" && d.name != "terminal" { // only for callers that can call again
			hints = append(hints, d.way(c))
		}
	}
	hints = append(hints, (&Set{Loop: true}).leftoverHint("e-1", sandbox.Exit{Leftover: make([]sandbox.Proc, 1)})...)
	for _, hint := range hints {
		for _, tool := range []string{"tty", "start a container", "list shows", "stop ", "logs ", "workdir", "execId"} {
			if strings.Contains(hint, tool) {
				t.Errorf("%q names %q", hint, tool)
			}
		}
	}
}
