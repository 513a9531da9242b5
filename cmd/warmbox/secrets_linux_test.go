package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// given are the secrets that the configuration gives to commands, by name.
var given = map[string]string{
	"DEPLOY_KEY": "hush-hush-from-a-variable-5c1e",
	"NPM_TOKEN":  "hush-hush-from-a-file-77ab",
}

// serveSecrets serves boxes whose commands get the secrets. The program writes only
// files of the home.
func serveSecrets(t *testing.T, h home) *seen {
	t.Helper()
	h.write(t, "token", given["NPM_TOKEN"]+"\n")
	h.write(t, "config.toml", fmt.Sprintf("[secrets.give]\nDEPLOY_KEY = \"env:DEPLOY_KEY\"\nNPM_TOKEN = \"file:%s/token\"\n", h.dir))
	s := &seen{t: t}
	s.p = h.serveTo(t, s.add, "--config", filepath.Join(h.dir, "config.toml"), "--workspace", h.mkdir(t, "work"),
		"--audit-file", filepath.Join(h.dir, "audit"), "--log-file", filepath.Join(h.dir, "server.log"), "--log-level", "debug", "--log-dir", filepath.Join(h.dir, "logs"))
	return s
}

// TestGivenSecretsReachOnlyCommands checks that commands have the secrets that the
// configuration gives them, and that nothing else contains them: no client, no arguments
// of a process, not the engine, no file but the raw log of a command that prints them.
func TestGivenSecretsReachOnlyCommands(t *testing.T) {
	needDocker(t)
	h := newHome(t, "DEPLOY_KEY="+given["DEPLOY_KEY"])
	s := serveSecrets(t, h)

	// A command that uses them and does not print them leaves no trace.
	held := s.call("exec", map[string]any{"cmd": `test "$DEPLOY_KEY$NPM_TOKEN" && exec sleep 1000`, "background": true})
	s.call("exec", map[string]any{"cmd": "test \"$NPM_TOKEN\" && echo kept", "shell": "dev"})
	box := fmt.Sprint(held["containerId"])
	traces := map[string]string{"arguments of this machine": arguments(t), "the engine": inspected(t, s.p.cmd.Process.Pid)}
	inside := s.call("exec", map[string]any{"cmd": "cat /proc/[0-9]*/cmdline | tr -s '\\0' '\\n'; cat /proc/1/environ"})
	if text := fmt.Sprint(inside["stdout"]); !strings.Contains(text, "sleep\n1000\n") {
		t.Errorf("the box's arguments: %q", text)
	}
	onDisk := s.call("exec", map[string]any{"cmd": "for s in DEPLOY_KEY NPM_TOKEN; do printenv $s | grep -rlFf - / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev 2>/dev/null; done; printenv NPM_TOKEN | wc -c"})
	if onDisk["stdout"] != fmt.Sprintln(len(given["NPM_TOKEN"])+1) {
		t.Errorf("files of the box with secrets: %v", onDisk)
	}
	for _, name := range files(t, h.dir) {
		if name != filepath.Join(h.dir, "token") {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			traces[name] = string(text)
		}
	}
	for where, text := range traces {
		withoutSecrets(t, where, text)
	}

	// The output of a command that prints them is masked.
	key := given["DEPLOY_KEY"]
	s.run("printenv DEPLOY_KEY NPM_TOKEN; echo $NPM_TOKEN >&2; ls /$DEPLOY_KEY; no-such-$DEPLOY_KEY", key)
	s.run(`for i in $(seq 3000); do echo "step $i"; done; echo "error: denied to $DEPLOY_KEY"; echo "FAIL: $NPM_TOKEN"; exit 1`, key)
	s.run(`echo "$NPM_TOKEN"; sleep 2.3`, given["NPM_TOKEN"])
	s.run("echo "+key, key)
	s.call("start", map[string]any{"env": map[string]any{"OTHER": "x"}})
	s.call("list", nil)

	// So are errors about arguments that contain one.
	for name, args := range map[string]map[string]any{
		"exec":  {"cmd": "true", "workdir": "/" + key},
		"input": {"execId": key, "text": "x"},
		"logs":  {"execId": key},
		"stop":  {"containerId": key},
		"start": {"image": key},
	} {
		if r := s.call(name, args); r["error"] == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	s.call("exec", map[string]any{"cmd": "true", "shell": key + "!"})
	s.call("stop", map[string]any{"containerId": box})

	withoutSecrets(t, "what the client receives", s.text.String())
	for _, name := range []string{"audit", "server.log"} {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		withoutSecrets(t, name, string(text))
	}
	withoutSecrets(t, "doctor", diagnosis(t, h))
}

func withoutSecrets(t *testing.T, where, text string) {
	t.Helper()
	for name, value := range given {
		if i := strings.Index(text, value); i >= 0 {
			t.Errorf("%s has %s: %q", where, name, text[max(0, i-300):i+len(value)])
		}
	}
}

// arguments returns those of all processes of this machine, also of those in boxes.
func arguments(t *testing.T) string {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	var all strings.Builder
	for _, name := range list {
		text, _ := os.ReadFile(name) // the process may have ended
		all.Write(text)
	}
	if !strings.Contains(all.String(), "sleep\x001000") {
		t.Error("the processes of the box are not among those of this machine, so the test proves nothing")
	}
	return all.String()
}

// inspected returns everything that the engine says of a server's boxes, their volumes
// and processes.
func inspected(t *testing.T, server int) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", fmt.Sprintf(`for box in $(docker ps -q --filter label=dev.warmbox.server-pid=%d); do
		docker inspect $box; docker top $box; docker inspect $(docker inspect -f '{{range .Mounts}}{{.Name}} {{end}}' $box); done`, server)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"Running": true`) || !strings.Contains(string(out), "sleep 1000") {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func diagnosis(t *testing.T, h home) string {
	t.Helper()
	cmd := h.warmbox(t, "doctor", "--config", filepath.Join(h.dir, "config.toml"), "--workspace", filepath.Join(h.dir, "work"), "--log-level", "debug")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("doctor: %v: %s", err, out)
	}
	return string(out)
}
