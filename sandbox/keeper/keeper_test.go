package keeper_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/keeper"
	"github.com/warmbox/warmbox/sandbox/policy"
	"github.com/warmbox/warmbox/sandbox/wire"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

// waitLimit bounds everything that a test waits for.
const waitLimit = 60 * time.Second

// A kept is a box with its keeper.
type kept struct {
	t      *testing.T
	box    *sandbox.Box
	socket string
	ended  chan struct{} // closed when the keeper has ended
	stop   func()        // ends the keeper
}

func keep(t *testing.T, linger time.Duration, change func(*sandbox.Manager)) *kept {
	t.Helper()
	k := &kept{t: t, socket: filepath.Join(t.TempDir(), strings.Repeat("long-", 20), "s")}
	if err := os.Mkdir(filepath.Dir(k.socket), 0o700); err != nil {
		t.Fatal(err)
	}
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	if change != nil {
		change(m)
	}
	box, _, err := m.Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	k.box = box
	k.serve(linger)
	return k
}

// serve starts a keeper, which ends with the test.
func (k *kept) serve(linger time.Duration) {
	k.t.Helper()
	door, err := keeper.Acquire(k.t.Context(), k.socket)
	if err != nil {
		k.t.Fatal(err)
	}
	l, err := door.Listen()
	if err != nil {
		k.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	k.ended, k.stop = ended, cancel
	server := &keeper.Keeper{Box: k.box, Settings: settings, Linger: linger, Logger: slog.New(slog.NewTextHandler(k.t.Output(), nil))}
	go func() {
		defer close(ended)
		defer door.Release()
		server.Serve(ctx, l)
	}()
	k.t.Cleanup(func() { cancel(); <-ended })
}

var settings = map[string]string{"image": "a", keeper.Variable + "KEY": "x"}

// client returns the box as one of its clients has it.
func (k *kept) client(wants map[string]string, start func(context.Context, func(string)) error) (*sandbox.Box, error) {
	k.t.Helper()
	if start == nil {
		start = func(context.Context, func(string)) error { return errors.New("no keeper") }
	}
	m := boxtest.Manager(k.t, &keeper.Client{Socket: k.socket, Settings: wants, Start: start}, sandbox.Spec{})
	return m.DefaultBox(k.t.Context(), sandbox.Owner{}, nil)
}

func (k *kept) mustClient() *sandbox.Box {
	k.t.Helper()
	box, err := k.client(settings, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return box
}

func start(t *testing.T, box *sandbox.Box, c sandbox.Command) *sandbox.Run {
	t.Helper()
	run, err := box.Exec(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func wait(t *testing.T, run *sandbox.Run) sandbox.Exit {
	t.Helper()
	select {
	case <-run.Done():
	case <-time.After(waitLimit):
		t.Fatalf("%s did not end", run.Command.Cmd)
	}
	run.Delivered(t.Context())
	return run.Exit()
}

// A lineWriter reports the lines that it gets.
type lineWriter struct {
	mu   sync.Mutex
	text bytes.Buffer
	line chan string
}

func newLines() *lineWriter { return &lineWriter{line: make(chan string, 100)} }

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	for {
		line, err := w.text.ReadString('\n')
		if err != nil {
			w.text.WriteString(line)
			return len(p), nil
		}
		w.line <- strings.TrimSuffix(line, "\n")
	}
}

func (w *lineWriter) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-w.line:
		return line
	case <-time.After(waitLimit):
		t.Fatal("no line came")
		return ""
	}
}

// Programs of several clients run side by side in one box. One that goes takes its own
// program with it, and no other.
func TestClientsShareABox(t *testing.T) {
	k := keep(t, time.Minute, nil)
	one, two := k.mustClient(), k.mustClient()
	in, feed := io.Pipe()
	defer feed.Close()
	out, goes := newLines(), newLines()
	stays := start(t, one, sandbox.Command{Cmd: "echo up; read line; echo got $line; exit 7", Stdin: in, Stdout: out, Stderr: io.Discard})
	ends := start(t, two, sandbox.Command{Cmd: "echo $$; sleep 1000 & wait", Stdin: strings.NewReader(""), Stdout: goes, Stderr: io.Discard})
	out.next(t)
	pid := goes.next(t)
	two.Close()
	if e := wait(t, ends); e.Status != sandbox.Killed {
		t.Errorf("%+v", e)
	}
	probe := k.mustClient()
	for deadline := time.Now().Add(waitLimit); ; {
		e := wait(t, start(t, probe, sandbox.Command{Cmd: "kill -0 " + pid + " || exit 9", Stdout: io.Discard, Stderr: io.Discard}))
		if e.Code == 9 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the program of a client that is gone goes on")
		}
	}
	io.WriteString(feed, "words\n")
	if line := out.next(t); line != "got words" {
		t.Errorf("%q", line)
	}
	if e := wait(t, stays); e.Code != 7 {
		t.Errorf("%+v", e)
	}
	if k.box.Gone() != nil {
		t.Error("the box ended with a client")
	}
}

// What goes through a keeper is the same, byte for byte, and blocks as a pipe does.
func TestBytesThroughAKeeper(t *testing.T) {
	k := keep(t, time.Minute, nil)
	box := k.mustClient()
	text := bytes.Repeat([]byte("0123456789\x00\xff\n"), 1<<18)
	var out, errs bytes.Buffer
	e := wait(t, start(t, box, sandbox.Command{Cmd: `cat; printf 'e\377' >&2; kill -9 $$`, Stdin: bytes.NewReader(text), Stdout: &out, Stderr: &errs}))
	if e.Signal != "SIGKILL" || !bytes.Equal(out.Bytes(), text) || errs.String() != "e\xff" {
		t.Errorf("%+v; %d bytes of %d came back, stderr %q", e, out.Len(), len(text), errs.String())
	}
	e = wait(t, start(t, box, sandbox.Command{Cmd: "exec cat /dev/zero", Stdout: closed{}, Stderr: io.Discard}))
	if e.Signal != "SIGPIPE" {
		t.Errorf("a program whose reader is gone: %+v", e)
	}
	lines := newLines()
	run := start(t, box, sandbox.Command{Cmd: `trap 'exit 5' USR1; echo up; while :; do sleep 0.01; done`, Stdout: lines, Stderr: io.Discard})
	lines.next(t)
	run.Signal("USR1")
	if e := wait(t, run); e.Code != 5 {
		t.Errorf("after SIGUSR1: %+v", e)
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A client that wants another box than the one that is there is told the difference, but
// no value of a variable.
func TestOtherSettingsAreRefused(t *testing.T) {
	k := keep(t, time.Minute, nil)
	_, err := k.client(map[string]string{"image": "b", keeper.Variable + "KEY": "hunter2"}, nil)
	if err == nil || !strings.Contains(err.Error(), `image is "a" there and "b" here`) || !strings.Contains(err.Error(), "the value of the variable KEY") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// What the box refuses is told to the client in its words.
func TestRefusalsReachTheClient(t *testing.T) {
	k := keep(t, time.Minute, func(m *sandbox.Manager) {
		m.Commands = policy.Commands{Allow: []string{"ls"}}
	})
	box := k.mustClient()
	for cmd, want := range map[string]string{"cat /etc/passwd": "cat", "ls": "no such file or directory"} {
		c := sandbox.Command{Cmd: cmd, Stdout: io.Discard, Stderr: io.Discard}
		if cmd == "ls" {
			c.Dir = "/nowhere"
		}
		e := wait(t, start(t, box, c))
		told, ok := errors.AsType[*sandbox.Error](e.Err)
		if !ok || !strings.Contains(told.Text, want) {
			t.Errorf("%s: %+v", cmd, e)
		}
	}
}

// A client that breaks the protocol loses its connection, and nothing else.
func TestViolationLosesTheClientOnly(t *testing.T) {
	k := keep(t, time.Minute, nil)
	good := k.mustClient()
	run := wire.ID{1}
	greeting, err := json.Marshal(map[string]any{"settings": settings})
	if err != nil {
		t.Fatal(err)
	}
	hello := wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`))
	begin := wire.Append(bytes.Clone(hello), wire.Start, run, []byte(`{"cmd":"sleep 1000","window":65536,"stdin":true}`))
	for name, stream := range map[string][]byte{
		"no hello":   wire.Append(nil, wire.Ping, wire.ID{}, nil),
		"no window":  wire.Append(bytes.Clone(hello), wire.Start, run, []byte(`{"cmd":"true"}`)),
		"twice":      wire.Append(bytes.Clone(begin), wire.Start, run, []byte(`{"cmd":"true","window":65536}`)),
		"persistent": wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{"keepMillis":1000}`)),
		// More than the box takes of a program that reads nothing.
		"too much input":   append(bytes.Clone(begin), bytes.Repeat(wire.Append(nil, wire.Stdin, run, make([]byte, wire.MaxPayload)), 100)...),
		"taken too much":   wire.AppendTaken(bytes.Clone(begin), run, [2]uint32{1, 0}),
		"signal 9":         wire.Append(bytes.Clone(begin), wire.Signal, run, []byte(`{"signal":9}`)),
		"look":             wire.Append(bytes.Clone(hello), wire.Look, wire.ID{}, []byte(`{}`)),
		"the other side's": wire.Append(bytes.Clone(hello), wire.Exit, run, []byte(`{}`)),
	} {
		t.Run(name, func(t *testing.T) {
			conn := k.dial()
			defer conn.Close()
			conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(greeting))), greeting...))
			go conn.Write(stream)
			conn.SetDeadline(time.Now().Add(waitLimit))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
	if e := wait(t, start(t, good, sandbox.Command{Cmd: "exit 3", Stdout: io.Discard, Stderr: io.Discard})); e.Code != 3 {
		t.Errorf("another client: %+v", e)
	}
}

func (k *kept) dial() net.Conn {
	k.t.Helper()
	dir, err := os.Open(filepath.Dir(k.socket))
	if err != nil {
		k.t.Fatal(err)
	}
	defer dir.Close()
	k.t.Chdir(filepath.Dir(k.socket)) // the path is longer than that of a socket may be
	conn, err := net.Dial("unix", "s")
	if err != nil {
		k.t.Fatal(err)
	}
	return conn
}

// Of several keepers that start at once one serves, and the others say so.
func TestOneKeeperServes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // as a killed keeper leaves its socket
		t.Fatal(err)
	}
	const n = 8
	results := make(chan error, n)
	serve := make(chan net.Listener, n)
	for range n {
		go func() {
			door, err := keeper.Acquire(t.Context(), socket)
			if err == nil {
				var l net.Listener
				if l, err = door.Listen(); err == nil {
					serve <- l
				}
			}
			results <- err
		}()
	}
	defer func() { (<-serve).Close() }()
	served := 0
	for range n {
		switch err := <-results; err {
		case nil:
			served++
		case keeper.ErrServed:
		default:
			t.Error(err)
		}
	}
	if served != 1 {
		t.Errorf("%d keepers serve", served)
	}
}

// A keeper ends when it has had no client for a time. A client that comes just then starts
// the next one.
func TestClientOfAnEndingKeeperStartsTheNext(t *testing.T) {
	k := keep(t, time.Millisecond, nil)
	<-k.ended
	started := 0
	box, err := k.client(settings, func(context.Context, func(string)) error {
		started++
		k.serve(time.Minute)
		return nil
	})
	if err != nil || started != 1 {
		t.Fatalf("%v, %d keepers started", err, started)
	}
	if e := wait(t, start(t, box, sandbox.Command{Cmd: "exit 4", Stdout: io.Discard, Stderr: io.Discard})); e.Code != 4 {
		t.Errorf("%+v", e)
	}
}

// Clients that come while keepers end all the time are all served.
func TestClientsAlwaysFindAKeeper(t *testing.T) {
	k := keep(t, time.Millisecond, nil)
	var mu sync.Mutex
	next := func(context.Context, func(string)) error {
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-k.ended:
			k.serve(time.Millisecond)
		default: // another client has started one
		}
		return nil
	}
	for range 20 {
		box, err := k.client(settings, next)
		if err != nil {
			t.Fatal(err)
		}
		if e := wait(t, start(t, box, sandbox.Command{Cmd: "exit 4", Stdout: io.Discard, Stderr: io.Discard})); e.Code != 4 {
			t.Fatalf("%+v", e)
		}
		box.Close()
	}
}

// A client whose box or keeper is gone is told which of them it was, by names that other
// programs know.
func TestClientKnowsWhatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*kept)
		want string
	}{
		"box":    {func(k *kept) { killProcess(k.t, k.box.Pid) }, "box BOX ended"},
		"keeper": {func(k *kept) { k.stop() }, "the warmbox process PID, which held box BOX, hung up while the command ran"},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, time.Minute, nil)
			box := k.mustClient()
			r, w := io.Pipe()
			run := start(t, box, sandbox.Command{Cmd: "echo here; exec sleep 1000", Stdout: w, Stderr: io.Discard})
			if _, err := io.ReadFull(r, make([]byte, 5)); err != nil {
				t.Fatal(err)
			}
			c.end(k)
			e := wait(t, run)
			want := strings.NewReplacer("BOX", k.box.ID, "PID", strconv.Itoa(os.Getpid())).Replace(c.want)
			if e.Status != sandbox.Lost || e.Err == nil || !strings.HasPrefix(e.Err.Error(), want) {
				t.Errorf("%+v, want %q", e, want)
			}
		})
	}
}

func killProcess(t *testing.T, pid int) {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Error(err)
	}
}
