//go:build linux

package agent_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// asInABox calls f on a thread with the restrictions of a box: a process started there
// gains no privileges and can only set its own limits. The thread ends with f.
func asInABox(t testing.TB, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := sealThread()
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// sealThread refuses prlimit64 as a box's profile does. It checks only the low halves of
// arguments, which suffices for pointers that are no multiple of 4 GiB.
func sealThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const (
		load, equal, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		number, pid, limit  = 0, 16, 32 // where in seccomp_data
		allow, refuse       = 0x7fff0000, 0x00050000 | uint32(unix.EPERM)
	)
	filter := []unix.SockFilter{
		{Code: load, K: number}, {Code: equal, K: unix.SYS_PRLIMIT64, Jf: 4},
		{Code: load, K: pid}, {Code: equal, K: 0, Jt: 2},
		{Code: load, K: limit}, {Code: equal, K: 0, Jf: 1},
		{Code: answer, K: allow}, {Code: answer, K: refuse},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&prog))) // SET_MODE_FILTER
	if errno != 0 {
		return errno
	}
	return nil
}

// needDomains skips a test if the kernel has no suitable version of Landlock.
func needDomains(t testing.TB) {
	t.Helper()
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || version < 2 {
		t.Skipf("this kernel has version %d of Landlock: %v", version, errno)
	}
}

// No run can access the memory of another run or of a spare shell, and every run can
// access what it started itself.
func TestRunsCannotTraceEachOther(t *testing.T) {
	needDomains(t)
	h := spareHost(t, 2, t.TempDir())
	runs := []int{}
	for _, body := range []wire.StartBody{{Cmd: "sleep 60"}, {Cmd: "read x", Stdin: true}, {Cmd: "sleep 60; :", TTY: size}, {Cmd: "sleep 60; :", Shell: "dev"}} {
		if body.Shell == "" && !body.Stdin && body.TTY == nil {
			h.awaitSpares(1)
		}
		h.run(body)
		runs = append(runs, h.started())
	}
	// Reading the link needs permission to trace, which root otherwise has for all processes.
	reach := fmt.Sprint("for p in ", strings.Trim(fmt.Sprint(append(runs, h.awaitSpares(2)...)), "[]"),
		"; do [ $p = $$ ] && continue; kill -0 $p && echo there; readlink /proc/$p/cwd && echo reached $p; done; readlink /proc/$$/cwd >/dev/null && echo self")
	if o := h.outcome(h.run(wire.StartBody{Cmd: reach})); o.out != strings.Repeat("there\n", len(runs)+1)+"self\n" {
		t.Errorf("of %d: %q", runs, o)
	}
	for _, body := range []wire.StartBody{{}, {Stdin: true}, {TTY: size}, {Shell: "other"}} {
		body.Cmd = "sleep 60 & readlink /proc/$!/cwd >/dev/null && echo reached; kill $!"
		if o := h.outcome(h.run(body)); strings.TrimSpace(o.out) != "reached" {
			t.Errorf("a run cannot read what it started: %q", o)
		}
	}
}

// A run's domain does not restrict moving files between directories.
func TestFilesMoveBetweenDirectories(t *testing.T) {
	needDomains(t)
	h := spareHost(t, 1, t.TempDir())
	const move = "mkdir -p a/b c && echo x >a/b/f && mv a/b/f c/g && ln c/g a/h && mv a/b c/ && mv c/b . && rm -r a b && cat c/g && rm -r c"
	for _, body := range []wire.StartBody{{Cmd: move}, {Cmd: move, Stdin: true}} {
		if o := h.outcome(h.run(body)); o != (outcome{"x\n", "", "0 0"}) {
			t.Errorf("%q", o)
		}
	}
}

// Without domains an agent has a spare shell only while nothing runs, and ends it before
// a command starts.
func TestNoSpareBesideARunWithoutDomains(t *testing.T) {
	h := hello(t, launch(t), 3, t.TempDir())
	first := h.awaitSpares(1)
	id := h.run(wire.StartBody{Cmd: "sleep 60 & disown; exit 3"})
	if pid := h.started(); pid != first[0] {
		t.Errorf("the run is in %d, and the spare is %d", pid, first[0])
	}
	if _, exit := h.until(id, ""); exit.Code != 3 || !exit.Open {
		t.Errorf("%+v", exit)
	}
	for range 3 { // each ends, and would be followed by a spare
		if o := h.outcome(h.run(wire.StartBody{Cmd: "sleep 0.1; echo fine"})); o.out != "fine\n" {
			t.Errorf("%q", o)
		}
		if pids := h.sparesOf(); len(pids) > 0 {
			t.Errorf("spare shells %d run beside a command", pids)
		}
	}
	h.sendJSON(wire.Kill, id, wire.KillBody{})
	if next := h.awaitSpares(1); len(next) != 1 || next[0] == first[0] {
		t.Errorf("%d, and before %d", next, first)
	}
	id = h.run(wire.StartBody{Cmd: "read x", Stdin: true})
	h.started()
	h.await(func(ready int) bool { return ready == 0 })
	h.sendJSON(wire.Kill, id, wire.KillBody{})
}

// An agent that no filter protects ends, with a reason, when its limit is lowered.
func TestLoweredLimitEndsTheAgent(t *testing.T) {
	for _, c := range []struct {
		limit int
		name  string
	}{{unix.RLIMIT_NOFILE, "RLIMIT_NOFILE"}, {unix.RLIMIT_FSIZE, "RLIMIT_FSIZE"}, {unix.RLIMIT_NPROC, "RLIMIT_NPROC"}} {
		t.Run(c.name, func(t *testing.T) {
			var said bytes.Buffer
			h := launchTo(t, &said)
			hello(t, h, 1, t.TempDir())
			id := h.run(wire.StartBody{Cmd: "sleep 61 & echo on; read x", Stdin: true})
			h.until(id, "on")
			if err := unix.Prlimit(h.cmd.Process.Pid, c.limit, &unix.Rlimit{Cur: 3, Max: 3}, nil); err != nil {
				t.Fatal(err)
			}
			h.input(id, "\n")
			if _, err := drained(h.r); err == nil {
				t.Error("the agent continues")
			}
			h.cmd.Wait()
			if text := said.String(); !strings.Contains(text, "lowered "+c.name) || h.cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("%v, %q", h.cmd.ProcessState, text)
			}
		})
	}
}

// Faults that a process sends are dropped; a real one is a panic that can be recovered.
func TestForgedFaultsAreDropped(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestFaultsInAProcessOfTheirOwn$", "-test.v")
	cmd.Env = append(os.Environ(), "WARMBOX_TEST_FAULTS=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("recovered 3 times")) {
		t.Errorf("%v\n%.2000s", err, out)
	}
}
