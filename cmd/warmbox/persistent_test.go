package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPersistentBoxOutlivesKilledServers kills the server with SIGKILL again and again,
// at a random moment after its start, while a command prints in a persistent box. Each
// next server has the box, and in the end the log has every line.
func TestPersistentBoxOutlivesKilledServers(t *testing.T) {
	needDocker(t)
	for _, path := range []string{"socket", "relay"} {
		t.Run(path, func(t *testing.T) {
			h := newHome(t, "WARMBOX_DOCKER_PATH="+path, "WARMBOX_POOL_WARM=0")
			h.sweepAtEnd(t)
			outliveKills(t, h)
		})
	}
}

func outliveKills(t *testing.T, h home) {
	t.Logf("-killseed %d", *killSeed)
	random := rand.New(rand.NewPCG(*killSeed, 1))
	p := h.serve(t)
	box := p.call(t, "start", map[string]any{"name": "dev", "keep": true})["id"]
	run := p.call(t, "exec", map[string]any{"containerId": box, "background": true,
		"cmd": `i=0; until [ -e /tmp/stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done`})
	reattached := 0
	for range *kills {
		p.cmd.Process.Kill()
		p.Close()
		p = h.serve(t)
		server := p.cmd.Process
		timer := time.AfterFunc(time.Duration(random.IntN(400))*time.Millisecond, func() { server.Kill() })
		if r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "start", Arguments: map[string]any{"name": "dev", "keep": true}}); err == nil {
			reattached++
			if got := structured(t, r)["id"]; got != box {
				t.Errorf("the box is %v, want %v", got, box)
			}
		}
		timer.Stop()
	}
	p.cmd.Process.Kill()
	p.Close()
	p = h.serve(t)
	t.Logf("%d of %d servers reattached to the box before they were killed", reattached, *kills)
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
	if left, _ := filepath.Glob(filepath.Join(h.state(), "warmbox", "boxes", "kept", "*", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// numbered returns the number of lines of a log, which must be "line 1", "line 2" and
// so on, each once and in order.
func numbered(t *testing.T, path string) int {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(log), "\n"), "\n")
	for i, line := range lines {
		if want := fmt.Sprint("line ", i+1); line != want {
			t.Fatalf("line %d of %d is %q, want %q", i+1, len(lines), line, want)
		}
	}
	return len(lines)
}
