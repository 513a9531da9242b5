package boxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// testAttacks has commands attack the box and the agent. It runs only on backends that
// isolate, where that harms nothing else.
func testAttacks(t *testing.T, s *suite) {
	for _, attack := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"files of the agent", testAgentFiles},
		{"tracing the agent", testTracing},
		{"socket of the agent", testUnauthenticated},
		{"signals to the agent", testSignalsToAgent},
		{"forged signals to the agent", testForgedSignals},
		{"limits of the agent", testAgentLimits},
		{"scheduling of the agent", testScheduling},
		{"processes of other runs", testProcessIsolation},
		{"files between directories", func(t *testing.T, s *suite) { want(t, sh(t, s.box, moveFiles), 0, "x\nx\nx\n") }},
		{"kill -9 -1", testKillAll},
		{"fork bomb", testForkBomb},
		{"memory bomb", testMemoryBomb},
		{"many files", testManyFiles},
	} {
		t.Run(attack.name, func(t *testing.T) { attack.run(t, s) })
	}
}

// testAgentFiles checks that a command can neither open the agent's files of /proc nor
// write its program and its directories.
func testAgentFiles(t *testing.T, s *suite) {
	r := sh(t, s.box, `
exec 2>/dev/null
for f in environ mem maps fd/0 fd/1 fd/2 fd/3 fd/4 fd/5 cwd/. root/.; do cat /proc/1/$f >/dev/null && echo "read $f"; done
ls /proc/1/fd >/dev/null && echo "list fd"
for n in 0 1 2 3 4 5 6 7 8; do (exec 9>/proc/1/fd/$n) && echo "write fd $n"; done
(exec 9>/proc/1/mem) && echo "write mem"
for f in /opt/warmbox/agent /opt/warmbox /run/warmbox; do [ -w $f ] && echo "write $f"; done
echo done`)
	want(t, r, 0, "done\n")
}

// testTracing checks that a command cannot attach to the agent as a debugger.
func testTracing(t *testing.T, s *suite) {
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
}

// testUnauthenticated connects to the sockets on which agent and host meet. Each
// connection is closed without a byte, and the agent goes on.
func testUnauthenticated(t *testing.T, s *suite) {
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

// testSignalsToAgent checks that the agent survives every signal of kill.
func testSignalsToAgent(t *testing.T, s *suite) {
	want(t, sh(t, s.box, "for j in $(seq 50); do for i in $(seq 1 64); do kill -$i 1 2>/dev/null; done; done; sleep 0.2; echo alive"), 0, "alive\n")
	want(t, sh(t, s.box, "echo again"), 0, "again\n")
}

// testKillAll checks that the agent survives a command that kills every process.
func testKillAll(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	r := sh(t, box, "kill -9 -1; echo not reached?")
	if r.Status == sandbox.Lost {
		t.Fatalf("the box died: %v", r.Err)
	}
	want(t, sh(t, box, "echo alive"), 0, "alive\n")
}

// testForkBomb checks that a box at its process limit is emptied by a time limit and
// usable afterwards.
func testForkBomb(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	// It forks nothing, and does not count spare shells.
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
	eventually(t, "an empty box", func() bool { return sh(t, box, count).stdout == before })
}
