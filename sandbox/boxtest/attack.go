package boxtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// testAttacks lets commands do their worst to the box and to the agent. It runs
// only where that hurts nobody else.
func testAttacks(t *testing.T, s *suite) {
	t.Run("the agent is out of reach", func(t *testing.T) {
		r := sh(t, s.box, `
exec 2>/dev/null
for f in environ mem maps fd/0 fd/1 fd/2 fd/3 fd/4 fd/5 cwd/. root/.; do cat /proc/1/$f >/dev/null && echo "read $f"; done
ls /proc/1/fd >/dev/null && echo "list fd"
for n in 0 1 2 3 4 5 6 7 8; do (exec 9>/proc/1/fd/$n) && echo "write fd $n"; done
(exec 9>/proc/1/mem) && echo "write mem"
for f in /opt/warmbox/agent /opt/warmbox /run/warmbox; do [ -w $f ] && echo "write $f"; done
echo done`)
		want(t, r, 0, "done\n")
	})
	t.Run("tracing", func(t *testing.T) {
		r := sh(t, s.box, `command -v python3 >/dev/null || { echo refused; exit; }
python3 - <<'E'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for request in 16, 0x4206: # PTRACE_ATTACH, PTRACE_SEIZE
    print("traced" if libc.ptrace(request, 1, 0, 0) == 0 else "refused")
E`)
		if strings.Contains(r.stdout, "traced") || !strings.Contains(r.stdout, "refused") {
			t.Errorf("%q, %q", r.stdout, r.stderr)
		}
	})
	t.Run("its socket", func(t *testing.T) { testStranger(t, s) })
	t.Run("every signal", func(t *testing.T) {
		want(t, sh(t, s.box, "for j in $(seq 50); do for i in $(seq 1 64); do kill -$i 1 2>/dev/null; done; done; sleep 0.2; echo alive"), 0, "alive\n")
		want(t, sh(t, s.box, "echo again"), 0, "again\n")
	})
	t.Run("every process that a run did not start", func(t *testing.T) { testStrangers(t, s) })
	t.Run("files between directories", func(t *testing.T) { want(t, sh(t, s.box, moving), 0, "x\nx\nx\n") })
	t.Run("its limits", func(t *testing.T) { testLimits(t, s) })
	t.Run("every signal in every way", func(t *testing.T) { testForgedSignals(t, s) })
	t.Run("its place on the processors", func(t *testing.T) { testScheduling(t, s) })
	t.Run("kill -9 -1", func(t *testing.T) {
		box := s.newBox(t)
		defer box.Close()
		r := sh(t, box, "kill -9 -1; echo not reached?")
		if r.Status == sandbox.Lost {
			t.Fatalf("the box died: %v", r.Err)
		}
		want(t, sh(t, box, "echo alive"), 0, "alive\n")
	})
	t.Run("fork bomb", func(t *testing.T) {
		box := s.newBox(t)
		defer box.Close()
		// It forks nothing, and leaves out the shells that wait for a command.
		const count = `n=0; for p in /proc/[0-9]*/cmdline; do mapfile -d "" -t a <$p; [[ ${a[2]-} == 'eval -- "$BASH_EXECUTION_STRING" '* ]] || ((++n)); done; echo $n`
		before := sh(t, box, count).stdout
		bomb := start(t, box, sandbox.Command{Cmd: "b() { b | b & }; b; sleep 1000", Timeout: 2 * time.Second})
		r := wait(t, bomb)
		if r.Status != sandbox.TimedOut {
			t.Errorf("%s, %v", r.Status, r.Err)
		}
		eventually(t, "a usable box", func() bool {
			run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "echo alive"})
			return err == nil && wait(t, run).stdout == "alive\n"
		})
		want(t, sh(t, box, count), 0, before)
	})
	t.Run("memory bomb", func(t *testing.T) {
		spec := s.manager.Defaults
		spec.Memory = 256 << 20 // which is soon full
		small := &suite{manager: Manager(t, s.manager.Launcher, spec)}
		box := small.newBox(t)
		defer box.Close()
		r := do(t, box, sandbox.Command{Cmd: "tail /dev/zero", Timeout: 40 * time.Second})
		if r.Status == sandbox.Lost {
			t.Fatalf("the box died: %v", r.Err)
		}
		if r.Status != sandbox.OOM || r.MemoryKill == nil || r.MemoryKill.Shared {
			t.Errorf("%s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
		}
		want(t, sh(t, box, "echo alive"), 0, "alive\n")
		testAfterOOM(t, box)
		testMemoryOfOthers(t, box)
	})
}

// testAfterOOM has commands run in a box whose kernel's count of processes killed
// for want of memory is no longer zero: none is charged with what was before it, and
// each is told what happened in its time.
func testAfterOOM(t *testing.T, box *sandbox.Box) {
	innocent := func(cmd string, code int) {
		t.Helper()
		if r := sh(t, box, cmd); r.Status != sandbox.Exited || r.Code != code || r.MemoryKill != nil {
			t.Errorf("%q after a process was killed for memory: %s, exit %d, %+v", cmd, r.Status, r.Code, r.MemoryKill)
		}
	}
	innocent("true", 0)
	innocent("grep x /dev/null", 1)
	innocent("kill -9 $$", 137)
	if r := sh(t, box, "tail /dev/zero; echo went on"); r.Status != sandbox.Exited || r.Code != 0 || r.MemoryKill == nil || r.MemoryKill.Shared || r.MemoryKill.Limit != box.Place.Memory {
		t.Errorf("a command that lost a child: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
	innocent("false", 1)
	if r := sh(t, box, "tail /dev/zero; exit 3"); r.Status != sandbox.OOM || r.Code != 3 || r.Signal != "" {
		t.Errorf("a command that failed since it lost a child: %s, exit %d %s", r.Status, r.Code, r.Signal)
	}
	innocent("exit 3", 3)
}

// testMemoryOfOthers has the kernel kill a process while several commands run: each
// is told so, and none is said to be the one. The kernel may take more than one, as
// long as the first has not given its memory back.
func testMemoryOfOthers(t *testing.T, box *sandbox.Box) {
	bystander := start(t, box, sandbox.Command{Cmd: "echo up; until [ -e $TMPDIR/killed ]; do sleep 0.1; done; exit 5", Timeout: 60 * time.Second})
	printed(t, bystander, "up")
	bomb := do(t, box, sandbox.Command{Cmd: "tail /dev/zero", Timeout: 40 * time.Second})
	if bomb.Status != sandbox.Exited || bomb.Code != 137 || bomb.Signal != "SIGKILL" || bomb.MemoryKill == nil || !bomb.MemoryKill.Shared {
		t.Errorf("the one that was killed: %s, exit %d %s, %+v", bomb.Status, bomb.Code, bomb.Signal, bomb.MemoryKill)
	}
	later := sh(t, box, "touch $TMPDIR/killed; false")
	if later.Status != sandbox.Exited || later.Code != 1 || later.MemoryKill != nil {
		t.Errorf("one that began later: %s, exit %d, %+v", later.Status, later.Code, later.MemoryKill)
	}
	r := wait(t, bystander)
	if r.Status != sandbox.Exited || r.Code != 5 && r.Code != 137 || r.MemoryKill == nil || !r.MemoryKill.Shared {
		t.Errorf("one beside it: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
	// What a command left behind counts as one that runs.
	daemon := sh(t, box, "(until [ -e $TMPDIR/go ]; do sleep 0.1; done; tail /dev/zero; touch $TMPDIR/over) >/dev/null 2>&1 & echo")
	if len(daemon.Leftover) == 0 {
		t.Fatalf("nothing is left over: %+v", daemon.Exit)
	}
	r = sh(t, box, "touch $TMPDIR/go; for i in {1..100}; do [ -e $TMPDIR/over ] && break; sleep 0.1; done; exit 4")
	if r.Status != sandbox.Exited || r.Code != 4 && r.Code != 137 || r.MemoryKill == nil || !r.MemoryKill.Shared {
		t.Errorf("one beside another's daemon that was killed: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
}

// testStranger knocks at the ways on which the agent and its host meet.
func testStranger(t *testing.T, s *suite) {
	r := sh(t, s.box, `command -v python3 >/dev/null || { echo no python3; exit; }
python3 - <<'E'
import glob, socket
for name in ["\0warmbox"] + glob.glob("/run/warmbox/*"):
    for _ in range(100):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(3)
        try:
            s.connect(name)
            try: s.sendall(b"\xb0\x01" + b"\0" * 62)
            except OSError: pass
            got = s.recv(64)
            if got: print("spoke", name, got)
        except socket.timeout: print("left open", name)
        except OSError: pass
print("done")
E
rm -rf /run/warmbox/* 2>/dev/null; touch /run/warmbox/x 2>/dev/null && echo planted; exit 0`)
	if r.stdout != "done\n" && r.stdout != "no python3\n" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	want(t, sh(t, s.box, "echo still here"), 0, "still here\n")
}

// testLife ends boxes.
func testLife(t *testing.T, s *suite) {
	t.Run("close", func(t *testing.T) {
		box := s.newBox(t)
		run := start(t, box, sandbox.Command{Cmd: "echo up; trap '' TERM; setsid sleep 4242 & sleep 4242"})
		printed(t, run, "up")
		box.Close()
		if r := wait(t, run); r.Status != sandbox.Killed || r.stdout != "up\n" {
			t.Errorf("%s, %q", r.Status, r.stdout)
		}
		if _, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"}); err == nil || !strings.Contains(err.Error(), "was stopped") {
			t.Errorf("exec in a closed box: %v", err)
		}
		box.Close()
	})
	t.Run("shells go with their box", func(t *testing.T) {
		if s.isolated {
			t.Skip("their files are in the box")
		}
		box := s.newBox(t)
		// The trap that saves names the file.
		r := do(t, box, sandbox.Command{Shell: "dev", Cmd: `file=$(trap -p EXIT); file=${file#*8>|}; echo -n ${file%/dev~*}`})
		if _, err := os.Stat(filepath.Join(r.stdout, "dev")); err != nil {
			t.Fatalf("%q: %v", r.stdout, err)
		}
		box.Close()
		if _, err := os.Stat(r.stdout); !os.IsNotExist(err) {
			t.Errorf("%s is left behind, %v", r.stdout, err)
		}
	})
	t.Run("owners", func(t *testing.T) {
		if _, err := s.manager.Box(sandbox.Owner{Principal: "somebody else"}, s.box.ID); err == nil {
			t.Error("another's box can be had")
		}
		if b, err := s.manager.Box(sandbox.Owner{Principal: "boxtest"}, s.box.ID); err != nil || b != s.box {
			t.Errorf("%v, %v", b, err)
		}
	})
}
