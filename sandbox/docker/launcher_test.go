package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/warmbox/warmbox/sandbox"
)

// replaceAgent installs a program of the test in the place of the agent for a
// transport.
func replaceAgent(t *testing.T, l *Launcher, path, mode string) {
	t.Helper()
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	img, err := e.ImageInspect(t.Context(), DefaultImage)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "agent"), "./testdata/fakeagent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+img.Architecture)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "mode"), []byte(mode), 0o644); err != nil {
		t.Fatal(err)
	}
	l.agents.installed[agentKey(path, e, img.Architecture)] = agent{Source: dir}
}

func TestFailedSocketFallsBackToRelayAndIsRemembered(t *testing.T) {
	l := newLauncher(t, Config{})
	replaceAgent(t, l, socketTransport, "silent")
	begun := time.Now()
	b := launch(t, l, sandbox.Spec{})
	t.Logf("launched after %v", time.Since(begun))
	if got := b.Place(); got.Path != relayTransport || !got.Heartbeat {
		t.Fatalf("place %+v, want a relay with heartbeat", got)
	}
	greet(t, b)

	// The next process, with the same cache, does not try the socket.
	next := New(l.config)
	if path, sure := next.transports.choose(b.engine); path != relayTransport || !sure {
		t.Errorf("the next launcher would try %q first", path)
	}
}

func TestWorkingSocketIsRemembered(t *testing.T) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{})
	if got := b.Place(); got.Path != socketTransport || got.Heartbeat {
		t.Skipf("this engine's boxes are reached by %s", got.Path)
	}
	greet(t, b)
	l.transports.remember(b.engine, relayTransport) // by an accident
	if path, _ := New(l.config).transports.choose(b.engine); path != socketTransport {
		t.Errorf("the next launcher would try %q first", path)
	}
}

func TestOnlyPID1PassesForTheAgent(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	replaceAgent(t, l, socketTransport, "crowd")
	b := launch(t, l, sandbox.Spec{})
	io.WriteString(b, "!")
	line, err := bufio.NewReader(b).ReadString('\n')
	if err != nil || line != "process 1\n" {
		t.Errorf("the host speaks with %q, %v, want process 1", line, err)
	}
}

func TestEarlyEndReportsExitCodeAndStderr(t *testing.T) {
	for _, path := range []string{socketTransport, relayTransport} {
		t.Run(path, func(t *testing.T) {
			l := newLauncher(t, Config{Transport: path})
			replaceAgent(t, l, path, "crash")
			ended := endOf(t, l)
			if ended.ExitCode != 3 || !strings.HasPrefix(ended.Stderr, "line 11\n") || !strings.HasSuffix(ended.Stderr, "line 60") {
				t.Errorf("got exit %d, %q, want 3 and lines 11 to 60", ended.ExitCode, ended.Stderr)
			}
		})
	}
}

// endOf launches a box that ends by itself and returns its end.
func endOf(t *testing.T, l *Launcher) *sandbox.EndedError {
	t.Helper()
	stream, err := l.Launch(t.Context(), "early", sandbox.Spec{})
	if err == nil { // the relay connected before the end
		defer stream.Close()
		_, err = stream.Read(make([]byte, 1))
	}
	ended, ok := errors.AsType[*sandbox.EndedError](err)
	if !ok {
		t.Fatalf("got %v, want the end of the box", err)
	}
	return ended
}

func TestKilledBoxReportsItsExitCode(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launch(t, l, sandbox.Spec{})
		r := greet(t, b)
		if err := b.engine.ContainerKill(t.Context(), b.container, "KILL"); err != nil {
			t.Fatal(err)
		}
		_, err := r.Read()
		if ended, ok := errors.AsType[*sandbox.EndedError](err); !ok || ended.ExitCode != 137 {
			t.Errorf("got %v, want exit code 137", err)
		}
	})
}

func TestCloseIsIdempotentAndWakesReaders(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launch(t, l, sandbox.Spec{})
		read := make(chan error)
		go func() {
			_, err := b.Read(make([]byte, 1))
			read <- err
		}()
		closed := make(chan error)
		for range 3 {
			go func() { closed <- b.Close() }()
		}
		for range 3 {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v, want net.ErrClosed", err)
		}
	})
}

func TestCanceledLaunchLeavesNothing(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	replaceAgent(t, l, socketTransport, "silent")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for range time.Tick(10 * time.Millisecond) { // until its socket is there
			if left, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "warmbox", "*")); len(left) > 0 || ctx.Err() != nil {
				return
			}
		}
	}()
	if _, err := l.Launch(ctx, "canceled", sandbox.Spec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
}

func TestCommandsCannotReachTheStream(t *testing.T) {
	t.Run(socketTransport, func(t *testing.T) {
		l := newLauncher(t, Config{Transport: socketTransport})
		b := launch(t, l, sandbox.Spec{})
		r := greet(t, b)
		out, _ := sh(t, b, r, `ls -A /run/warmbox; touch /run/warmbox/agent.sock; rm -rf /run/warmbox 2>&1; cat /opt/warmbox/agent 2>/dev/null | wc -c`)
		if strings.Contains(out, "agent.sock\n") || !strings.Contains(out, "Read-only file system") || !strings.HasSuffix(out, "\n0\n") {
			t.Errorf("the socket's directory is not empty and read-only, or the agent is readable: %s", out)
		}
	})
	t.Run(relayTransport, func(t *testing.T) {
		l := newLauncher(t, Config{Transport: relayTransport})
		b := launch(t, l, sandbox.Spec{})
		r := greet(t, b)
		out, _ := sh(t, b, r, `python3 -c '`+dialAbstract+`'
			for p in /proc/[0-9]*; do
				p=${p#/proc/}
				[ "$(stat -c %u /proc/$p 2>/dev/null)" = 0 ] && [ $p != 1 ] && grep -q dial /proc/$p/cmdline || continue
				echo relay
				cat /proc/$p/environ /proc/$p/fd/0; echo x >/proc/$p/fd/1; kill -9 $p; python3 -c 'import ctypes, sys
print("ptrace", ctypes.CDLL(None).ptrace(0x4206, '$p', 0, 0))'
			done 2>&1`)
		for _, want := range []string{"ConnectionRefusedError", "relay\n", "environ: Permission denied", "fd/0: Permission denied", "fd/1: Permission denied", "Operation not permitted", "ptrace -1"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in: %s", want, out)
			}
		}
		if out, code := sh(t, b, r, "echo alive"); out != "alive\n" || code != 0 {
			t.Errorf("after the attack: %q, exit %d", out, code)
		}
	})
}

const dialAbstract = `import socket
s = socket.socket(socket.AF_UNIX)
s.connect(chr(0) + "warmbox")
print("connected, read", s.recv(1))`

// The agent listens before the relay connects. No command runs then, and one that did
// would be refused.
func TestListeningAgentRefusesOtherUsers(t *testing.T) {
	l := newLauncher(t, Config{Transport: relayTransport})
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.plan(t.Context(), e, "other-user", sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBox(e, l.logger, p.id)
	b.workspace = p.workspace
	defer b.Close()
	c, err := l.prepare(t.Context(), e, p, relayTransport, b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out string
	for tries := 0; !strings.Contains(out, "read") && tries < 50; tries++ { // the agent may not listen yet
		exec, err := e.ContainerExecCreate(t.Context(), b.container, container.ExecOptions{AttachStdout: true, AttachStderr: true, Cmd: []string{"/usr/bin/python3", "-c", dialAbstract}})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := e.upgrade(t.Context(), "/exec/"+exec.ID+"/start", nil, container.ExecStartOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(&demultiplexer{r: conn, stderr: new(sandbox.LastLines)})
		conn.Close()
		out = string(text)
	}
	if out != "connected, read b''\n" {
		t.Errorf("the agent sent another user: %q", out)
	}
	if err := b.relay(t.Context(), c.relayUser()); err != nil {
		t.Fatal(err)
	}
	greet(t, b)
}

// A relay whose exec fails because the agent does not listen yet runs another, and
// repeats what was written.
func TestRelayRetriesUntilTheAgentAnswers(t *testing.T) {
	var calls int
	heard := make(chan string, 1)
	exec := func(context.Context) (*rawConn, error) {
		ours, theirs := net.Pipe()
		calls++
		if calls < 4 {
			theirs.Close()
		} else {
			go func() {
				buf := make([]byte, 5)
				io.ReadFull(theirs, buf)
				heard <- string(buf)
				theirs.Write([]byte{1, 0, 0, 0, 0, 0, 0, 2, 0xB0, 1})
				theirs.Close()
			}()
		}
		return &rawConn{Conn: ours, r: bufio.NewReader(ours)}, nil
	}
	conn, _ := exec(t.Context())
	r := newRelay(conn, exec)
	if _, err := io.WriteString(r, "hello"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(r)
	if err != nil || string(answer) != "\xb0\x01" || <-heard != "hello" || calls != 4 {
		t.Errorf("answer %q, %v after %d execs", answer, err, calls)
	}
}

func TestUnknownUserGetsAName(t *testing.T) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{User: "4321:4322", Env: nil})
	r := greet(t, b)
	out, _ := sh(t, b, r, `id; touch ~/x "$TMPDIR/x" && stat -c %u:%g ~/x; touch /workspace/x && echo writable; rm /workspace/x; whoami`)
	want := "uid=4321(agent4321) gid=4322(agent4322) groups=4322(agent4322)\n4321:4322\nwritable\nagent4321\n"
	if out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestNamedWorkspaceIsItsOwners(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		dir := t.TempDir()
		if err := os.Chown(dir, 1234, 1235); err != nil {
			t.Skip(err)
		}
		b := launch(t, l, sandbox.Spec{Workspace: dir})
		r := greet(t, b)
		if out, code := sh(t, b, r, "id -u; id -g; echo hi >file; pwd"); out != "1234\n1235\n/workspace\n" || code != 0 {
			t.Errorf("got %q, exit %d", out, code)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "file")); string(data) != "hi\n" {
			t.Errorf("on the host: %q, %v", data, err)
		}
	})
}

func TestReadOnlyWorkspace(t *testing.T) {
	l := newLauncher(t, Config{})
	dir := t.TempDir()
	b := launch(t, l, sandbox.Spec{Workspace: dir, ReadOnly: true})
	r := greet(t, b)
	if out, code := sh(t, b, r, "touch file"); code == 0 || !strings.Contains(out, "Read-only") {
		t.Errorf("got %q, exit %d", out, code)
	}
}

func TestUsedWorkspaceOutlivesItsBox(t *testing.T) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{})
	r := greet(t, b)
	sh(t, b, r, "echo work >result")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.Place().Workspace, "result")
	if data, err := os.ReadFile(file); string(data) != "work\n" {
		t.Errorf("%q, %v", data, err)
	}
	os.RemoveAll(filepath.Dir(file))
}

// A box on an engine that does not see our files has all of it in volumes.
func TestEngineThatSeesOtherFilesGetsVolumes(t *testing.T) {
	l := newLauncher(t, Config{Transport: relayTransport})
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named=%v", named), func(t *testing.T) {
			spec := sandbox.Spec{}
			if named {
				spec.Workspace = makeFiles(t)
			}
			p, err := l.plan(t.Context(), e, "blind", spec)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(p.request.Workspace) // so the engine does not see it
			_, err = l.start(t.Context(), e, p, relayTransport)
			if !notVisible(err) {
				t.Fatalf("got %v, want that the workspace is not seen", err)
			}
			if named {
				if p.withoutHost() {
					t.Error("a named workspace was removed from the plan")
				}
				if e, ok := errors.AsType[*sandbox.Error](explainNotVisible(err, p)); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Text, spec.Workspace) {
					t.Errorf("got %v", err)
				}
				return
			}
			if !p.withoutHost() {
				t.Fatal("the box's own workspace was not removed from the plan")
			}
			b, err := l.start(t.Context(), e, p, relayTransport)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			made := anonymousVolumes(t, b)
			r := greet(t, b)
			if out, code := sh(t, b, r, "touch x && stat -c %u . && pwd"); out != "1000\n/home/agent/workspace\n" || code != 0 {
				t.Errorf("got %q, exit %d", out, code)
			}
			if len(made) != 1 {
				t.Errorf("volumes %v, want the home's", made)
			}
		})
	}
}
