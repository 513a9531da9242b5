package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the program promises as a whole, checked with the official SDK as its client.

// TestKilledServerLeavesNoContainer kills the server with SIGKILL while a command and
// a daemon run in its box. Within 30 s the container is gone. Package boxtest checks
// that nothing else is left.
func TestKilledServerLeavesNoContainer(t *testing.T) {
	for _, path := range []string{"socket", "relay"} {
		t.Run(path, func(t *testing.T) {
			t.Setenv("WARMBOX_DOCKER_PATH", path)
			p := serve(t)
			r, _ := p.exec(t, map[string]any{"cmd": "setsid sleep 1000 >/dev/null 2>&1 & trap '' TERM; echo up; sleep 1000", "waitSeconds": 5})
			if r["status"] != "running" || r["stdout"] != "up\n" {
				t.Fatalf("%v", r)
			}
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			soon(t, "the container is gone", func() bool { return len(containersOf(t, p, "--all")) == 0 })
		})
	}
}

// TestLargeOutputGoesToTheLog runs a command that prints 100 MB. All of it is in the
// log, little of it in the reply, and none of it in the server's memory.
func TestLargeOutputGoesToTheLog(t *testing.T) {
	const size = 100_000_000
	p := serve(t, "--log-max-run", "256m")
	p.exec(t, map[string]any{"cmd": "true"})
	before := resident(t, p.cmd.Process.Pid)
	r, reply := p.exec(t, map[string]any{"cmd": fmt.Sprintf("yes 'a line of some output, as a build prints it' | head -c %d", size)})
	grown := resident(t, p.cmd.Process.Pid) - before
	log, err := os.Stat(fmt.Sprint(r["logPath"]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("reply %d bytes, log %d bytes, memory grew by %d KB, command took %v ms", reply, log.Size(), grown, r["durationMs"])
	if log.Size() != size || r["log"] != nil {
		t.Errorf("the log has %d bytes, %v", log.Size(), r["log"])
	}
	if reply > 16<<10 {
		t.Errorf("the reply has %d bytes", reply)
	}
	if grown > 64<<10 {
		t.Errorf("the server grew by %d KB", grown)
	}
}

// TestHungCommandsDoNotDelayOthers runs a hundred commands that hang in several boxes.
// Pings are answered meanwhile, one more command is refused, and stop ends them all.
func TestHungCommandsDoNotDelayOthers(t *testing.T) {
	const hung, boxes = 100, 4
	p := serve(t, "--exec-max-runs", fmt.Sprint(hung))
	call := func(tool string, args map[string]any) map[string]any {
		r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			return nil
		}
		fields, _ := r.StructuredContent.(map[string]any)
		return fields
	}
	var ids []any
	for range boxes {
		ids = append(ids, call("start", nil)["id"])
	}
	hang := func(i int) map[string]any {
		return call("exec", map[string]any{"cmd": "sleep 1000", "containerId": ids[i%boxes], "waitSeconds": 600})
	}
	answers := make(chan any, hung)
	for i := range hung {
		go func() { answers <- hang(i)["status"] }()
	}
	soon(t, "all commands run", func() bool {
		commands, _ := call("list", nil)["commands"].([]any)
		omitted, _ := call("list", nil)["omitted"].(float64)
		return len(commands)+int(omitted) == hung
	})
	var pings []time.Duration
	for range 100 {
		begin := time.Now()
		if err := p.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		pings = append(pings, time.Since(begin))
	}
	slices.Sort(pings)
	begin := time.Now()
	refused := hang(0)
	t.Logf("ping p50 %v, longest %v; one command too many is refused in %v", pings[50], pings[99], time.Since(begin))
	if text := fmt.Sprint(refused["error"]); refused["code"] != "LIMIT_REACHED" || !strings.Contains(text, `"sleep 1000"`) {
		t.Errorf("one command too many: %v", refused)
	}
	for _, id := range ids {
		if r := call("stop", map[string]any{"containerId": id}); r["status"] != "stopped" {
			t.Errorf("%v", r)
		}
	}
	ends := map[any]int{}
	for range hung {
		ends[<-answers]++
	}
	if ends["killed"] == 0 || ends["killed"]+ends["running"] != hung {
		t.Errorf("%v", ends)
	}
}

// resident returns the peak resident memory of a process, in KB.
func resident(t *testing.T, pid int) (kb int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(rest, &kb)
		}
	}
	return kb
}

// TestListsToolsWithoutAnEngine checks that a client can list the tools of a server
// that has no engine, and that a call then says what is wrong.
func TestListsToolsWithoutAnEngine(t *testing.T) {
	p := serve(t, "--docker-host", "unix:///nowhere/docker.sock")
	tools, err := p.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Fatalf("%v, %v", tools, err)
	}
	r, _ := p.exec(t, map[string]any{"cmd": "true"})
	if text := fmt.Sprint(r["error"]); r["code"] != "DOCKER_UNAVAILABLE" || !strings.Contains(text, "/nowhere/docker.sock") {
		t.Errorf("%v", r)
	}
}

// TestServerEndsWithItsClient ends the input of a server, or sends it a signal, while
// a command runs that ignores SIGTERM. The server ends its box and exits with 0.
func TestServerEndsWithItsClient(t *testing.T) {
	needAgent(t)
	for name, end := range map[string]func(*wireClient){
		"EOF":    func(c *wireClient) { c.in.Close() },
		"TERM":   func(c *wireClient) { c.cmd.Process.Signal(syscall.SIGTERM) },
		"INT":    func(c *wireClient) { c.cmd.Process.Signal(os.Interrupt) },
		"HANGUP": func(c *wireClient) { c.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			c := startWire(t, h.warmbox(t, append([]string{"stdio"}, processBackend...)...))
			alive := filepath.Join(h.dir, "alive")
			fmt.Fprintf(c.in, initialize+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"touch %s; trap '' TERM; sleep 1000"}}}`+"\n", alive)
			if _, err := c.out.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			soon(t, "the command runs", func() bool { _, err := os.Stat(alive); return err == nil })
			end(c)
			io.Copy(io.Discard, c.out)
			late := time.AfterFunc(20*time.Second, func() { c.cmd.Process.Kill() })
			defer late.Stop()
			if err := c.cmd.Wait(); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// initialize begins a session.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
