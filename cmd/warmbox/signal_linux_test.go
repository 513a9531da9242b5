package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

// TestSecondSignalEndsAtOnce sends a signal to a server whose agent or engine hangs, so
// that the server waits. A second signal ends the server at once. What it leaves ends
// by itself: an agent ends when its stream does.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run("agent hangs/"+sig.String(), func(t *testing.T) { agentHangs(t, sig) })
		t.Run("engine hangs/"+sig.String(), func(t *testing.T) { engineHangs(t, sig) })
	}
}

// agentHangs stops the agent of a box, so that it cannot clean up before its server
// has ended.
func agentHangs(t *testing.T, sig syscall.Signal) {
	needAgent(t)
	p := newHome(t).serve(t, append([]string{"--pool-warm", "0"}, processBackend...)...)
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
		needRoot(t, "the kernel shows the descriptors of an agent to no other user")
		t.Fatal(err)
	}
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	soon(t, "the agent is stopped", func() bool { return enginetest.Stopped(pid) })

	p.signal(t, sig)
	soon(t, "the server closes its end of the stream", func() bool { return !holds(p.cmd.Process.Pid, input) })
	p.endsAtOnceBy(t, sig)
	if !runs(pid) || !runs(left) {
		t.Error("the agent ended while it was stopped")
	}
	agent.Signal(syscall.SIGCONT)
	soon(t, "the agent and what it started end", func() bool { return !runs(pid) && !runs(left) })
}

// engineHangs shuts the way to the engine, so that the server cannot have its box
// removed.
func engineHangs(t *testing.T, sig syscall.Signal) {
	needDocker(t)
	engine, ok := strings.CutPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock"), "unix://")
	if !ok {
		t.Skip("the engine has no Unix socket")
	}
	between := valveTo(t, engine)
	h := newHome(t)
	p := h.serve(t, "--docker-host", "unix://"+between.path, "--pool-warm", "0")
	r := p.call(t, "exec", map[string]any{"cmd": "setsid sleep 1000 >/dev/null 2>&1 & echo up"})
	if r["stdout"] != "up\n" {
		t.Fatalf("%v", r)
	}

	between.shut()
	p.signal(t, sig)
	soon(t, "the box ends by itself", func() bool { return len(containersOf(t, p, "--all")) == 0 })
	p.endsAtOnceBy(t, sig)
	between.open()
	if out, err := h.sweep(t).CombinedOutput(); err != nil {
		t.Errorf("a sweep: %v: %s", err, out)
	}
	if left := containersOf(t, p, "--all"); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
}

func (p *program) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// endsAtOnceBy sends a signal to a program that is ending, and checks that the program
// has not ended before and that the signal ends it.
func (p *program) endsAtOnceBy(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if !runs(p.cmd.Process.Pid) {
		t.Fatal("the server ended before the second signal")
	}
	began := time.Now()
	p.signal(t, sig)
	soon(t, "the second signal ends the server", func() bool { return !runs(p.cmd.Process.Pid) })
	if took := time.Since(began); took > time.Second {
		t.Errorf("the server took %v to end", took)
	}
	p.Close()
	if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != sig {
		t.Errorf("the server ended with %v, want %v", p.cmd.ProcessState, sig)
	}
}

// runs reports whether a process exists and has not ended. A stopped process runs.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// holds reports whether a process has a file open.
func holds(pid int, file string) bool {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range open {
		if link, err := os.Readlink(fd); err == nil && link == file {
			return true
		}
	}
	return false
}

// A valve is a proxy of an engine's socket that can be shut. What is sent then waits,
// as for an engine that hangs.
type valve struct {
	path string
	flow sync.RWMutex // locked while the valve is shut
}

func (v *valve) shut() { v.flow.Lock() }
func (v *valve) open() { v.flow.Unlock() }

func valveTo(t *testing.T, engine string) *valve {
	t.Helper()
	h := newHome(t)
	v := &valve{path: filepath.Join(h.dir, "engine.sock")}
	listener, err := net.Listen("unix", v.path)
	if err := errors.Join(err, h.own(v.path)); err != nil {
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
		v.flow.TryLock() // opens the valve, whether it is shut or not
		v.flow.Unlock()
		end()
		listener.Close()
		all.Wait()
	})
	return v
}

// join copies between a client and the engine until one of them closes.
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

// through is a connection whose bytes wait while its valve is shut.
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
