//go:build linux

package agent_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A persistentAgent is an agent of a persistent box in a process of its own. A test is
// one host after the other at its socket.
type persistentAgent struct {
	t      testing.TB
	socket *net.UnixListener
	accept func() (net.Conn, error) // returns the agent's next stream
	cmd    *exec.Cmd
	dir    string
	keep   time.Duration
	hosts  int    // number of hosts so far
	runs   uint16 // first byte of the last run's id
}

func keep(t testing.TB, d time.Duration) *persistentAgent {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	socket.SetDeadline(time.Now().Add(5 * time.Minute))
	k := &persistentAgent{t: t, socket: socket, accept: socket.Accept, dir: t.TempDir(), keep: d, cmd: exec.Command("/proc/self/exe", "serve", "--dial", path)}
	k.cmd.Env = append(os.Environ(), agentEnv+"=1")
	k.cmd.Stderr = os.Stderr
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.cmd.Process.Signal(os.Interrupt)
		k.cmd.Wait()
		socket.Close()
	})
	return k
}

// host attaches as the agent's next host and returns the runs that the agent knows.
func (k *persistentAgent) host() (*host, []known) {
	k.t.Helper()
	conn, err := k.accept()
	if err != nil {
		k.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	k.t.Cleanup(func() { conn.Close() })
	h := &host{t: k.t, in: conn, r: wire.NewReader(conn, wire.FromAgent), cmd: k.cmd, last: k.runs}
	h.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{
		Dir: k.dir, Env: []string{"PATH=" + os.Getenv("PATH")}, PersistMillis: k.keep.Milliseconds(), Resume: k.hosts > 0,
	})
	k.hosts++
	f := h.read(wire.Hello)
	var hello wire.HelloBody
	if err := wire.Decode(f, &hello); err != nil {
		k.t.Fatal(err)
	}
	list := make([]known, hello.Runs)
	for i := range list {
		f := h.read(wire.Known)
		list[i].id = f.Run
		if err := wire.Decode(f, &list[i].KnownBody); err != nil {
			k.t.Fatal(err)
		}
	}
	return h, list
}

type known struct {
	id wire.ID
	wire.KnownBody
}

func (h *host) read(kind wire.Kind) wire.Frame {
	h.t.Helper()
	f, err := h.r.Read()
	if err != nil || f.Kind != kind {
		h.t.Fatalf("%v (%.100q), %v; want %v", f.Kind, f.Payload, err, kind)
	}
	return f
}

// next returns the next frame.
func (h *host) next() wire.Frame {
	h.t.Helper()
	f, err := h.r.Read()
	if err != nil {
		h.t.Fatal(err)
	}
	return f
}

// leave closes the stream, as the end of a server does.
func (k *persistentAgent) leave(h *host) {
	h.in.Close()
	k.runs = h.last
}

func (h *host) resume(id wire.ID, from int64) {
	h.in.Write(wire.AppendCounts(nil, wire.Resume, id, from))
}

func (h *host) forget(id wire.ID) { h.in.Write(wire.Append(nil, wire.Forget, id, nil)) }

// rest reads a run to its end. at is the byte at which its output continues.
func (h *host) rest(id wire.ID) (out []byte, at, feeds int64, exit wire.ExitBody) {
	h.t.Helper()
	for {
		f, err := h.r.Read()
		if err != nil || f.Run != id {
			h.t.Fatalf("%v of %x after %d bytes: %v", f.Kind, f.Run[:1], len(out), err)
		}
		switch f.Kind {
		case wire.Dropped:
			if err := wire.Counts(f, &at, &feeds); err != nil || len(out) > 0 {
				h.t.Fatalf("dropped after %d bytes, %v", len(out), err)
			}
		case wire.Stdout, wire.Stderr:
			out = append(out, f.Payload...)
		case wire.Exit:
			if err := wire.Decode(f, &exit); err != nil {
				h.t.Fatal(err)
			}
			if !exit.Open {
				return out, at, feeds, exit
			}
		case wire.Closed:
			return out, at, feeds, exit
		}
	}
}

// awaitFile waits until a command has created a file, for times without a host.
func (k *persistentAgent) awaitFile(name string) {
	k.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(k.dir, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("%s was never created", name)
		}
	}
}

// The next host gets the output that a command prints while no host is attached, from the
// byte that it asks for, and the Exit.
func TestReattachReplaysMissedOutput(t *testing.T) {
	k := keep(t, time.Hour)
	h, list := k.host()
	if len(list) != 0 {
		t.Fatalf("%v", list)
	}
	run := h.run(wire.StartBody{Cmd: "echo one; read -r x; echo two >&2; sleep 0.1; echo 3; touch done; exit 7", Tag: "e-1", Stdin: true})
	h.until(run, "one\n")
	h.input(run, "go\n")
	for h.next().Kind != wire.StdinTaken { // its output may arrive first
	}
	k.leave(h)
	k.awaitFile("done")

	h, list = k.host()
	if len(list) != 1 || list[0].Tag != "e-1" || list[0].id != run {
		t.Fatalf("%+v", list)
	}
	h.resume(run, 2)
	out, at, _, exit := h.rest(run)
	if string(out) != "e\ntwo\n3\n" || at != 0 || exit.Code != 7 || exit.TookMillis < 100 {
		t.Errorf("%q from %d, %+v", out, at, exit)
	}
	k.leave(h) // without a Forget

	h, _ = k.host()
	h.resume(run, 10)
	if out, _, _, exit := h.rest(run); len(out) != 0 || exit.Code != 7 {
		t.Errorf("%q, %+v", out, exit)
	}
	h.forget(run)
	h.until(h.run(wire.StartBody{Cmd: "echo on", Tag: "e-2"}), "")
	k.leave(h)
	if _, list := k.host(); len(list) != 1 || list[0].Tag != "e-2" || !list[0].Ended {
		t.Errorf("%+v", list)
	}
}

// Output beyond what the agent keeps is dropped while no host is attached, and counted.
func TestReattachReportsDroppedOutput(t *testing.T) {
	k := keep(t, time.Hour)
	h, _ := k.host()
	const lines = 8 << 20 // of 8 bytes: more than the agent may hold in memory
	run := h.run(wire.StartBody{Cmd: "echo first; read -r; seq 1000000 " + strconv.Itoa(1000000+lines-1) + "; touch done; exec sleep 1000", Tag: "e-1", Stdin: true})
	h.until(run, "first\n")
	h.input(run, "\n")
	k.leave(h)
	k.awaitFile("done")
	h, list := k.host()
	const total = 6 + 8*lines
	if n := list[0].Bytes; n < total-1<<20 || n > total { // the agent may have to read the rest of the pipe
		t.Errorf("%d bytes, not %d", n, total)
	}
	h.resume(run, 6)
	h.sendJSON(wire.Kill, run, wire.KillBody{})
	out, at, feeds, exit := h.rest(run)
	if at+int64(len(out)) != total || len(out) < 16<<20 || !exit.Killed {
		t.Errorf("continues at %d with %d bytes, %+v", at, len(out), exit)
	}
	n, within := (at-6)/8, (at-6)%8
	if line := fmt.Sprintln(1000000 + n)[within:]; !bytes.HasPrefix(out, []byte(line)) || feeds != 1+n {
		t.Errorf("%.30q at %d after %d line feeds, not %q after %d", out, at, feeds, line, 1+n)
	}
	if rss := memory(t, k.cmd.Process.Pid); rss > 60<<20 {
		t.Errorf("the agent has %d bytes resident", rss)
	}
}

func memory(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KB resident", kb)
	return kb << 10
}

// The stream is cut at random points, again and again, and each host has written down
// only a part of what it received: every byte arrives once and in order.
func TestManyReattachesLoseNoByte(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := keep(t, time.Hour)
	h, _ := k.host()
	run := h.run(wire.StartBody{Cmd: `for ((i = 0; i < 30000; i++)); do echo $i; ((i % 7)) || echo $i >&2; done; exit 3`, Tag: "e-1"})
	h.read(wire.Started)
	written := map[wire.Kind][]byte{} // what the hosts wrote down of each stream
	from := 0
	cuts := 0
	for ended := false; !ended; cuts++ {
		quota := random.IntN(1200) // what this host writes down before its end
		if cuts >= 200 {
			quota = 1 << 30
		}
		for quota > 0 && !ended {
			f := h.next()
			if ended = f.Kind == wire.Exit; !ended {
				n := min(len(f.Payload), quota)
				written[f.Kind] = append(written[f.Kind], f.Payload[:n]...)
				quota, from = quota-n, from+n
			}
		}
		k.leave(h)
		h, _ = k.host()
		h.resume(run, int64(from))
	}
	var stdout, stderr []byte
	for i := range 30000 {
		stdout = fmt.Appendln(stdout, i)
		if i%7 == 0 {
			stderr = fmt.Appendln(stderr, i)
		}
	}
	if !bytes.Equal(written[wire.Stdout], stdout) || !bytes.Equal(written[wire.Stderr], stderr) {
		t.Errorf("%d and %d bytes after %d hosts, not the %d and %d expected",
			len(written[wire.Stdout]), len(written[wire.Stderr]), cuts, len(stdout), len(stderr))
	}
	if cuts < 200 {
		t.Errorf("%d hosts only", cuts)
	}
	t.Logf("%d hosts", cuts)
}

// The stream of a command that prints more than the agent keeps is cut again and again:
// each byte arrives at its place or is reported as dropped.
func TestReattachAccountsForDroppedBytes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := keep(t, time.Hour)
	h, _ := k.host()
	const lines = 8 << 20 // of 9 bytes
	run := h.run(wire.StartBody{Cmd: fmt.Sprintf("seq 10000000 %d; touch done", 10000000+lines-1), Tag: "e-1"})
	h.read(wire.Started)
	at, lost := int64(0), int64(0)
	for ended := false; !ended; {
		for quota := random.IntN(8 << 20); quota > 0 && !ended; {
			f := h.next()
			switch f.Kind {
			case wire.Dropped:
				var to, feeds int64
				if err := wire.Counts(f, &to, &feeds); err != nil || to <= at || feeds != to/9 {
					t.Fatalf("dropped from %d to %d, with %d line feeds, %v", at, to, feeds, err)
				}
				lost += to - at
				at = to
			case wire.Stdout:
				p := f.Payload[:min(len(f.Payload), quota)]
				if !bytes.Equal(p, numbers(at, len(p))) {
					t.Fatalf("%.30q at %d, not %q", p, at, numbers(at, 30))
				}
				at += int64(len(p))
				quota -= len(p)
			case wire.Exit:
				ended = true
			}
		}
		k.leave(h)
		if at > 9*lines/4 {
			k.awaitFile("done") // the rest is larger than the ring, or was dropped already
		}
		h, _ = k.host()
		h.resume(run, at)
	}
	if at != 9*lines || lost == 0 {
		t.Errorf("the output ended at %d of %d bytes, of which %d were dropped", at, 9*lines, lost)
	}
	t.Logf("%d of %d bytes were dropped", lost, at)
}

// The stream of several commands is cut again and again, and some of them leave a process
// behind that prints on: each run gets all of its own output, and its Exit and Closed in
// order.
func TestReattachSeparatesRuns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := keep(t, time.Hour)
	h, _ := k.host()
	x := &replayed{t: t, runs: map[wire.ID]*replay{}}
	for i := range 6 {
		cmd := fmt.Sprintf("seq 10000000 %d", 10000000+replayLines-1)
		if i%2 == 1 {
			cmd = "(sleep 0.2; " + cmd + ") & exit 3" // its Exit precedes a part of its output
		}
		x.runs[h.run(wire.StartBody{Cmd: cmd, Tag: fmt.Sprintf("e-%d", i)})] = &replay{}
	}
	for x.started < len(x.runs) { // a Start that the agent has not read may be lost with its host
		f := h.next()
		x.accept(f, len(f.Payload))
	}
	for len(x.runs) > 0 {
		for quota := random.IntN(1 << 20); quota > 0; quota-- {
			f := h.next()
			quota -= x.accept(f, quota)
			if r := x.runs[f.Run]; r.closed && r.at == 9*replayLines && random.IntN(2) == 0 {
				h.forget(f.Run)
				delete(x.runs, f.Run)
			}
			if x.allClosed() {
				break
			}
		}
		k.leave(h)
		var list []known
		h, list = k.host()
		for _, l := range list {
			if r := x.runs[l.id]; r == nil {
				h.forget(l.id) // the last host's Forget was lost
			} else {
				r.exit, r.closed = false, false
				h.resume(l.id, r.at)
			}
		}
		if len(list) < len(x.runs) {
			t.Fatalf("%d runs are known, of %d", len(list), len(x.runs))
		}
	}
}

// replayLines is how many lines of 9 bytes each replayed run prints.
const replayLines = 100000

// replayed checks the frames of several runs that many hosts receive in turn.
type replayed struct {
	t       *testing.T
	runs    map[wire.ID]*replay
	started int // number of runs whose Started has arrived
}

// replay is what the hosts have of one run.
type replay struct {
	at           int64 // number of bytes of its output
	exit, closed bool  // the current host has its Exit, and its Exit or Closed that ends it
}

// accept checks a frame, of whose output at most quota bytes are written down. It returns
// how many are.
func (x *replayed) accept(f wire.Frame, quota int) int {
	x.t.Helper()
	r := x.runs[f.Run]
	if r == nil || r.closed {
		x.t.Fatalf("%v of %x", f.Kind, f.Run)
	}
	switch f.Kind {
	case wire.Stdout:
		p := f.Payload[:min(len(f.Payload), quota)]
		if !bytes.Equal(p, numbers(r.at, len(p))) {
			x.t.Fatalf("%.30q at %d of %x", p, r.at, f.Run)
		}
		r.at += int64(len(p))
		return len(p)
	case wire.Exit:
		var exit wire.ExitBody
		if err := wire.Decode(f, &exit); err != nil || r.exit {
			x.t.Fatalf("%v, an exit before: %v", err, r.exit)
		}
		r.exit, r.closed = true, !exit.Open
	case wire.Closed:
		if r.closed = true; !r.exit {
			x.t.Fatalf("%x was closed before its exit", f.Run)
		}
	case wire.Started:
		x.started++
	default:
		x.t.Fatalf("%v", f.Kind)
	}
	return 0
}

func (x *replayed) allClosed() bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(x.runs)), func(r *replay) bool { return !r.closed })
}

// numbers is what seq 10000000 prints at an offset.
func numbers(at int64, n int) []byte {
	var text []byte
	for i := at / 9; len(text) < n+9; i++ {
		text = strconv.AppendInt(text, 10000000+i, 10)
		text = append(text, '\n')
	}
	return text[at%9:][:n]
}

// Named shells keep their state, input and signals continue, with the next host.
func TestReattachKeepsShellsInputAndSignals(t *testing.T) {
	k := keep(t, time.Hour)
	h, _ := k.host()
	h.until(h.run(wire.StartBody{Cmd: "x=1; cd /", Shell: "dev", Tag: "e-1"}), "")
	h.forget(wire.ID{1})
	cat := h.run(wire.StartBody{Cmd: "trap 'echo sig' USR1; cat; echo end", Stdin: true, Tag: "e-2"})
	h.input(cat, strings.Repeat("x", wire.MaxPayload-1)+"\n")
	k.leave(h)
	h, list := k.host()
	if len(list) != 1 || !list[0].Input {
		t.Fatalf("%+v", list)
	}
	h.resume(cat, list[0].Bytes)
	h.sendJSON(wire.Signal, cat, wire.SignalBody{Signal: 15})
	if _, exit := h.until(cat, ""); exit.Signal != 15 {
		t.Errorf("%+v", exit)
	}
	h.forget(cat)
	if out, exit := h.until(h.run(wire.StartBody{Cmd: "echo $x $PWD", Shell: "dev", Tag: "e-3"}), ""); out != "1 /\n" || exit.Shell != wire.ShellSaved {
		t.Errorf("%q, %+v", out, exit)
	}
}

// The next host may send a whole window of input to a command that has not read the input
// of the last host.
func TestReattachRenewsTheInputWindow(t *testing.T) {
	k := keep(t, time.Hour)
	h, _ := k.host()
	run := h.run(wire.StartBody{Cmd: "echo ready; until [ -e go ]; do sleep 0.01; done; wc -c", Stdin: true, Tag: "e-1"})
	h.until(run, "ready\n")
	fill := func() {
		for range wire.StdinWindow / wire.MaxPayload {
			h.input(run, strings.Repeat("x", wire.MaxPayload))
		}
	}
	fill()
	k.leave(h)
	h, _ = k.host()
	h.resume(run, 6)
	fill()
	h.in.Write(wire.Append(nil, wire.StdinClose, run, nil))
	if err := os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := uint32(0)
	for {
		f := h.next()
		if f.Kind == wire.StdinTaken {
			taken += uint32(f.Payload[0])<<24 | uint32(f.Payload[1])<<16 | uint32(f.Payload[2])<<8 | uint32(f.Payload[3])
		}
		if f.Kind == wire.Stdout {
			if string(f.Payload) != fmt.Sprintln(2*wire.StdinWindow) || taken > wire.StdinWindow {
				t.Errorf("%q, %d taken", f.Payload, taken)
			}
			return
		}
	}
}

// A run that the next host forgets is killed.
func TestForgetKillsTheRun(t *testing.T) {
	k := keep(t, time.Hour)
	h, _ := k.host()
	run := h.run(wire.StartBody{Cmd: "echo $$; exec sleep 1000", Tag: "e-1"})
	pid, _ := h.until(run, "\n")
	k.leave(h)
	h, _ = k.host()
	h.forget(run)
	gone(t, pid)
	if out, _ := h.until(h.run(wire.StartBody{Cmd: "echo on", Tag: "e-2"}), ""); out != "on\n" {
		t.Errorf("%q", out)
	}
	k.leave(h)
	if _, list := k.host(); len(list) != 1 || list[0].Tag != "e-2" {
		t.Errorf("%+v", list)
	}
}

// Without a next host the agent ends after its keep time, with all that runs.
func TestPersistentAgentEndsWithoutANextHost(t *testing.T) {
	k := keep(t, 300*time.Millisecond)
	h, _ := k.host()
	run := h.run(wire.StartBody{Cmd: "echo $$; exec sleep 1000", Tag: "e-1"})
	pid, _ := h.until(run, "\n")
	k.socket.Close()
	k.leave(h)
	if err := k.cmd.Wait(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// gone waits until a process has ended and is reaped.
func gone(t *testing.T, pid string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(pid)); err != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a command still runs")
		}
	}
}

// A new host replaces one whose stream hangs.
func TestNewestHostReplacesOneThatHangs(t *testing.T) {
	name := fmt.Sprintf("@warmbox-test-%d", rand.Uint64())
	cmd := exec.Command("/proc/self/exe", "serve", "--listen", name, "--peer-uid", strconv.Itoa(os.Getuid()))
	cmd.Env = append(os.Environ(), agentEnv+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	k := &persistentAgent{t: t, dir: t.TempDir(), keep: time.Hour, cmd: cmd, accept: func() (net.Conn, error) {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if conn, err := net.Dial("unix", name); err == nil || time.Now().After(deadline) {
				return conn, err
			}
		}
	}}
	first, _ := k.host()
	run := first.run(wire.StartBody{Cmd: "echo up; read -r; echo on", Stdin: true, Tag: "e-1"})
	first.until(run, "up\n")
	k.runs = first.last
	second, list := k.host()
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	if f, err := first.r.Read(); err != io.EOF {
		t.Errorf("the first host receives %v, %v", f.Kind, err)
	}
	second.resume(run, 3)
	second.input(run, "\n")
	if out, _ := second.until(run, ""); out != "on\n" {
		t.Errorf("%q", out)
	}
}

// A violation also ends the agent of a persistent box.
func TestViolationEndsAPersistentAgent(t *testing.T) {
	for name, violate := range map[string]func(h *host, run wire.ID){
		"start before all are answered": func(h *host, _ wire.ID) { h.run(wire.StartBody{Cmd: "true", Tag: "e-2"}) },
		"resume beyond the output":      func(h *host, run wire.ID) { h.resume(run, 1<<40) },
		"resume before byte 0":          func(h *host, run wire.ID) { h.resume(run, -1) },
		"resume of an unknown run":      func(h *host, _ wire.ID) { h.resume(wire.ID{99}, 0) },
		"resume twice": func(h *host, run wire.ID) {
			h.resume(run, 0)
			h.resume(run, 0)
		},
		"start without a tag": func(h *host, run wire.ID) {
			h.resume(run, 0)
			h.run(wire.StartBody{Cmd: "true"})
		},
		"start with a path as tag": func(h *host, run wire.ID) {
			h.resume(run, 0)
			h.run(wire.StartBody{Cmd: "true", Tag: "../x"})
		},
		"start with a known id": func(h *host, run wire.ID) {
			h.resume(run, 0)
			h.sendJSON(wire.Start, run, wire.StartBody{Cmd: "true", Tag: "e-2"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := keep(t, time.Hour)
			h, _ := k.host()
			run := h.run(wire.StartBody{Cmd: "echo up; exec sleep 1000", Tag: "e-1"})
			h.until(run, "up\n")
			k.leave(h)
			h, _ = k.host()
			violate(h, run)
			h.wantFailure()
		})
	}
}
