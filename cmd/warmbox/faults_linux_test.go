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

var outage = flag.Duration("outage", 2*time.Second, "how long TestEngineFailuresAreAnsweredInTime has no engine at all")

// hangTime is how long a client may have to wait for the answer that no engine responds.
const hangTime = 5 * time.Second

// A client is a client of a program whose engine, boxes or disks fail. Several
// goroutines may use it at once.
type client struct {
	*testing.T
	home home
	p    *program
}

// connect starts a program in a home and connects a client, which lists the tools.
func connect(t *testing.T, h home, flags ...string) *client {
	t.Helper()
	p := h.serve(t, append([]string{"--log-level", "error"}, flags...)...)
	if tools, err := p.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 6 {
		t.Fatalf("%v, %v", tools, err)
	}
	return &client{t, h, p}
}

// ask calls a tool and returns the structured content of the result.
func (c *client) ask(tool string, args map[string]any) map[string]any {
	c.Helper()
	r, err := c.p.CallTool(c.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.Errorf("%s: %v", tool, err)
		return nil
	}
	fields, _ := r.StructuredContent.(map[string]any)
	return fields
}

// works checks that a command runs in the client's box.
func (c *client) works(when string) {
	c.Helper()
	if r := c.ask("exec", map[string]any{"cmd": "echo fine"}); r["stdout"] != "fine\n" {
		c.Errorf("%s: %v", when, r)
	}
}

// recovers checks that commands run again without help. On a busy machine an engine
// that has just started may not respond in time at first.
func (c *client) recovers(when string) {
	c.Helper()
	var r map[string]any
	soon(c.T, "commands run "+when, func() bool {
		r = c.ask("exec", map[string]any{"cmd": "echo fine"})
		return r["code"] != "DOCKER_UNAVAILABLE"
	})
	if r["stdout"] != "fine\n" {
		c.Errorf("%s: %v", when, r)
	}
}

// unavailable checks that a call fails in time because no engine responds.
func (c *client) unavailable(tool string, args map[string]any) {
	c.Helper()
	begun := time.Now()
	r := c.ask(tool, args)
	if took := time.Since(begun); r["code"] != "DOCKER_UNAVAILABLE" || took > hangTime {
		c.Errorf("%s after %v: %v", tool, took, r)
	}
}

// containers returns the containers of an engine.
func containers(t *testing.T, host string) []string {
	t.Helper()
	out, err := exec.Command("docker", "-H", host, "ps", "-aq").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// TestEngineFailuresAreAnsweredInTime restarts, hangs and ends the engine of programs
// that serve clients. Each call is answered in time, and the programs recover without
// being restarted.
func TestEngineFailuresAreAnsweredInTime(t *testing.T) {
	needDocker(t)
	e := enginetest.Start(t, enginetest.Config{})
	e.Load(enginetest.Base(t, "warmbox/sandbox:slim"), "warmbox/sandbox:slim")
	socket := connect(t, newHome(t, "DOCKER_HOST="+e.Host, "WARMBOX_DOCKER_PATH=socket"))
	relay := connect(t, newHome(t, "DOCKER_HOST="+e.Host, "WARMBOX_DOCKER_PATH=relay"))
	clients := []*client{socket, relay}
	t.Run("restarted under load", func(t *testing.T) {
		var load sync.WaitGroup
		each(t, clients, func(c *client) { c.load(&load) })
		e.Restart()
		begun := time.Now()
		load.Wait()
		if took := time.Since(begun); took > hangTime {
			t.Errorf("the last command ended %v after the restart", took)
		}
		each(t, clients, func(c *client) { c.recovers("after a restart") })
		full := 2 * len(clients) // each has its own box, and at least one is idle
		soon(t, "the pools are full", func() bool { return len(containers(t, e.Host)) >= full })
	})
	t.Run("hangs", func(t *testing.T) {
		c := &client{t, socket.home, socket.p}
		spare := c.ask("start", nil)["id"]
		e.Pause()
		var relayed sync.WaitGroup // the relay leads through the engine
		relayed.Go(func() { (&client{t, relay.home, relay.p}).unavailable("exec", map[string]any{"cmd": "true"}) })
		hung(c, spare)
		relayed.Wait()
		e.Resume()
		each(t, clients, func(c *client) { c.recovers("after a hang") })
	})
	t.Run("ended for a while", func(t *testing.T) {
		e.Kill()
		over := time.Now().Add(*outage)
		late := connect(socket.T, newHome(socket.T, "DOCKER_HOST="+e.Host))
		for time.Now().Before(over) {
			late.unavailable("exec", map[string]any{"cmd": "true"})
			each(t, clients, func(c *client) { c.unavailable("start", cold) })
			<-time.After(*outage / 20)
		}
		socket.works("without an engine")
		e.Restart()
		clients = append(clients, late)
		each(t, clients, func(c *client) { c.recovers("after the engine has started again") })
	})
	// The engine may still make containers whose servers have ended. A sweep removes them.
	each(t, clients, func(c *client) { c.p.Close() })
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := exec.Command("docker", "-H", e.Host, "ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Status}} {{.Labels}}").CombinedOutput()
			t.Logf("containers left:\n%s", out)
		}
	})
	for deadline := time.Now().Add(4 * waitLimit); len(containers(t, e.Host)) > 0; { // a killed engine can take a minute to end a removal
		each(t, clients, func(c *client) {
			if out, err := c.home.sweep(c.T).CombinedOutput(); err != nil {
				c.Errorf("%v: %s", err, out)
			}
		})
		if time.Now().After(deadline) {
			t.Fatal("a sweep leaves containers")
		}
	}
}

// cold are the arguments of a start that no idle box satisfies.
var cold = map[string]any{"env": map[string]any{"A": "b"}}

func each(t *testing.T, clients []*client, f func(*client)) {
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { f(&client{t, c.home, c.p}) })
	}
	all.Wait()
}

// load starts commands in two boxes and returns when all run. All of them, and their
// boxes, must be lost in the end, and their output must not be.
func (c *client) load(all *sync.WaitGroup) {
	const commands = 4
	second := c.ask("start", nil)["id"]
	for i := range commands {
		args := map[string]any{"cmd": "echo up; sleep 1000", "waitSeconds": 60}
		if i%2 == 0 {
			args["containerId"] = second
		}
		all.Go(func() {
			r := c.ask("exec", args)
			lost := r["code"] == "BOX_GONE" && r["status"] == "lost"
			away := r["code"] == "DOCKER_UNAVAILABLE" && r["status"] == "running" // for so long that the loss is reported later
			if !lost && !away || r["stdout"] != "up\n" {
				c.Errorf("%v", r)
			}
			if log, err := os.ReadFile(fmt.Sprint(r["logPath"])); string(log) != "up\n" {
				c.Errorf("the log has %q, %v", log, err)
			}
			soon(c.T, "the command is lost", func() bool { return c.ask("logs", map[string]any{"execId": r["execId"]})["status"] == "lost" })
			if again := c.ask("exec", map[string]any{"cmd": "true", "containerId": r["containerId"]}); again["code"] != "BOX_GONE" {
				c.Errorf("%v", again)
			}
		})
	}
	soon(c.T, "all commands run", func() bool {
		up := 0
		logs, _ := filepath.Glob(filepath.Join(c.p.state, "warmbox", "logs", "*.log"))
		for _, path := range logs {
			if text, _ := os.ReadFile(path); string(text) == "up\n" {
				up++
			}
		}
		return up == commands
	})
}

// hung calls tools that need the engine, and tools that do not.
func hung(c *client, spare any) {
	c.works("while the engine hangs")
	var all sync.WaitGroup
	all.Go(func() { c.unavailable("start", cold) })
	all.Go(func() { c.unavailable("start", map[string]any{"env": cold["env"], "name": "dev"}) })
	all.Go(func() {
		begun := time.Now()
		r := c.ask("stop", map[string]any{"containerId": spare})
		if took := time.Since(begun); took > hangTime || r["status"] != "stopped" {
			c.Errorf("stop took %v: %v", took, r)
		}
	})
	all.Wait()
	c.works("while the engine still hangs")
}

// TestNextCommandWorksAfterFailure has boxes of an engine fail in several ways. Each
// time the next command works.
func TestNextCommandWorksAfterFailure(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	workspace := h.mkdir(t, "work")
	c := connect(t, h, "--workspace", workspace, "--tmp-size", "64m", "--exec-memory", "512m")
	c.works("at first")
	for name, fault := range map[string]func(*client){
		"the container is killed": killedContainer,
		"/tmp is full":            fullTmp,
		"100,000 files":           manyFiles,
		"200 commands at once":    manyCommands,
		"memory runs out":         noMemory,
	} {
		t.Run(name, func(t *testing.T) {
			c := &client{t, h, c.p}
			fault(c)
			c.works("afterwards")
		})
	}
	t.Run("the workspace is deleted", func(t *testing.T) { deletedWorkspace(&client{t, h, c.p}, workspace) })
}

// killedContainer kills a box from outside, as the kernel does when the whole box has
// no memory left: its agent ends first.
func killedContainer(c *client) {
	box := c.ask("exec", map[string]any{"cmd": "true"})["containerId"]
	label := fmt.Sprintf("label=dev.warmbox.box=%v", box)
	ended := make(chan map[string]any)
	go func() { ended <- c.ask("exec", map[string]any{"cmd": "echo up; touch /tmp/up; sleep 1000"}) }()
	soon(c.T, "the command runs", func() bool { return c.ask("exec", map[string]any{"cmd": "test -e /tmp/up"})["exitCode"] == 0.0 })
	id, err := exec.Command("docker", "ps", "-q", "--filter", label).Output()
	if err != nil {
		c.Fatal(err)
	}
	if out, err := exec.Command("docker", "kill", strings.TrimSpace(string(id))).CombinedOutput(); err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	select {
	case r := <-ended:
		if r["status"] != "lost" || r["code"] != "BOX_GONE" || r["stdout"] != "up\n" || !strings.Contains(fmt.Sprint(r["hint"]), "exit code 137") {
			c.Errorf("%v", r)
		}
	case <-time.After(hangTime):
		c.Fatal("the command does not end with its container")
	}
	soon(c.T, "the container is gone", func() bool {
		out, err := exec.Command("docker", "ps", "-aq", "--filter", label).Output()
		return err == nil && len(out) == 0
	})
}

func fullTmp(c *client) {
	r := c.ask("exec", map[string]any{"cmd": "dd if=/dev/zero of=/tmp/big bs=1M; echo $?; rm /tmp/big"})
	if r["stdout"] != "1\n" || !strings.Contains(fmt.Sprint(r["stderr"]), "No space left on device") {
		c.Errorf("%v", r)
	}
}

// manyFiles runs a command that makes files, in memory and on disk, and checks that a
// call that stops the box does not wait for them.
func manyFiles(c *client) {
	box := c.ask("start", nil)["id"]
	const count = "seq 90000 | xargs touch; cd /workspace && mkdir many && cd many && seq 10000 | xargs touch; ls /tmp . | wc -l"
	r := c.ask("exec", map[string]any{"cmd": "cd /tmp && " + count, "containerId": box})
	if r["exitCode"] != 0.0 {
		c.Errorf("%v", r)
	}
	begun := time.Now()
	if r := c.ask("stop", map[string]any{"containerId": box}); r["status"] != "stopped" || time.Since(begun) > hangTime {
		c.Errorf("stopped after %v: %v", time.Since(begun), r)
	}
	if r := c.ask("exec", map[string]any{"cmd": "rm -r many"}); r["exitCode"] != 0.0 {
		c.Errorf("%v", r)
	}
}

// manyCommands calls exec more often at once than a box or a session allows. A call that
// is refused is repeated, and each gets its own answer in the end.
func manyCommands(c *client) {
	const commands = 200
	ids := []any{c.ask("start", nil)["id"], c.ask("start", nil)["id"]}
	var all sync.WaitGroup
	var refused atomic.Int32
	for i := range commands {
		all.Go(func() {
			for !c.token(i, ids[i%len(ids)]) {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	c.Logf("%d calls were refused", refused.Load())
	for _, id := range ids {
		c.ask("stop", map[string]any{"containerId": id})
	}
}

// token runs a command that prints a unique text, and reports whether the call was
// accepted. A session limits the calls that wait: the result of one more says that its
// command runs.
func (c *client) token(i int, box any) bool {
	token := fmt.Sprintf("token-%d\n", i)
	r := c.ask("exec", map[string]any{"cmd": fmt.Sprintf("echo token-%d", i), "waitSeconds": 60, "containerId": box})
	if r["code"] == "LIMIT_REACHED" {
		return false
	}
	log := func() string {
		text, _ := os.ReadFile(fmt.Sprint(r["logPath"]))
		return string(text)
	}
	if r["status"] == "running" {
		soon(c.T, token, func() bool { return log() != "" })
		r["stdout"] = log()
	}
	if r["stdout"] != token || log() != token {
		c.Errorf("%v, its log %q; want %q", r, log(), token)
	}
	return true
}

func noMemory(c *client) {
	if r := c.ask("exec", map[string]any{"cmd": "echo up; tail /dev/zero"}); r["status"] != "oom" || r["exitCode"] != 137.0 || r["stdout"] != "up\n" {
		c.Errorf("%v", r)
	}
}

// deletedWorkspace deletes the workspace of a box that runs.
func deletedWorkspace(c *client, workspace string) {
	if err := os.RemoveAll(workspace); err != nil {
		c.Fatal(err)
	}
	c.works("in the box that has it mounted")
	r := c.ask("start", cold)
	if r["code"] != "WORKSPACE_GONE" || !strings.Contains(fmt.Sprint(r["error"]), workspace) {
		c.Errorf("a new box: %v", r)
	}
	c.home.mkdir(c.T, filepath.Base(workspace))
	if r := c.ask("start", cold); r["id"] == nil {
		c.Errorf("%v", r)
	}
}

// TestServerEndsWhenItsClientStopsReading closes the server's output while its input is
// open. The server ends in order, with all its boxes.
func TestServerEndsWhenItsClientStopsReading(t *testing.T) {
	needDocker(t)
	cmd := newHome(t).warmbox(t, "stdio", "--log-level", "error")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*waitLimit, func() { cmd.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewReader(out)
	fmt.Fprintln(in, initialize+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"background":true,"cmd":"trap '' TERM; sleep 1000"}}}`)
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
		t.Errorf("the server took %v to end", took)
	}
	if left := containersOf(t, &program{cmd: cmd}, "--all"); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
}
