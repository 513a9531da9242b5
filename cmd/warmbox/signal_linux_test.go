package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

// TestSecondSignal has a server that was told to end wait for what does not end.
// The second signal ends it at once, and what it leaves ends by itself: an agent
// does when its stream has ended, whatever became of its server.
func TestSecondSignal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run("agent that hangs/"+sig.String(), func(t *testing.T) { secondWithoutAgent(t, sig) })
		t.Run("engine that hangs/"+sig.String(), func(t *testing.T) { secondWithoutEngine(t, sig) })
	}
}

// secondWithoutAgent stops the agent of a box, so that it cannot clean up before
// its server is gone.
func secondWithoutAgent(t *testing.T, sig syscall.Signal) {
	if ok, err := has("agent"); err != nil || !ok {
		t.Skipf("no agent: %v", err)
	}
	t.Setenv("WARMBOX_BACKEND", "process")
	t.Setenv("WARMBOX_EXEC_WHITELIST", "*")
	t.Setenv("WARMBOX_POOL_WARM", "0")
	p := serveIn(t, t.TempDir())
	r := p.call(t, "exec", map[string]any{"cmd": "setsid sleep 1000 >/dev/null 2>&1 & echo $PPID $!"})
	var pid, left int
	if _, err := fmt.Sscan(fmt.Sprint(r["stdout"]), &pid, &left); err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	agent, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Signal(syscall.SIGCONT)
	input, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	soon(t, "the agent stops", func() bool { return enginetest.Stopped(pid) })

	p.signal(t, sig)
	soon(t, "the server hangs up", func() bool { return !holds(p.cmd.Process.Pid, input) })
	p.endsAtOnceBy(t, sig)
	if !runs(pid) || !runs(left) {
		t.Error("the agent was not as slow as it should be")
	}
	agent.Signal(syscall.SIGCONT)
	soon(t, "the agent ends, and what it started", func() bool { return !runs(pid) && !runs(left) })
}

// secondWithoutEngine has a server lose its engine before it can ask for a box to
// be removed.
func secondWithoutEngine(t *testing.T, sig syscall.Signal) {
	if ok, err := has("docker"); err != nil || !ok {
		t.Skipf("no engine with the default image: %v", err)
	}
	engine, ok := strings.CutPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://")
	if !ok {
		t.Skip("the engine has no socket here")
	}
	between := valveTo(t, engine)
	state := t.TempDir()
	t.Setenv("WARMBOX_DOCKER_HOST", "unix://"+between.path)
	t.Setenv("WARMBOX_POOL_WARM", "0")
	p := serveIn(t, state)
	r := p.call(t, "exec", map[string]any{"cmd": "setsid sleep 1000 >/dev/null 2>&1 & echo up"})
	if r["stdout"] != "up\n" {
		t.Fatalf("%v", r)
	}

	between.shut()
	p.signal(t, sig)
	soon(t, "the box ends by itself", func() bool { return len(containersOf(t, p, "--all")) == 0 })
	p.endsAtOnceBy(t, sig)
	between.open()
	if out, err := sweep(state).CombinedOutput(); err != nil {
		t.Errorf("a sweep: %v: %s", err, out)
	}
	if left := containersOf(t, p, "--all"); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func (p *program) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// endsAtOnceBy sends a program that is ending a signal, and sees that it has not
// ended before and that this ends it.
func (p *program) endsAtOnceBy(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if !runs(p.cmd.Process.Pid) {
		t.Fatal("it did not wait for anything")
	}
	began := time.Now()
	p.signal(t, sig)
	soon(t, "the second signal", func() bool { return !runs(p.cmd.Process.Pid) })
	if took := time.Since(began); took > time.Second {
		t.Errorf("it went on for %v", took)
	}
	p.Close()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != sig {
		t.Errorf("it ended with %v, not by %v", p.cmd.ProcessState, sig)
	}
}

// soon waits for what takes a moment.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline, tick := time.After(patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// runs reports whether a process does, stopped or not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// holds reports whether a process has some file open.
func holds(pid int, file string) bool {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range open {
		if link, err := os.Readlink(fd); err == nil && link == file {
			return true
		}
	}
	return false
}

// containersOf lists those that a program has made and that run, or with --all
// those too that do not.
func containersOf(t *testing.T, p *program, flags ...string) []string {
	t.Helper()
	flags = append([]string{"ps", "--quiet", "--filter", fmt.Sprint("label=dev.warmbox.server-pid=", p.cmd.Process.Pid)}, flags...)
	out, err := exec.Command("docker", flags...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// A valve is a way to an engine that can be shut: what is sent then waits, as it
// does for an engine that hangs.
type valve struct {
	path string
	flow sync.RWMutex // held by who shuts it
}

func (v *valve) shut() { v.flow.Lock() }
func (v *valve) open() { v.flow.Unlock() }

func valveTo(t *testing.T, engine string) *valve {
	t.Helper()
	dir, err := os.MkdirTemp("", "valve") // whose name is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	v := &valve{path: filepath.Join(dir, "engine.sock")}
	listener, err := net.Listen("unix", v.path)
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { v.join(life, conn, engine) })
		}
	})
	t.Cleanup(func() {
		v.flow.TryLock() // be it shut or not, it is open after this
		v.flow.Unlock()
		end()
		listener.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	return v
}

// join carries what two sides say to each other until one of them ends.
func (v *valve) join(life context.Context, client net.Conn, engine string) {
	defer client.Close()
	server, err := net.Dial("unix", engine)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(life, func() { client.Close(); server.Close() })()
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		io.Copy(to, through{from, v})
		to.Close()
		from.Close()
	}
	both.Go(func() { carry(server, client) })
	both.Go(func() { carry(client, server) })
	both.Wait()
}

// through is a connection whose bytes wait while a valve is shut.
type through struct {
	net.Conn
	valve *valve
}

func (c through) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.valve.flow.RLock()
	defer c.valve.flow.RUnlock()
	return n, err
}
