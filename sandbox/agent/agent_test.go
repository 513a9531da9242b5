//go:build linux

package agent_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/agent"
	"github.com/warmbox/warmbox/sandbox/boxtest/isolate"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// agentEnv is the variable that makes the test program an agent.
const agentEnv = "WARMBOX_TEST_AGENT"

func TestMain(m *testing.M) {
	if way := os.Getenv(execEnv); way != "" {
		executeOddly(way)
	}
	if os.Getenv(agentEnv) != "" {
		os.Unsetenv(agentEnv)
		os.Exit(agent.Main(os.Args[1:]))
	}
	isolate.Process()
	code := m.Run()
	removeBuiltAgent()
	os.Exit(code)
}

// host is the host of an agent at the level of frames, so that it can also send what a
// sandbox never would.
type host struct {
	t      testing.TB
	in     io.WriteCloser
	r      *wire.Reader
	cmd    *exec.Cmd
	last   uint16 // the beginning of the last run's id
	stderr string // standard error of the last run
}

// start starts an agent and exchanges Hellos.
func start(t testing.TB, env ...string) *host {
	t.Helper()
	h := launch(t)
	h.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Dir: t.TempDir(), Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...)})
	if f, err := h.r.Read(); err != nil || f.Kind != wire.Hello {
		t.Fatalf("%v, %v", f.Kind, err)
	}
	return h
}

// launch starts an agent that waits for the host's Hello.
func launch(t testing.TB) *host { return launchTo(t, os.Stderr) }

// launchTo is launch with the agent's standard error written to stderr.
func launchTo(t testing.TB, stderr io.Writer) *host {
	t.Helper()
	return launchProgram(t, "/proc/self/exe", stderr)
}

// launchProgram is launchTo with the agent's program: this one, or another build.
func launchProgram(t testing.TB, program string, stderr io.Writer) *host {
	t.Helper()
	h := &host{t: t, cmd: exec.Command(program, "serve", "--stdio")}
	h.cmd.Env = append(os.Environ(), agentEnv+"=1")
	h.cmd.Stderr = stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.in, h.r = in, wire.NewReader(out, wire.FromAgent)
	// Ends a test that hangs. The longest one takes a minute on a busy machine.
	stuck := time.AfterFunc(5*time.Minute, func() { h.cmd.Process.Kill() })
	t.Cleanup(func() {
		in.Close()
		h.cmd.Wait()
		stuck.Stop()
	})
	return h
}

func (h *host) sendJSON(kind wire.Kind, run wire.ID, body any) {
	h.t.Helper()
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.in.Write(frame)
}

func (h *host) input(run wire.ID, text string) {
	h.in.Write(wire.Append(nil, wire.Stdin, run, []byte(text)))
}

func (h *host) run(body wire.StartBody) wire.ID {
	h.t.Helper()
	h.last++
	id := wire.ID{byte(h.last), byte(h.last >> 8)}
	h.stderr = ""
	h.sendJSON(wire.Start, id, body)
	return id
}

// until reads until a run has printed text, or until its Exit if text is "". It returns
// the output.
func (h *host) until(run wire.ID, text string) (out string, exit wire.ExitBody) {
	h.t.Helper()
	for {
		f, err := h.r.Read()
		if err != nil {
			h.t.Fatalf("%v after %q", err, out)
		}
		switch f.Kind {
		case wire.Refused:
			h.t.Fatalf("refused: %s", f.Payload)
		case wire.Stdout:
			out += string(f.Payload)
		case wire.Stderr:
			h.stderr += string(f.Payload)
		case wire.Exit:
			if err := wire.Decode(f, &exit); err != nil {
				h.t.Fatal(err)
			}
			if text != "" {
				h.t.Fatalf("the run ended with %+v after %q, before %q", exit, out, text)
			}
			return out, exit
		}
		if text != "" && strings.Contains(out, text) {
			return out, exit
		}
	}
}

// do runs a command in a named shell to its end.
func (h *host) do(shell, cmd string) (string, wire.ExitBody) {
	h.t.Helper()
	return h.until(h.run(wire.StartBody{Cmd: cmd, Shell: shell}), "")
}

// wantFailure reads to the end of the stream and checks that the agent ends with an error.
func (h *host) wantFailure() {
	h.t.Helper()
	drained(h.r)
	if err := h.cmd.Wait(); err == nil {
		h.t.Error("the agent ended without an error")
	}
}

// drained reads to the end of a stream, at most 20 s, and returns the last frame.
func drained(r *wire.Reader) (last wire.Frame, err error) {
	for deadline := time.Now().Add(20 * time.Second); err == nil && time.Now().Before(deadline); {
		var f wire.Frame
		if f, err = r.Read(); err == nil {
			last = f
		}
	}
	return last, err
}

var size = &wire.Size{Cols: 80, Rows: 24}

// A frame that no host may send ends the agent.
func TestViolationEndsTheAgent(t *testing.T) {
	plain := wire.StartBody{Cmd: "sleep 1000"}
	for name, violate := range map[string]func(h *host){
		"signal 9":           func(h *host) { h.sendJSON(wire.Signal, h.run(plain), wire.SignalBody{Signal: 9}) },
		"signal -1":          func(h *host) { h.sendJSON(wire.Signal, h.run(plain), wire.SignalBody{Signal: -1}) },
		"resize no terminal": func(h *host) { h.sendJSON(wire.Resize, h.run(plain), size) },
		"resize to nothing": func(h *host) {
			h.sendJSON(wire.Resize, h.run(wire.StartBody{Cmd: "sleep 1000", TTY: size}), wire.Size{})
		},
		"end of a terminal": func(h *host) {
			h.in.Write(wire.Append(nil, wire.StdinClose, h.run(wire.StartBody{Cmd: "sleep 1000", TTY: size}), nil))
		},
		"huge terminal": func(h *host) { h.run(wire.StartBody{Cmd: "true", TTY: &wire.Size{Cols: 1, Rows: 1 << 30}}) },
		"shell's name":  func(h *host) { h.run(wire.StartBody{Cmd: "true", Shell: "../x"}) },
		"shell is busy": func(h *host) {
			h.run(wire.StartBody{Cmd: "sleep 1000", Shell: "a"})
			h.run(wire.StartBody{Cmd: "true", Shell: "a"})
		},
		"signal no JSON": func(h *host) { h.in.Write(wire.Append(nil, wire.Signal, h.run(plain), []byte("2"))) },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			go violate(h)
			h.wantFailure()
		})
	}
}

// A command that does not read its input blocks no other run, and its input is confirmed
// only as it is consumed.
func TestUnreadInputBlocksNoOtherRun(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: "stty raw -echo; echo ready; sleep 1000", TTY: size})
	h.until(run, "ready")
	for range wire.StdinWindow / wire.MaxPayload {
		h.input(run, strings.Repeat("x", wire.MaxPayload))
	}
	if out, _ := h.do("", "echo through"); out != "through\n" {
		t.Errorf("%q", out)
	}
	taken := 0
	h.in.Write(wire.Append(nil, wire.Ping, wire.ID{}, nil))
	for {
		f, err := h.r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == wire.Pong {
			break
		}
		if f.Kind == wire.StdinTaken {
			taken += int(binary.BigEndian.Uint32(f.Payload))
		}
	}
	if taken == wire.StdinWindow {
		t.Error("all input is confirmed, but the command reads none")
	}
	h.sendJSON(wire.Kill, run, wire.KillBody{})
	if _, exit := h.until(run, ""); !exit.Killed || exit.Open {
		t.Errorf("%+v", exit)
	}
}

// The agent closes all descriptors of runs that are over.
func TestEndedRunsLeaveNoDescriptors(t *testing.T) {
	h := start(t)
	count := func() int {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	round := func() {
		for _, body := range []wire.StartBody{
			{Cmd: "true", TTY: size}, {Cmd: "true", Shell: "a"}, {Cmd: "true", Stdin: true}, {Cmd: "true", Shell: "a", TTY: size},
			{Cmd: "true #" + strings.Repeat("x", 200<<10), Shell: "a"},
		} {
			h.until(h.run(body), "")
		}
	}
	round()
	before := count()
	for range 20 {
		round()
	}
	for deadline := time.Now().Add(10 * time.Second); count() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d before", count(), before)
		}
	}
}

// Exit reports the state of a named shell, and the agent removes the files of its shells
// at its end. Package boxtest tests what a named shell keeps.
func TestNamedShellReportsItsStateAndRemovesItsFiles(t *testing.T) {
	h := start(t)
	check := func(cmd, out, shell string) {
		t.Helper()
		if got, exit := h.do("dev", cmd); got != out || exit.Shell != shell {
			t.Errorf("%s: %q, %q, %+v; want %q, %s", cmd, got, h.stderr, exit, out, shell)
		}
	}
	// The trap that saves the state contains the path of its file.
	dir, _ := h.do("dev", `file=$(trap -p EXIT); file=${file#*8>|}; dir=${file%/dev~*}; echo -n $dir; x=1`)
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("%q: %v, %v", dir, st, err)
	}
	check("echo $x; x=2; exec true", "1\n", wire.ShellKept)
	h.do("other", "y=1")
	check("echo $x; rm -r $dir", "1\n", wire.ShellLost)
	check("echo $x; x=3", "\n", wire.ShellSaved)
	if out, exit := h.do("other", "echo $y"); out != "\n" || exit.Shell != wire.ShellLost {
		t.Errorf("the other shell: %q, %+v", out, exit)
	}
	check("echo $x; ulimit -f 0; trap '' XFSZ", "3\n", wire.ShellKept) // the state cannot be written
	dir, _ = h.do("dev", `file=$(trap -p EXIT); file=${file#*8>|}; dir=${file%/dev~*}; echo -n $dir; rm $dir/dev; mkfifo $dir/dev`)
	check("echo $x", "3\n", wire.ShellSaved)
	if files, _ := filepath.Glob(dir + "/dev*"); len(files) != 1 || filepath.Base(files[0]) != "dev" {
		t.Errorf("%q", files)
	}
	h.in.Close()
	h.cmd.Wait()
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left behind: %s", dir)
	}
}
