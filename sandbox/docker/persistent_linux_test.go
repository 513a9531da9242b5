package docker

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// fakeAgentLauncher returns a launcher whose boxes have an agent that accepts one
// host after the other.
func fakeAgentLauncher(t *testing.T) *Launcher {
	t.Helper()
	l := newLauncher(t, Config{Transport: socketTransport})
	replaceAgent(t, l, socketTransport, "serve")
	return l
}

// launchPersistent launches a persistent box.
func launchPersistent(t *testing.T, l *Launcher, id string, wait time.Duration) *box {
	t.Helper()
	spec := sandbox.Spec{Persistent: &sandbox.Persistent{Name: "build " + id, Principal: "me", ReattachTimeout: wait}}
	stream, err := l.Launch(t.Context(), id, spec)
	if err != nil {
		t.Fatal(err)
	}
	return closeAtEnd(t, stream)
}

// closeAtEnd returns the box of a stream, and closes it at the end of the test unless
// it is detached.
func closeAtEnd(t *testing.T, stream io.ReadWriteCloser) *box {
	t.Helper()
	t.Cleanup(func() {
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	})
	return stream.(persistentBox).box
}

func reattach(t *testing.T, l *Launcher, id string) *box {
	t.Helper()
	stream, err := l.Reattach(t.Context(), sandbox.Detached{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return closeAtEnd(t, stream)
}

// askAgent asks the fake agent how many hosts it has had.
func askAgent(t *testing.T, b *box) string {
	t.Helper()
	io.WriteString(b, "!")
	line, err := bufio.NewReader(b).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func detachedIDs(t *testing.T, l *Launcher) (ids []string) {
	t.Helper()
	list, err := l.Detached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		want := sandbox.Persistent{Name: "build " + k.ID, Principal: "me", ReattachTimeout: time.Hour}
		if k.Persistent != want || time.Since(k.Started) > time.Minute {
			t.Errorf("%+v, want %+v", k, want)
		}
		ids = append(ids, k.ID)
	}
	return ids
}

func TestDetachedBoxIsReattached(t *testing.T) {
	first := fakeAgentLauncher(t)
	b := launchPersistent(t, first, "box1", time.Hour)
	if got := askAgent(t, b); got != "host 1 of process 1" {
		t.Errorf("got %q", got)
	}
	next := otherProcess(t, first)
	if got := detachedIDs(t, next); len(got) > 0 {
		t.Errorf("%v are detached, though their process lives", got)
	}
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "box1"}); err == nil || !strings.Contains(err.Error(), "another warmbox") {
		t.Errorf("a box of a living process: %v", err)
	}
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"box1"}, detachedIDs(t, next)); diff != "" {
		t.Error(diff)
	}
	if got := sweep(t, next, false); len(got) > 0 {
		t.Errorf("a sweep removes %v", got)
	}
	again := reattach(t, next, "box1")
	if got := askAgent(t, again); got != "host 2 of process 1" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(b.Place(), again.Place()); diff != "" {
		t.Error(diff)
	}
	if got := detachedIDs(t, next); len(got) > 0 {
		t.Errorf("%v are detached, though they were reattached", got)
	}
	if left, _ := filepath.Glob(filepath.Join(next.config.StateDir, "boxes", "kept", "*", "box1", "*")); len(left) > 0 {
		t.Errorf("left in the directory of the socket: %v", left)
	}
	made := anonymousVolumes(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	noLocksLeft(t, next)
	for _, name := range made {
		if _, err := again.engine.VolumeInspect(t.Context(), name); err == nil {
			t.Errorf("volume %s is left", name)
		}
	}
	if _, err := os.Stat(b.Place().Workspace); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty workspace is left: %v", err)
	}
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "box1"}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a box that has ended: %v", err)
	}
}

// noLocksLeft checks that no lock of a box or a name is left on the host.
func noLocksLeft(t *testing.T, l *Launcher) {
	t.Helper()
	left := func() []string {
		claims, _ := filepath.Glob(filepath.Join(l.config.StateDir, "boxes", "kept", "*", "*"))
		names, _ := filepath.Glob(filepath.Join(l.config.StateDir, "boxes", "names", "*"))
		return append(claims, names...)
	}
	// A box that is lost is told before its files are removed.
	for deadline := time.Now().Add(10 * time.Second); len(left()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", left())
		}
	}
}

// killProcess releases what a launcher and its persistent box hold, as the kernel
// does when their process is killed.
func killProcess(t *testing.T, l *Launcher, b *box) {
	t.Helper()
	killInstance(t, l)
	b.closeStream()
	b.monitor.stop()
	if err := errors.Join(b.lock.box.release(), b.lock.name.release()); err != nil {
		t.Fatal(err)
	}
}

// A process that is killed leaves its persistent boxes running.
func TestPersistentBoxOutlivesAKilledProcess(t *testing.T) {
	first := fakeAgentLauncher(t)
	b := launchPersistent(t, first, "box1", time.Hour)
	askAgent(t, b)
	next := otherProcess(t, first)
	for host := 2; host < 5; host++ {
		killProcess(t, first, b)
		if got := sweep(t, next, false); len(got) > 0 {
			t.Errorf("a sweep removes %v", got)
		}
		again := reattach(t, next, "box1")
		if got := askAgent(t, again); got != "host "+string(rune('0'+host))+" of process 1" {
			t.Errorf("got %q", got)
		}
		first, b, next = next, again, otherProcess(t, next)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	noLocksLeft(t, next)
}

// A sweep removes a box after its reattach timeout, with its locks. The timeout
// starts at the first check that finds the lock free.
func TestExpiredBoxIsSwept(t *testing.T) {
	first := fakeAgentLauncher(t)
	b := launchPersistent(t, first, "box1", time.Hour)
	lock := b.lock.box.path
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	next := otherProcess(t, first)
	if got := sweep(t, next, false); len(got) > 0 {
		t.Errorf("a sweep removes %v at once", got)
	}
	if alive, expired := checkLock(lock, time.Hour); alive || expired {
		t.Errorf("alive %v, expired %v", alive, expired)
	}
	if err := os.WriteFile(lock, []byte(time.Now().Add(-time.Second).Format(time.RFC3339)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := detachedIDs(t, next); len(got) > 0 {
		t.Errorf("%v are still detached", got)
	}
	next.instance.sweeps.Wait()
	sweep(t, next, false)
	if containerExists(t, b.engine, b.container) {
		t.Error("the box is still there")
	}
	noLocksLeft(t, next)
}

// A reattach that fails leaves the box as it is.
func TestFailedReattachLeavesTheBox(t *testing.T) {
	first := fakeAgentLauncher(t)
	b := launchPersistent(t, first, "box1", time.Hour)
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.lock.dir); err != nil { // a new directory is not the one that the box has
		t.Fatal(err)
	}
	next := otherProcess(t, first)
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "box1"}); err == nil {
		t.Error("a box without a socket was reattached")
	}
	if diff := cmp.Diff([]string{"box1"}, detachedIDs(t, next)); diff != "" {
		t.Error(diff)
	}
	if got := sweep(t, next, true); !cmp.Equal(got, []string{"box box1"}) {
		t.Errorf("with all, a sweep removes %v", got)
	}
	noLocksLeft(t, next)
}

// Without a free lock Detached asks no engine: here there is none.
func TestDetachedAsksNoEngineWithoutAFreeLock(t *testing.T) {
	l := New(Config{Host: "unix:///nowhere", StateDir: t.TempDir()})
	if list, err := l.Detached(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	e := &engine{}
	c, err := l.dirs.lockID(t.Context(), e, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if list, err := l.Detached(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("with a box of a living process: %v, %v", list, err)
	}
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Detached(t.Context()); !isError(err, sandbox.DockerUnavailable, "unix:///nowhere") {
		t.Errorf("with a detached box: %v", err)
	}
}

func TestPersistentNamesAreBounded(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	_, err := l.Launch(t.Context(), "box1", sandbox.Spec{Persistent: &sandbox.Persistent{Name: strings.Repeat("x", 300), ReattachTimeout: time.Hour}})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument {
		t.Errorf("got %v", err)
	}
	noLocksLeft(t, l)
}

// A host speaks the protocol with the agent of a persistent box.
type host struct {
	*wire.Reader
	t   *testing.T
	box *box
	out map[wire.ID]string
}

// greetPersistent exchanges the first frames with an agent, with a reattach timeout,
// and asks for the output of each run from its start.
func greetPersistent(t *testing.T, b *box, wait time.Duration, again bool) *host {
	t.Helper()
	h := &host{wire.NewReader(b, wire.FromAgent), t, b, map[wire.ID]string{}}
	h.say(wire.Hello, wire.ID{}, wire.HelloBody{Dir: b.place.Dir, Env: b.place.Env, PersistMillis: wait.Milliseconds(), Resume: again})
	var hello wire.HelloBody
	if err := wire.Decode(h.next(wire.Hello), &hello); err != nil {
		t.Fatal(err)
	}
	for range hello.Runs {
		f := h.next(wire.Known)
		if _, err := b.Write(wire.AppendCounts(nil, wire.Resume, f.Run, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *host) say(kind wire.Kind, run wire.ID, body any) {
	h.t.Helper()
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err == nil {
		_, err = h.box.Write(frame)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// next reads to the next frame of a kind, and records output on the way.
func (h *host) next(kind wire.Kind) wire.Frame {
	h.t.Helper()
	for {
		f, err := h.Read()
		if err != nil {
			h.t.Fatalf("while waiting for %v: %v", kind, err)
		}
		if f.Kind == wire.Stdout {
			h.out[f.Run] += string(f.Payload)
		}
		if f.Kind == kind {
			return f
		}
	}
}

// expect reads until a run has printed a text.
func (h *host) expect(run wire.ID, text string) {
	h.t.Helper()
	for h.out[run] != text {
		h.next(wire.Stdout)
	}
}

// Processes, files and output are there for the next process, whether the last one
// detached the box or was killed.
func TestReattachReplaysMissedOutput(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launchPersistent(t, l, "box1", time.Hour)
		h := greetPersistent(t, b, time.Hour, false)
		long := wire.ID{1}
		h.say(wire.Start, long, wire.StartBody{Tag: "long", Cmd: `echo $$ >/tmp/pid; echo kept >~/file; echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two; sleep 1000`})
		h.expect(long, "one\n")
		if err := (persistentBox{b}).Detach(); err != nil {
			t.Fatal(err)
		}
		next := otherProcess(t, l)
		b = reattach(t, next, "box1")
		h = greetPersistent(t, b, time.Hour, true)
		h.expect(long, "one\n")
		look := wire.ID{2}
		h.say(wire.Start, look, wire.StartBody{Tag: "look", Cmd: `cat ~/file && kill -0 $(cat /tmp/pid) && touch /tmp/go`})
		var exit wire.ExitBody
		if err := wire.Decode(h.next(wire.Exit), &exit); err != nil || exit.Code != 0 || h.out[look] != "kept\n" {
			t.Errorf("%+v, %v, printed %q", exit, err, h.out[look])
		}

		killProcess(t, next, b)
		last := otherProcess(t, next)
		b = reattach(t, last, "box1")
		h = greetPersistent(t, b, time.Hour, true)
		h.expect(long, "one\ntwo\n")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		noLocksLeft(t, last)
	})
}

// A detached box ends by itself after its timeout, and a sweep removes its locks.
func TestPersistentBoxEndsAfterItsTimeout(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) {
		b := launchPersistent(t, l, "box1", time.Hour)
		greetPersistent(t, b, 300*time.Millisecond, false)
		watch := newBox(b.engine, l.logger, b.id) // a detached box does not monitor its end
		watch.container = b.container
		if err := watch.monitor.start(t.Context(), b.container); err != nil {
			t.Fatal(err)
		}
		defer watch.monitor.stop()
		if err := (persistentBox{b}).Detach(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-watch.monitor.ended:
		case <-time.After(30 * time.Second):
			t.Fatal("it has not ended after 30 s")
		}
		next := otherProcess(t, l)
		if got := sweep(t, next, false); len(got) > 0 {
			t.Errorf("a sweep removes %v", got)
		}
		noLocksLeft(t, next)
	})
}

// While a launcher reattaches a box, commands in the box can connect to its socket,
// too.
func TestCommandsCannotReattachAsTheAgent(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	b := launchPersistent(t, l, "box1", time.Hour)
	h := greetPersistent(t, b, time.Hour, false)
	flood := wire.ID{1}
	h.say(wire.Start, flood, wire.StartBody{Tag: "flood", Cmd: `for i in 1 2 3 4 5 6 7 8; do python3 -c '` + connectLoop + `' & done; echo up; wait`})
	h.expect(flood, "up\n")
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		begun := time.Now()
		b = reattach(t, l, "box1")
		t.Logf("reattached after %v", time.Since(begun))
		greetPersistent(t, b, time.Hour, true)
		if err := (persistentBox{b}).Detach(); err != nil {
			t.Fatal(err)
		}
	}
	if err := reattach(t, l, "box1").Close(); err != nil {
		t.Error(err)
	}
}

const connectLoop = `
import socket
while True:
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect("/run/warmbox/agent.sock")
        s.send(b"\xb0\x01" + bytes(22))
        s.recv(1)
    except OSError:
        pass
    s.close()`
