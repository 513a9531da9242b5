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

// patient makes a launcher whose boxes have an agent that takes one host after
// the other.
func patient(t *testing.T) *Launcher {
	t.Helper()
	l := launcher(t, Config{Transport: socketTransport})
	swap(t, l, socketTransport, "patient")
	return l
}

// keep launches a box that is kept.
func keep(t *testing.T, l *Launcher, id string, wait time.Duration) *box {
	t.Helper()
	spec := sandbox.Spec{Persistent: &sandbox.Persistent{Name: "build " + id, Principal: "somebody", ReattachTimeout: wait}}
	stream, err := l.Launch(t.Context(), id, spec)
	if err != nil {
		t.Fatal(err)
	}
	return owned(t, stream)
}

// owned is the box of a stream, which ends with the test unless it was left.
func owned(t *testing.T, stream io.ReadWriteCloser) *box {
	t.Helper()
	t.Cleanup(func() {
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	})
	return stream.(persistentBox).box
}

func redial(t *testing.T, l *Launcher, id string) *box {
	t.Helper()
	stream, err := l.Reattach(t.Context(), sandbox.Detached{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return owned(t, stream)
}

// hear asks a patient agent which host it has.
func hear(t *testing.T, b *box) string {
	t.Helper()
	io.WriteString(b, "!")
	line, err := bufio.NewReader(b).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func kept(t *testing.T, l *Launcher) (ids []string) {
	t.Helper()
	list, err := l.Detached(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		want := sandbox.Persistent{Name: "build " + k.ID, Principal: "somebody", ReattachTimeout: time.Hour}
		if k.Persistent != want || time.Since(k.Started) > time.Minute {
			t.Errorf("%+v, want %+v", k, want)
		}
		ids = append(ids, k.ID)
	}
	return ids
}

func TestKeptBoxIsTakenOver(t *testing.T) {
	first := patient(t)
	b := keep(t, first, "kept", time.Hour)
	if got := hear(t, b); got != "host 1 of process 1" {
		t.Errorf("got %q", got)
	}
	next := neighbour(t, first)
	if got := kept(t, next); len(got) > 0 {
		t.Errorf("%v wait, though their program lives", got)
	}
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "kept"}); err == nil || !strings.Contains(err.Error(), "another warmbox") {
		t.Errorf("a box of a living program: %v", err)
	}
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kept"}, kept(t, next)); diff != "" {
		t.Error(diff)
	}
	if got := sweep(t, next, false); len(got) > 0 {
		t.Errorf("a sweep takes %v", got)
	}
	again := redial(t, next, "kept")
	if got := hear(t, again); got != "host 2 of process 1" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(b.Place(), again.Place()); diff != "" {
		t.Error(diff)
	}
	if got := kept(t, next); len(got) > 0 {
		t.Errorf("%v wait, though they were taken over", got)
	}
	if left, _ := filepath.Glob(filepath.Join(next.config.StateDir, "boxes", "kept", "*", "kept", "*")); len(left) > 0 {
		t.Errorf("somebody could still knock at %v", left)
	}
	made := anonymous(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	nothingKept(t, next)
	for _, name := range made {
		if _, err := again.engine.VolumeInspect(t.Context(), name); err == nil {
			t.Errorf("volume %s is left", name)
		}
	}
	if _, err := os.Stat(b.Place().Workspace); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the empty workspace is left: %v", err)
	}
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "kept"}); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("a box that has ended: %v", err)
	}
}

// nothingKept sees that no claim is left on the host.
func nothingKept(t *testing.T, l *Launcher) {
	t.Helper()
	claims, _ := filepath.Glob(filepath.Join(l.config.StateDir, "boxes", "kept", "*", "*"))
	names, _ := filepath.Glob(filepath.Join(l.config.StateDir, "boxes", "names", "*"))
	if left := append(claims, names...); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// killed does to a launcher and its kept box what the kernel does to a program that
// is killed: it closes what that had.
func killed(t *testing.T, l *Launcher, b *box) {
	t.Helper()
	die(t, l)
	b.closeStream()
	b.monitor.stop()
	if err := errors.Join(b.lock.box.release(), b.lock.name.release()); err != nil {
		t.Fatal(err)
	}
}

// A program that is killed leaves its kept boxes as they are.
func TestKeptBoxOutlivesItsProgram(t *testing.T) {
	first := patient(t)
	b := keep(t, first, "kept", time.Hour)
	hear(t, b)
	next := neighbour(t, first)
	for host := 2; host < 5; host++ {
		killed(t, first, b)
		if got := sweep(t, next, false); len(got) > 0 {
			t.Errorf("a sweep takes %v", got)
		}
		again := redial(t, next, "kept")
		if got := hear(t, again); got != "host "+string(rune('0'+host))+" of process 1" {
			t.Errorf("got %q", got)
		}
		first, b, next = next, again, neighbour(t, next)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	nothingKept(t, next)
}

// A box that nobody came back for goes when its time is over, and with it what
// lay beside it. That is counted from the first look that finds it alone.
func TestForsakenBoxIsSwept(t *testing.T) {
	first := patient(t)
	b := keep(t, first, "kept", time.Hour)
	lock := b.lock.box.path
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	next := neighbour(t, first)
	if got := sweep(t, next, false); len(got) > 0 {
		t.Errorf("at once %v is taken", got)
	}
	if alive, over := checkLock(lock, time.Hour); alive || over {
		t.Errorf("alive %v, over %v", alive, over)
	}
	if err := os.WriteFile(lock, []byte(time.Now().Add(-time.Second).Format(time.RFC3339)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := kept(t, next); len(got) > 0 {
		t.Errorf("%v wait still", got)
	}
	next.instance.sweeps.Wait()
	sweep(t, next, false)
	if isThere(t, b.engine, b.container) {
		t.Error("the box is still there")
	}
	nothingKept(t, next)
}

// What cannot be reached stays as it is.
func TestRedialOfASilentBox(t *testing.T) {
	first := patient(t)
	b := keep(t, first, "kept", time.Hour)
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.lock.dir); err != nil { // what is made anew is not what the box has
		t.Fatal(err)
	}
	next := neighbour(t, first)
	if _, err := next.Reattach(t.Context(), sandbox.Detached{ID: "kept"}); err == nil {
		t.Error("there is a stream to a box without a socket")
	}
	if diff := cmp.Diff([]string{"kept"}, kept(t, next)); diff != "" {
		t.Error(diff)
	}
	if got := sweep(t, next, true); !cmp.Equal(got, []string{"box kept"}) {
		t.Errorf("with all, %v is taken", got)
	}
	nothingKept(t, next)
}

// Where nobody waits no engine is asked: here there is none.
func TestNobodyIsKept(t *testing.T) {
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
		t.Errorf("with a box of a living program: %v, %v", list, err)
	}
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Detached(t.Context()); !told(err, sandbox.DockerUnavailable, "unix:///nowhere") {
		t.Errorf("with one that waits: %v", err)
	}
}

func TestKeptNamesAreBounded(t *testing.T) {
	l := launcher(t, Config{Transport: socketTransport})
	_, err := l.Launch(t.Context(), "kept", sandbox.Spec{Persistent: &sandbox.Persistent{Name: strings.Repeat("x", 300), ReattachTimeout: time.Hour}})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument {
		t.Errorf("got %v", err)
	}
	nothingKept(t, l)
}

// A host speaks the protocol with the agent of a kept box.
type host struct {
	*wire.Reader
	t   *testing.T
	box *box
	out map[wire.ID]string
}

// greetKept exchanges the first frames with an agent that waits for so long
// after its host is gone, and takes every run from the start.
func greetKept(t *testing.T, b *box, wait time.Duration, again bool) *host {
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

// next reads to the next frame of a kind, and notes what is printed meanwhile.
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

// Processes, files and what is printed are there again for the next program,
// whether the last one left the box or was killed.
func TestWorkGoesOnInAKeptBox(t *testing.T) {
	paths(t, func(t *testing.T, l *Launcher) {
		b := keep(t, l, "kept", time.Hour)
		h := greetKept(t, b, time.Hour, false)
		long := wire.ID{1}
		h.say(wire.Start, long, wire.StartBody{Tag: "long", Cmd: `echo $$ >/tmp/pid; echo kept >~/file; echo one; until [ -e /tmp/go ]; do sleep 0.02; done; echo two; sleep 1000`})
		h.expect(long, "one\n")
		if err := (persistentBox{b}).Detach(); err != nil {
			t.Fatal(err)
		}
		next := neighbour(t, l)
		b = redial(t, next, "kept")
		h = greetKept(t, b, time.Hour, true)
		h.expect(long, "one\n")
		look := wire.ID{2}
		h.say(wire.Start, look, wire.StartBody{Tag: "look", Cmd: `cat ~/file && kill -0 $(cat /tmp/pid) && touch /tmp/go`})
		var exit wire.ExitBody
		if err := wire.Decode(h.next(wire.Exit), &exit); err != nil || exit.Code != 0 || h.out[look] != "kept\n" {
			t.Errorf("%+v, %v, printed %q", exit, err, h.out[look])
		}

		killed(t, next, b)
		last := neighbour(t, next)
		b = redial(t, last, "kept")
		h = greetKept(t, b, time.Hour, true)
		h.expect(long, "one\ntwo\n")
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		nothingKept(t, last)
	})
}

// A box that nobody comes back for goes without anybody's help, and a sweep
// takes what lay beside it.
func TestKeptBoxEndsWithItsTime(t *testing.T) {
	paths(t, func(t *testing.T, l *Launcher) {
		b := keep(t, l, "kept", time.Hour)
		greetKept(t, b, 300*time.Millisecond, false)
		watch := newBox(b.engine, l.logger, b.id) // what is left knows nothing of its end
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
		next := neighbour(t, l)
		if got := sweep(t, next, false); len(got) > 0 {
			t.Errorf("%v was there to be taken", got)
		}
		nothingKept(t, next)
	})
}

// While a program waits for the agent of a kept box, commands in it can knock too.
func TestStrangersDoNotComeBackAsTheAgent(t *testing.T) {
	l := launcher(t, Config{Transport: socketTransport})
	b := keep(t, l, "kept", time.Hour)
	h := greetKept(t, b, time.Hour, false)
	crowd := wire.ID{1}
	h.say(wire.Start, crowd, wire.StartBody{Tag: "crowd", Cmd: `for i in 1 2 3 4 5 6 7 8; do python3 -c '` + knock + `' & done; echo up; wait`})
	h.expect(crowd, "up\n")
	if err := (persistentBox{b}).Detach(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		begun := time.Now()
		b = redial(t, l, "kept")
		t.Logf("back after %v", time.Since(begun))
		greetKept(t, b, time.Hour, true)
		if err := (persistentBox{b}).Detach(); err != nil {
			t.Fatal(err)
		}
	}
	if err := redial(t, l, "kept").Close(); err != nil {
		t.Error(err)
	}
}

const knock = `
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
