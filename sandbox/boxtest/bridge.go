package boxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// testBridge checks runs whose output goes to writers of the caller.
func testBridge(t *testing.T, s *suite) {
	t.Run("both streams", func(t *testing.T) {
		var out, errs bytes.Buffer
		r := bridge(t, s.box, sandbox.Command{Cmd: `printf 'o\0\377'; printf 'e\0\376' >&2; exit 3`, Stdout: &out, Stderr: &errs})
		if r.Status != sandbox.Exited || r.Code != 3 || out.String() != "o\x00\xff" || errs.String() != "e\x00\xfe" {
			t.Errorf("%+v, %q, %q", r, out.String(), errs.String())
		}
	})
	t.Run("nothing is stored", func(t *testing.T) {
		run := start(t, s.box, sandbox.Command{Cmd: "echo x", Stdout: io.Discard, Stderr: io.Discard})
		<-run.Over()
		record, err := s.manager.Record(sandbox.Owner{Principal: "boxtest"}, run.ID)
		if err != nil || record.LogPath != "" || record.Log.Complete || record.Log.Reason == "" {
			t.Errorf("%+v, %v", record, err)
		}
	})
	t.Run("byte for byte", func(t *testing.T) { testBridgeBulk(t, s) })
	t.Run("a slow reader", func(t *testing.T) { testSlowReader(t, s) })
	t.Run("a killed program's reader", func(t *testing.T) { testKilledUnread(t, s) })
	t.Run("what the pipe holds at the end", func(t *testing.T) { testBridgeEnd(t, s) })
	t.Run("a closed reader", func(t *testing.T) { testClosedReader(t, s) })
	t.Run("one writer", func(t *testing.T) {
		_, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: "true", Stdout: io.Discard})
		wantError(t, err, sandbox.InvalidArgument, "a writer each")
	})
	t.Run("with a terminal", func(t *testing.T) {
		_, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: "true", Stdout: io.Discard, Stderr: io.Discard, TTY: &sandbox.Size{Cols: 80, Rows: 24}})
		wantError(t, err, sandbox.InvalidArgument, "neither a terminal")
	})
}

// bridge runs a command to its end, and until its writers have everything.
func bridge(t testing.TB, box *sandbox.Box, c sandbox.Command) sandbox.Exit {
	t.Helper()
	return bridged(t, start(t, box, c))
}

func bridged(t testing.TB, run *sandbox.Run) sandbox.Exit {
	t.Helper()
	exit := wait(t, run).Exit
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := run.Delivered(ctx); err != nil {
		t.Fatal(err)
	}
	return exit
}

// testBridgeBulk sends much through a program, in both directions at once.
func testBridgeBulk(t *testing.T, s *suite) {
	size := weekly.Or[int64](8<<20, 1<<30)
	if s.isolated && !weekly.On() {
		size = 64 << 20
	}
	sent, got := sha256.New(), &hashed{Hash: sha256.New()}
	in := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{2}), size), sent)
	began := time.Now()
	r := bridge(t, s.box, sandbox.Command{Cmd: "cat", Stdin: in, Stdout: got, Stderr: io.Discard})
	t.Logf("%d bytes each way in %v", size, time.Since(began))
	if r.Code != 0 || got.size != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%+v; %d bytes of %d came back, and they differ: %v", r, got.size, size, !bytes.Equal(sent.Sum(nil), got.Sum(nil)))
	}
}

type hashed struct {
	hash.Hash
	size int64
}

func (h *hashed) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	return h.Hash.Write(p)
}

// A gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}

	mu   sync.Mutex
	text []byte
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.text = append(g.text, p...)
	return len(p), nil
}

func (g *gate) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.text)
}

// A reader of stdout that does not read blocks neither the program's stderr, nor other
// commands, nor the agent. All of it comes when it reads.
func testSlowReader(t *testing.T, s *suite) {
	const size = 20 << 20
	out, errs := newGate(), newGate()
	close(errs.open)
	run := start(t, s.box, sandbox.Command{Cmd: "head -c 20971520 /dev/zero & for i in $(seq 1000); do echo error-$i >&2; done; wait", Stdout: out, Stderr: errs})
	eventually(t, "stderr beside a stdout that is not read", func() bool {
		errs.mu.Lock()
		defer errs.mu.Unlock()
		return bytes.HasSuffix(errs.text, []byte("error-1000\n"))
	})
	for range 3 {
		want(t, sh(t, s.box, "echo through"), 0, "through\n")
	}
	if run.Exit().Status != sandbox.Running {
		t.Errorf("%+v; the program has printed more than any window holds, unread", run.Exit())
	}
	close(out.open)
	if r := bridged(t, run); r.Code != 0 || out.size() != size {
		t.Errorf("%+v, %d bytes of %d", r, out.size(), size)
	}
}

// A killed program ends although what it printed has no reader.
func testKilledUnread(t *testing.T, s *suite) {
	out := newGate()
	defer close(out.open)
	run := start(t, s.box, sandbox.Command{Cmd: "trap '' TERM; echo up >&2; cat /dev/zero", Stdout: out, Stderr: io.Discard})
	run.Kill()
	if r := wait(t, run); r.Status != sandbox.Killed {
		t.Errorf("%+v", r.Exit)
	}
	if err := s.box.Gone(); err != nil {
		t.Fatal(err)
	}
	want(t, sh(t, s.box, "echo through"), 0, "through\n")
}

// What a program printed just before its end is delivered, also what exceeded the window
// then and was in the pipe.
func testBridgeEnd(t *testing.T, s *suite) {
	const size = 4<<20 + 60<<10
	out := newGate()
	run := start(t, s.box, sandbox.Command{Cmd: "head -c 4255744 /dev/zero; echo $$ >&2; sleep 1000 <&- >&- 2>&- & exit 4", Stdout: out, Stderr: io.Discard})
	want(t, sh(t, s.box, "echo through"), 0, "through\n")
	close(out.open)
	if r := bridged(t, run); r.Code != 4 || out.size() != size || len(r.Leftover) != 1 {
		t.Errorf("%+v, %d bytes of %d", r, out.size(), size)
	}
	run.Kill()
	<-run.Over()
}

// A program whose reader is gone writes to a closed pipe. Its other stream goes on.
func testClosedReader(t *testing.T, s *suite) {
	var errs bytes.Buffer
	r := bridgeClosed(t, s.box, sandbox.Command{Cmd: "trap '' PIPE; while echo x; do :; done; echo the end >&2; exit 5", Stdout: closed{}, Stderr: &errs})
	if r.Code != 5 || !strings.HasSuffix(errs.String(), "the end\n") {
		t.Errorf("%+v, %q", r, errs.String())
	}
	if r := bridgeClosed(t, s.box, sandbox.Command{Cmd: "exec cat /dev/zero", Stdout: closed{}, Stderr: closed{}}); r.Signal != "SIGPIPE" {
		t.Errorf("%+v", r)
	}
}

func bridgeClosed(t testing.TB, box *sandbox.Box, c sandbox.Command) sandbox.Exit {
	t.Helper()
	run := start(t, box, c)
	select {
	case <-run.Unread(sandbox.Stdout):
	case <-time.After(waitLimit):
		t.Fatal("the failed writer is not reported")
	}
	exit := wait(t, run).Exit
	if err := run.Delivered(t.Context()); !errors.Is(err, errClosedReader) {
		t.Errorf("delivered: %v", err)
	}
	return exit
}

var errClosedReader = errors.New("the reader is gone")

// closed is a writer whose reader is gone.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosedReader }
