package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestKeptBoxOutlivesKills kills the server with -9 again and again, at any moment
// after it has begun, while a command prints in a kept box. Each next one has the
// box, and in the end the log has every line.
func TestKeptBoxOutlivesKills(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	for _, path := range []string{"socket", "relay"} {
		t.Run(path, func(t *testing.T) {
			t.Setenv("WARMBOX_DOCKER_PATH", path)
			t.Setenv("WARMBOX_POOL_WARM", "0")
			state := t.TempDir()
			t.Cleanup(func() { sweepAll(t, state) })
			outliveKills(t, state)
		})
	}
}

// serveIn serves with what others may have left in a state directory.
func serveIn(t *testing.T, state string) *program {
	t.Helper()
	cmd := exec.Command("warmbox", "stdio", "--log-level", "warn")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull)
	cmd.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "kept", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &program{session, cmd, state}
}

func outliveKills(t *testing.T, state string) {
	t.Logf("-killseed %d", *killSeed)
	random := rand.New(rand.NewPCG(*killSeed, 1))
	p := serveIn(t, state)
	box := p.call(t, "start", map[string]any{"name": "dev", "keep": true})["id"]
	run := p.call(t, "exec", map[string]any{"containerId": box, "background": true,
		"cmd": `i=0; until [ -e /tmp/stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done`})
	came := 0
	for range *kills {
		p.cmd.Process.Kill()
		p.Close()
		p = serveIn(t, state)
		begun := p.cmd.Process
		timer := time.AfterFunc(time.Duration(random.IntN(400))*time.Millisecond, func() { begun.Kill() })
		if r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "start", Arguments: map[string]any{"name": "dev", "keep": true}}); err == nil {
			came++
			if got := structured(t, r)["id"]; got != box {
				t.Errorf("the box is %v, want %v", got, box)
			}
		}
		timer.Stop()
	}
	p.cmd.Process.Kill()
	p.Close()
	p = serveIn(t, state)
	t.Logf("%d of %d servers had the box before they were killed", came, *kills)
	if got := p.call(t, "start", map[string]any{"name": "dev"})["id"]; got != box {
		t.Fatalf("the box is %v, want %v", got, box)
	}
	p.call(t, "exec", map[string]any{"containerId": box, "cmd": "touch /tmp/stop"})
	end := p.call(t, "logs", map[string]any{"execId": run["execId"], "waitSeconds": 30, "grep": "^never$"})
	if end["status"] != "exited" {
		t.Errorf("%v", end)
	}
	t.Logf("%d lines", numbered(t, fmt.Sprint(run["logPath"])))
	p.call(t, "stop", map[string]any{"containerId": box})
	if left, _ := filepath.Glob(filepath.Join(state, "warmbox", "boxes", "kept", "*", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// sweepAll takes away what a test kept, however it ended.
func sweepAll(t *testing.T, state string) {
	t.Helper()
	if out, err := sweep(state).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// numbered counts the lines of a log that has "line 1", "line 2" and so on: every
// one of them, once and in order.
func numbered(t *testing.T, path string) int {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
	for i, line := range lines {
		if want := fmt.Sprint("line ", i+1); line != want {
			t.Fatalf("of %d lines that after %d is %q", len(lines), i, line)
		}
	}
	return len(lines)
}

// call calls a tool, which must not fail.
func (p *program) call(t *testing.T, tool string, args map[string]any) map[string]any {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	return structured(t, r)
}

func structured(t *testing.T, r *mcp.CallToolResult) map[string]any {
	t.Helper()
	fields, ok := r.StructuredContent.(map[string]any)
	if !ok || r.IsError {
		t.Fatalf("%+v", r)
	}
	return fields
}
