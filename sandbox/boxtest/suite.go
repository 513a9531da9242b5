package boxtest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// waitLimit bounds everything that a test waits for. It is no promise about speed:
// machines are slow under the race detector.
const waitLimit = 60 * time.Second

// suite is one launcher under test.
type suite struct {
	manager  *sandbox.Manager
	isolated bool
	box      *sandbox.Box // shared by the tests that leave it usable
}

// Run checks that the boxes of a Launcher behave as boxes must. spec is what they are
// started with; most fields may be zero.
func Run(t *testing.T, launcher sandbox.Launcher, spec sandbox.Spec) {
	s := &suite{manager: Manager(t, launcher, spec)}
	if i, ok := launcher.(sandbox.Isolator); ok {
		s.isolated = i.Isolates()
	}
	s.box = s.newBox(t)
	for name, test := range map[string]func(*testing.T, *suite){
		"output": testOutput, "exit": testExit, "input": testInput, "bridge": testBridge, "start": testStart, "trees": testTrees, "many": testMany,
		"terminal": testTerminal, "live": testLive, "shells": testShells, "paths": testPaths,
		"shims": testShims,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	if s.isolated {
		t.Run("attacks", func(t *testing.T) { testAttacks(t, s) })
	}
	t.Run("life", func(t *testing.T) { testLife(t, s) })
}

// Manager returns a Manager whose boxes and logs are removed with the test.
func Manager(t testing.TB, launcher sandbox.Launcher, spec sandbox.Spec) *sandbox.Manager {
	store := &rawlog.Store{Dir: t.TempDir(), MaxRun: 256 << 20}
	if err := store.Check(); err != nil {
		t.Fatal(err)
	}
	m := &sandbox.Manager{Launcher: launcher, Logs: store, Defaults: spec, MaxBoxes: 32, Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil))}
	t.Cleanup(m.Close)
	return m
}

// testWriter writes what a Manager logs to the log of its test.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (s *suite) newBox(t testing.TB) *sandbox.Box {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	box, _, err := s.manager.Start(ctx, sandbox.Owner{Principal: "boxtest"}, sandbox.Request{})
	if err != nil {
		t.Fatalf("start a box: %v", err)
	}
	return box
}

// result is all that a run reports.
type result struct {
	sandbox.Exit
	stdout, stderr string
	run            *sandbox.Run
}

// start starts a command and fails the test if it does not start.
func start(t testing.TB, box *sandbox.Box, c sandbox.Command) *sandbox.Run {
	t.Helper()
	run, err := box.Exec(t.Context(), c)
	if err != nil {
		t.Fatalf("exec %.100q: %v", c.Cmd, err)
	}
	return run
}

// wait waits for the end of a run.
func wait(t testing.TB, run *sandbox.Run) result {
	t.Helper()
	select {
	case <-run.Done():
	case <-time.After(waitLimit):
		out, errs := run.Output(everything)
		t.Fatalf("%.100q did not end within %v; it printed %.500q and %.500q", run.Command.Cmd, waitLimit, out.Text, errs.Text)
	}
	out, errs := run.Output(everything)
	return result{Exit: run.Exit(), stdout: out.Text, stderr: errs.Text, run: run}
}

var everything = excerpt.Limits{Whole: 1 << 20, Cut: 1 << 20}

func do(t testing.TB, box *sandbox.Box, c sandbox.Command) result {
	t.Helper()
	return wait(t, start(t, box, c))
}

func sh(t testing.TB, box *sandbox.Box, cmd string) result {
	t.Helper()
	return do(t, box, sandbox.Command{Cmd: cmd})
}

// want checks the exit code and standard output of a command.
func want(t testing.TB, r result, code int, stdout string) {
	t.Helper()
	if r.Status != sandbox.Exited || r.Code != code || r.stdout != stdout {
		t.Errorf("%.100q: %s, exit %d, %q (stderr %q, err %v); want exit %d, %q", r.run.Command.Cmd, r.Status, r.Code, r.stdout, r.stderr, r.Err, code, stdout)
	}
}

// wantError checks the code of an error, and that its text contains words.
func wantError(t testing.TB, err error, code, words string) {
	t.Helper()
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != code || !strings.Contains(e.Text, words) {
		t.Errorf("%v; want %s and %q", err, code, words)
	}
}

// logged returns the raw bytes of a run's log so far.
func logged(t testing.TB, run *sandbox.Run) []byte {
	t.Helper()
	text, err := os.ReadFile(run.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// eventually polls until a condition is true, with a deadline.
func eventually(t testing.TB, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for: %s", waitLimit, what)
		}
	}
}

// printed waits until a run has printed text.
func printed(t testing.TB, run *sandbox.Run, text string) {
	t.Helper()
	eventually(t, "the output "+text, func() bool {
		return bytes.Contains(logged(t, run), []byte(text))
	})
}

// Expect runs a command in a box and checks its exit code and standard output.
func Expect(t testing.TB, box *sandbox.Box, cmd string, code int, stdout string) {
	t.Helper()
	want(t, sh(t, box, cmd), code, stdout)
}
