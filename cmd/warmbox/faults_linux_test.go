package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

var outage = flag.Duration("outage", 2*time.Second, "how long TestEngineFaults has no engine at all")

// hangTime is what a client may have to wait before it hears that no engine
// answers.
const hangTime = 5 * time.Second

// A guest is a client of a program whose engine, boxes or disks fail. It may
// call from many goroutines at once.
type guest struct {
	*testing.T
	p *program
}

// visit starts a program with more in its environment, and a client that learns
// what it can do.
func visit(t *testing.T, env ...string) *guest {
	t.Helper()
	state := t.TempDir()
	cmd := exec.Command("warmbox", "stdio", "--log-level", "error")
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+state, "WARMBOX_CONFIG="+os.DevNull), env...)
	cmd.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "guest", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if tools, err := session.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 6 {
		t.Fatalf("%v, %v", tools, err)
	}
	return &guest{t, &program{session, cmd, state}}
}

// ask calls a tool and returns the fields of its answer.
func (g *guest) ask(tool string, args map[string]any) map[string]any {
	g.Helper()
	r, err := g.p.CallTool(g.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		g.Errorf("%s: %v", tool, err)
		return nil
	}
	fields, _ := r.StructuredContent.(map[string]any)
	return fields
}

// works sees that a command runs, in the guest's own box.
func (g *guest) works(when string) {
	g.Helper()
	if r := g.ask("exec", map[string]any{"cmd": "echo fine"}); r["stdout"] != "fine\n" {
		g.Errorf("%s: %v", when, r)
	}
}

// comesBack sees that commands run again by themselves. On a machine that is busy an
// engine that has just begun may still be silent for too long.
func (g *guest) comesBack(when string) {
	g.Helper()
	var r map[string]any
	g.until("commands "+when, func() bool {
		r = g.ask("exec", map[string]any{"cmd": "echo fine"})
		return r["code"] != "DOCKER_UNAVAILABLE"
	})
	if r["stdout"] != "fine\n" {
		g.Errorf("%s: %v", when, r)
	}
}

// unavailable sees that a call fails in time because no engine answers.
func (g *guest) unavailable(tool string, args map[string]any) {
	g.Helper()
	begun := time.Now()
	r := g.ask(tool, args)
	if took := time.Since(begun); r["code"] != "DOCKER_UNAVAILABLE" || took > hangTime {
		g.Errorf("%s after %v: %v", tool, took, r)
	}
}

// until polls.
func (g *guest) until(what string, true func() bool) {
	g.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !true(); <-tick.C {
		if time.Now().After(deadline) {
			g.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// containers returns those of an engine.
func containers(t *testing.T, host string) []string {
	t.Helper()
	out, err := exec.Command("docker", "-H", host, "ps", "-aq").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// TestEngineFaults takes the engine away from a program in every way, under the
// eyes of a client. Each call is answered in time, and service comes back by
// itself: the program is never restarted.
func TestEngineFaults(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, "warmbox/sandbox:slim"), "warmbox/sandbox:slim")
	socket := visit(t, "DOCKER_HOST="+e.Host, "WARMBOX_DOCKER_PATH=socket")
	relay := visit(t, "DOCKER_HOST="+e.Host, "WARMBOX_DOCKER_PATH=relay")
	guests := []*guest{socket, relay}
	t.Run("restarted under load", func(t *testing.T) {
		var load sync.WaitGroup
		each(t, guests, func(g *guest) { g.load(&load) })
		e.Restart()
		begun := time.Now()
		load.Wait()
		if took := time.Since(begun); took > hangTime {
			t.Errorf("the last command ended %v after the engine was back", took)
		}
		each(t, guests, func(g *guest) { g.comesBack("after a restart") })
		full := 2 * len(guests) // each has its own box, and one stands ready at least
		(&guest{T: t}).until("the pools", func() bool { return len(containers(t, e.Host)) >= full })
	})
	t.Run("hangs", func(t *testing.T) {
		g := &guest{t, socket.p}
		spare := g.ask("start", nil)["id"]
		e.Pause()
		var behind sync.WaitGroup // whose box is reached through the engine
		behind.Go(func() { (&guest{t, relay.p}).unavailable("exec", map[string]any{"cmd": "true"}) })
		hung(g, spare)
		behind.Wait()
		e.Resume()
		each(t, guests, func(g *guest) { g.comesBack("after a hang") })
	})
	t.Run("gone for a while", func(t *testing.T) {
		e.Kill()
		over := time.Now().Add(*outage)
		late := visit(socket.T, "DOCKER_HOST="+e.Host)
		for time.Now().Before(over) {
			late.unavailable("exec", map[string]any{"cmd": "true"})
			each(t, guests, func(g *guest) { g.unavailable("start", cold) })
			<-time.After(*outage / 20)
		}
		socket.works("without an engine")
		e.Restart()
		guests = append(guests, late)
		each(t, guests, func(g *guest) { g.comesBack("when the engine is back") })
	})
	// The engine may yet make what nobody waits for any more. A sweep takes that.
	t.Setenv("DOCKER_HOST", e.Host)
	each(t, guests, func(g *guest) { g.p.Close() })
	(&guest{T: t}).until("a sweep that leaves nothing", func() bool {
		each(t, guests, func(g *guest) { sweepAll(g.T, g.p.state) })
		return len(containers(t, e.Host)) == 0
	})
}

// cold asks for a box that is none of those that stand ready.
var cold = map[string]any{"env": map[string]any{"A": "b"}}

func each(t *testing.T, guests []*guest, f func(*guest)) {
	var all sync.WaitGroup
	for _, g := range guests {
		all.Go(func() { f(&guest{t, g.p}) })
	}
	all.Wait()
}

// load starts commands in two boxes and returns when all run. All must be lost
// in the end with what they have printed, and their boxes with them.
func (g *guest) load(all *sync.WaitGroup) {
	const commands = 4
	second := g.ask("start", nil)["id"]
	for i := range commands {
		args := map[string]any{"cmd": "echo up; sleep 1000", "waitSeconds": 60}
		if i%2 == 0 {
			args["containerId"] = second
		}
		all.Go(func() {
			r := g.ask("exec", args)
			lost := r["code"] == "BOX_GONE" && r["status"] == "lost"
			away := r["code"] == "DOCKER_UNAVAILABLE" && r["status"] == "running" // for so long that the loss is told later
			if !lost && !away || r["stdout"] != "up\n" {
				g.Errorf("%v", r)
			}
			if log, err := os.ReadFile(fmt.Sprint(r["logPath"])); string(log) != "up\n" {
				g.Errorf("the log has %q, %v", log, err)
			}
			g.until("its loss", func() bool { return g.ask("logs", map[string]any{"execId": r["execId"]})["status"] == "lost" })
			if again := g.ask("exec", map[string]any{"cmd": "true", "containerId": r["containerId"]}); again["code"] != "BOX_GONE" {
				g.Errorf("%v", again)
			}
		})
	}
	g.until("the commands", func() bool {
		up := 0
		logs, _ := filepath.Glob(filepath.Join(g.p.state, "warmbox", "logs", "*.log"))
		for _, path := range logs {
			if text, _ := os.ReadFile(path); string(text) == "up\n" {
				up++
			}
		}
		return up == commands
	})
}

// hung asks a program for all that it needs an engine for, and for what it does
// not.
func hung(g *guest, spare any) {
	g.works("while the engine hangs")
	var all sync.WaitGroup
	all.Go(func() { g.unavailable("start", cold) })
	all.Go(func() { g.unavailable("start", map[string]any{"env": cold["env"], "name": "dev"}) })
	all.Go(func() {
		begun := time.Now()
		r := g.ask("stop", map[string]any{"containerId": spare})
		if took := time.Since(begun); took > hangTime || r["status"] != "stopped" {
			g.Errorf("stop took %v: %v", took, r)
		}
	})
	all.Wait()
	g.works("while the engine hangs on")
}

// TestFaults has a program meet what else can fail, each time with a box of an
// engine. Whatever happens the next command works.
func TestFaults(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	workspace := filepath.Join(t.TempDir(), "work")
	if err := errors.Join(os.Mkdir(workspace, 0o777), os.Chmod(workspace, 0o777)); err != nil {
		t.Fatal(err)
	}
	g := visit(t, "WARMBOX_WORKSPACE="+workspace, "WARMBOX_TMP_SIZE=64m", "WARMBOX_EXEC_MEMORY=512m")
	g.works("at first")
	for name, fault := range map[string]func(*guest){
		"the container is killed": killedContainer,
		"/tmp is full":            fullTmp,
		"100,000 files":           manyFiles,
		"200 commands at once":    manyCommands,
		"memory runs out":         noMemory,
	} {
		t.Run(name, func(t *testing.T) {
			g := &guest{t, g.p}
			fault(g)
			g.works("afterwards")
		})
	}
	t.Run("the workspace is deleted", func(t *testing.T) { deletedWorkspace(&guest{t, g.p}, workspace) })
}

// killedContainer kills a box from outside, as the kernel does where the whole
// box has no memory left: its agent goes first.
func killedContainer(g *guest) {
	box := g.ask("exec", map[string]any{"cmd": "true"})["containerId"]
	label := fmt.Sprintf("label=dev.warmbox.box=%v", box)
	ended := make(chan map[string]any)
	go func() { ended <- g.ask("exec", map[string]any{"cmd": "echo up; touch /tmp/up; sleep 1000"}) }()
	g.until("the command", func() bool { return g.ask("exec", map[string]any{"cmd": "test -e /tmp/up"})["exitCode"] == 0.0 })
	id, err := exec.Command("docker", "ps", "-q", "--filter", label).Output()
	if err != nil {
		g.Fatal(err)
	}
	if out, err := exec.Command("docker", "kill", strings.TrimSpace(string(id))).CombinedOutput(); err != nil {
		g.Fatalf("%v: %s", err, out)
	}
	select {
	case r := <-ended:
		if r["status"] != "lost" || r["code"] != "BOX_GONE" || r["stdout"] != "up\n" || !strings.Contains(fmt.Sprint(r["hint"]), "exit code 137") {
			g.Errorf("%v", r)
		}
	case <-time.After(hangTime):
		g.Fatal("the command does not end with its container")
	}
	g.until("nothing of the container", func() bool {
		out, err := exec.Command("docker", "ps", "-aq", "--filter", label).Output()
		return err == nil && len(out) == 0
	})
}

func fullTmp(g *guest) {
	r := g.ask("exec", map[string]any{"cmd": "dd if=/dev/zero of=/tmp/big bs=1M; echo $?; rm /tmp/big"})
	if r["stdout"] != "1\n" || !strings.Contains(fmt.Sprint(r["stderr"]), "No space left on device") {
		g.Errorf("%v", r)
	}
}

// manyFiles has a command make files, in memory and on disk, and sees that
// nobody who lists or stops the box has to wait for them.
func manyFiles(g *guest) {
	box := g.ask("start", nil)["id"]
	const count = "seq 90000 | xargs touch; cd /workspace && mkdir many && cd many && seq 10000 | xargs touch; ls /tmp . | wc -l"
	r := g.ask("exec", map[string]any{"cmd": "cd /tmp && " + count, "containerId": box})
	if r["exitCode"] != 0.0 {
		g.Errorf("%v", r)
	}
	begun := time.Now()
	if r := g.ask("stop", map[string]any{"containerId": box}); r["status"] != "stopped" || time.Since(begun) > hangTime {
		g.Errorf("stopped after %v: %v", time.Since(begun), r)
	}
	if r := g.ask("exec", map[string]any{"cmd": "rm -r many"}); r["exitCode"] != 0.0 {
		g.Errorf("%v", r)
	}
}

// manyCommands asks for more at once than may run in a box, or be under way in a
// session. Who is told so asks again, and each gets its own answer in the end.
func manyCommands(g *guest) {
	const commands = 200
	ids := []any{g.ask("start", nil)["id"], g.ask("start", nil)["id"]}
	var all sync.WaitGroup
	var refused atomic.Int32
	for i := range commands {
		all.Go(func() {
			for !g.token(i, ids[i%len(ids)]) {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	g.Logf("%d were told to ask again", refused.Load())
	for _, id := range ids {
		g.ask("stop", map[string]any{"containerId": id})
	}
}

// token has a command print what no other prints, and reports whether it could.
// A session has a bound on the calls that wait: one more is told that its command
// runs.
func (g *guest) token(i int, box any) bool {
	token := fmt.Sprintf("token-%d\n", i)
	r := g.ask("exec", map[string]any{"cmd": fmt.Sprintf("echo token-%d", i), "waitSeconds": 60, "containerId": box})
	if r["code"] == "LIMIT_REACHED" {
		return false
	}
	log := func() string {
		text, _ := os.ReadFile(fmt.Sprint(r["logPath"]))
		return string(text)
	}
	if r["status"] == "running" {
		g.until(token, func() bool { return log() != "" })
		r["stdout"] = log()
	}
	if r["stdout"] != token || log() != token {
		g.Errorf("%v, its log %q; want %q", r, log(), token)
	}
	return true
}

func noMemory(g *guest) {
	if r := g.ask("exec", map[string]any{"cmd": "echo up; tail /dev/zero"}); r["status"] != "oom" || r["exitCode"] != 137.0 || r["stdout"] != "up\n" {
		g.Errorf("%v", r)
	}
}

// deletedWorkspace takes the directory away that a box works in.
func deletedWorkspace(g *guest, workspace string) {
	if err := os.RemoveAll(workspace); err != nil {
		g.Fatal(err)
	}
	g.works("in a box that has it")
	r := g.ask("start", cold)
	if r["code"] != "WORKSPACE_GONE" || !strings.Contains(fmt.Sprint(r["error"]), workspace) {
		g.Errorf("a new box: %v", r)
	}
	if err := errors.Join(os.Mkdir(workspace, 0o777), os.Chmod(workspace, 0o777)); err != nil {
		g.Fatal(err)
	}
	if r := g.ask("start", cold); r["id"] == nil {
		g.Errorf("%v", r)
	}
}

// TestDeafClient has a client that still speaks and no longer reads: the program
// sees that it has nobody to answer, and goes in order with all that it has.
func TestDeafClient(t *testing.T) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	cmd := exec.Command("warmbox", "stdio", "--log-level", "error")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "WARMBOX_CONFIG="+os.DevNull)
	cmd.Stderr = os.Stderr
	in, ierr := cmd.StdinPipe()
	out, oerr := cmd.StdoutPipe()
	if err := errors.Join(ierr, oerr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(2*patience, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	lines := bufio.NewReader(out)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"background":true,"cmd":"trap '' TERM; sleep 1000"}}}`)
	for answers := 0; answers < 2; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"result"`) {
			answers++
		}
	}
	out.Close()
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	begun := time.Now()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	mine := fmt.Sprintf("label=dev.warmbox.server-pid=%d", cmd.Process.Pid)
	if left, err := exec.Command("docker", "ps", "-aq", "--filter", mine).CombinedOutput(); err != nil || len(left) > 0 {
		t.Errorf("left: %s, %v", left, err)
	}
}
