package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// buildAgentless builds the program as in a clean clone, without agents.
func buildAgentless(t *testing.T, file string) {
	t.Helper()
	bin, err := filepath.Abs("../../sandbox/agentbin/bin")
	if err != nil {
		t.Fatal(err)
	}
	gone := map[string]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		agent := filepath.Join(bin, "warmbox-agent-linux-"+arch)
		gone[agent+".gz"], gone[agent+".sum"] = "", ""
	}
	overlay, err := json.Marshal(map[string]any{"Replace": gone})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(name, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", name, "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
}

// goEnv returns a setting of the toolchain that runs the test.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestProgramWithoutAgentsBuildsOne runs a program from a plain go build or go
// install. It builds the agent once, or says why it cannot. The test runs it as its
// own user, whose caches of the toolchain it needs.
func TestProgramWithoutAgentsBuildsOne(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "warmbox")
	buildAgentless(t, program)
	exe := func(path string) (stdout, stderr string, err error) {
		var out, errs strings.Builder
		cmd := exec.CommandContext(t.Context(), program, "exec", "--backend", "process", "--exec-whitelist", "echo", "--", "echo hi")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "XDG_STATE_HOME="+filepath.Join(dir, "state"),
			"WARMBOX_CONFIG="+os.DevNull, "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOPROXY=off", "PATH="+path)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err = cmd.Run()
		return out.String(), errs.String(), err
	}
	_, stderr, err := exe("/nowhere")
	if want := "cannot build it: there is no go in PATH. Run warmbox doctor where Go is in PATH"; err == nil || !strings.Contains(stderr, want) {
		t.Errorf("without a compiler: %v, %q does not say %q", err, stderr, want)
	}
	const building = "warmbox: building the agent for linux/"
	stdout, stderr, err := exe(os.Getenv("PATH"))
	if err != nil || !strings.Contains(stdout, "\nhi\n") || strings.Count(stderr, building) != 1 {
		t.Fatalf("with a compiler: %v\n%s%s", err, stdout, stderr)
	}
	stdout, stderr, err = exe("/bin:/usr/bin")
	if err != nil || !strings.Contains(stdout, "\nhi\n") || strings.Contains(stderr, building) {
		t.Errorf("with what was built: %v\n%s%s", err, stdout, stderr)
	}
}

// TestInstalledProgramStartsABox runs an installed program as a user whose caches are
// empty, with a proxy that has one module: golang.org/x/sys.
func TestInstalledProgramStartsABox(t *testing.T) {
	weekly.Only(t) // it compiles the standard library
	needDocker(t)
	h := newHome(t)
	buildAgentless(t, filepath.Join(filepath.Dir(h.dir), "warmbox"))
	proxy := h.mkdir(t, "proxy")
	const module = "cache/download/golang.org/x/sys"
	if err := os.CopyFS(filepath.Join(proxy, "golang.org/x/sys"), os.DirFS(filepath.Join(goEnv(t, "GOMODCACHE"), module))); err != nil {
		t.Fatal(err)
	}
	if err := h.own(proxy); err != nil {
		t.Fatal(err)
	}
	cmd := h.warmbox(t, "exec", "--workspace", h.mkdir(t, "project"), "--", "echo hi")
	cmd.Env = append(cmd.Env, "GOPROXY=file://"+proxy, "GOSUMDB=off", "GOTOOLCHAIN=local",
		"GOCACHE="+filepath.Join(h.dir, "gocache"), "GOPATH="+filepath.Join(h.dir, "go"))
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+w", filepath.Join(h.dir, "go")).Run() }) // a module cache is read-only
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "\nhi\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
