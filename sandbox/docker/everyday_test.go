package docker

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// ordinary are common tasks, in a common order.
var ordinary = []struct{ name, cmd, stdout string }{
	{"who am I", `whoami; id -un; echo ~ "$HOME" "$USER"; pwd`, "agent\nagent\n/home/agent /home/agent agent\n/workspace\n"},
	{"a C program in /tmp", `cd /tmp && printf '#include <stdio.h>\nint main(void) { puts("built"); }\n' > a.c && gcc -o a a.c && ./a`, "built\n"},
	{"python", `python3 -c 'import json, tempfile; f = tempfile.NamedTemporaryFile(); print(json.dumps({"a": f.name.startswith("/home/agent/")}))'`, "{\"a\": true}\n"},
	{"git", `git init -q repo && cd repo && git config user.name a && git config user.email a@b && echo x > f && git add f && git commit -qm first && git log --format=%s`, "first\n"},
	{"make", `printf 'all: out\nout:\n\techo made > out\n' > Makefile && make -s && cat out`, "made\n"},
	{"caches in HOME", `mkdir -p ~/.cache/x && echo kept > ~/.cache/x/f && cat ~/.cache/x/f && test -w "$TMPDIR" && test -d "$TMPDIR" && echo tmp`, "kept\ntmp\n"},
	{"search", `rg -l built /tmp/a.c; echo '{"a":[1,2]}' | jq -c .a; ps -o comm= -p 1; find /tmp -name a.c`, "/tmp/a.c\n[1,2]\nagent\n/tmp/a.c\n"},
	{"scripts run from the workspace", `printf '#!/bin/sh\necho ran\n' > s && chmod +x s && ./s`, "ran\n"},
}

// larger are tasks that need the large image.
var larger = []struct{ name, cmd, stdout string }{
	{"go test", `mkdir m && cd m && go mod init m 2>/dev/null && printf 'package m\nimport "testing"\nfunc TestX(t *testing.T) {}\n' > m_test.go && go test . | cut -f1`, "ok  \n"},
	{"npm", `mkdir n && cd n && npm init -y >/dev/null && node -p 'require("./package.json").name'`, "n\n"},
	{"pytest", `mkdir p && cd p && echo 'def test_x(): assert True' > test_x.py && python3 -m pytest -q -p no:cacheprovider | tail -1 | cut -d' ' -f1,2`, "1 passed\n"},
	{"numbers and YAML", `python3 -c 'import numpy, yaml; print(yaml.safe_load("a: [1, 2]"), numpy.linalg.norm([3, 4]))'`, "{'a': [1, 2]} 5.0\n"},
}

// TestOrdinaryWork runs common tasks in a default box.
func TestOrdinaryWork(t *testing.T) {
	doWork(t, sandbox.Spec{}, ordinary)
}

func TestOrdinaryWorkInTheLargeImage(t *testing.T) {
	weekly.Only(t)
	doWork(t, sandbox.Spec{Image: "warmbox/sandbox:full"}, append(ordinary, larger...))
}

func doWork(t *testing.T, spec sandbox.Spec, list []struct{ name, cmd, stdout string }) {
	workspace := t.TempDir()
	spec.Workspace = workspace
	makeWritable(workspace, 1000, 1000)
	m := boxtest.Manager(t, newLauncher(t, Config{}), spec)
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) { boxtest.Expect(t, box, w.cmd, 0, w.stdout) })
	}
}
