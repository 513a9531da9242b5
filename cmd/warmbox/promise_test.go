package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the program promises as a whole, tried on the program itself with the
// official SDK as its client.

// program is a running `warmbox stdio` and a client's session with it.
type program struct {
	*mcp.ClientSession
	cmd   *exec.Cmd
	state string
}

func serve(t *testing.T, flags ...string) *program {
	t.Helper()
	return serveTo(t, func(string) {}, flags...)
}

// serveTo serves a client that tells what it hears of progress.
func serveTo(t *testing.T, progress func(string), flags ...string) *program {
	t.Helper()
	ok, err := has("docker")
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Skip("no engine with the default image")
	}
	state := t.TempDir()
	cmd := exec.Command("warmbox", append([]string{"stdio", "--log-level", "warn"}, flags...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull)
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "promise", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress(r.Params.Message) },
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return &program{session, cmd, state}
}

// exec calls the tool and returns its structured content and its size.
func (p *program) exec(t *testing.T, args map[string]any) (result map[string]any, size int) {
	t.Helper()
	r, err := p.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	structured, _ := json.Marshal(r.StructuredContent)
	if err := json.Unmarshal(structured, &result); err != nil {
		t.Fatal(err)
	}
	return result, len(whole)
}

// TestKilledServer kills the server with -9 while a command and a daemon run in
// its box. The package's probe sees that nothing is left; here we see that it
// is gone within the time that is promised.
func TestKilledServer(t *testing.T) {
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
			mine := "label=dev.warmbox.server-pid=" + fmt.Sprint(p.cmd.Process.Pid)
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
				out, err := exec.Command("docker", "ps", "-aq", "--filter", mine).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if len(bytes.TrimSpace(out)) == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("after 30 s there is still %s", out)
				}
			}
		})
	}
}

// TestLargeOutput passes 100 MB: all of it in the log, little of it in the
// reply, and none of it in the server's memory.
func TestLargeOutput(t *testing.T) {
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

// TestHungCommands: a hundred commands that hang in several boxes hold up nobody.
func TestHungCommands(t *testing.T) {
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
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		commands, _ := call("list", nil)["commands"].([]any)
		if omitted, _ := call("list", nil)["omitted"].(float64); len(commands)+int(omitted) == hung {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("they did not all begin")
		}
	}
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
	t.Logf("ping p50 %v, longest %v; one too many is refused in %v", pings[50], pings[99], time.Since(begin))
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

// resident is the most memory that a process has had, in KB.
func resident(t *testing.T, pid int) (kb int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc to ask: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(rest, &kb)
		}
	}
	return kb
}

// TestAnswersWithoutAnEngine sees that a client that only wants to know what
// there is need not wait for an engine, and then hears what is wrong.
func TestAnswersWithoutAnEngine(t *testing.T) {
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

// TestEndOfInput sees that a server whose client hangs up takes its boxes along
// and ends well.
func TestEndOfInput(t *testing.T) {
	for name, end := range map[string]func(p *exec.Cmd, in io.Closer){
		"EOF":    func(_ *exec.Cmd, in io.Closer) { in.Close() },
		"TERM":   func(p *exec.Cmd, _ io.Closer) { p.Process.Signal(syscall.SIGTERM) },
		"INT":    func(p *exec.Cmd, _ io.Closer) { p.Process.Signal(os.Interrupt) },
		"HANGUP": func(p *exec.Cmd, _ io.Closer) { p.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			if ok, err := has("agent"); err != nil || !ok {
				t.Skipf("no agent: %v", err)
			}
			cmd := exec.Command("warmbox", "stdio", "--backend", "process", "--exec-whitelist", "*")
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "WARMBOX_CONFIG="+os.DevNull)
			in, _ := cmd.StdinPipe()
			out, _ := cmd.StdoutPipe()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			alive := filepath.Join(t.TempDir(), "alive")
			fmt.Fprintf(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"touch %s; trap '' TERM; sleep 1000"}}}`+"\n", alive)
			lines := bufio.NewReader(out)
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				if _, err := os.Stat(alive); err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("the command did not start")
				}
			}
			end(cmd, in)
			io.Copy(io.Discard, lines)
			timer := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
			defer timer.Stop()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
