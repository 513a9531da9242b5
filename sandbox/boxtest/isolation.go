package boxtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// otherProcesses is python code that tries to access every process of the box outside its
// own session, and prints what it could access. To the kernel, reading needs the same
// permission as writing, except for limits, which the kernel checks by the owner.
const otherProcesses = `
import ctypes, errno, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
ptr = lambda *longs: (ctypes.c_ulong * len(longs))(*longs)
byte = ctypes.create_string_buffer(8)
vec = ptr(ctypes.addressof(byte), 1)
waits = b'eval -- "$BASH_EXECUTION_STRING" '

def others():
    for d in os.listdir("/proc"):
        try:
            if d.isdigit() and os.getsid(int(d)) != os.getsid(0): yield int(d)
        except OSError: pass

def spares():
    for pid in others():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if waits in f.read(): yield pid
        except OSError: pass

def failed(result): return ctypes.get_errno() if result < 0 else 0

of_memory = "mem", "environ", "maps"

def has_memory(fd): # one that has ended has none, and everybody may see that
    try: return os.read(fd, 1) != b""
    except OSError as e: return e.errno != errno.ESRCH

def reach(pid):
    for name in "mem", "environ", "maps", "fd/0", "fd/1", "fd/2", "fd/3", "cwd/.", "root/.":
        for flags in os.O_RDONLY, os.O_RDWR:
            try: fd = os.open(f"/proc/{pid}/{name}", flags | os.O_NONBLOCK)
            except OSError as e:
                if e.errno not in (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ESRCH, errno.EISDIR, errno.ENXIO): print("open", name, e)
                continue
            if name not in of_memory or has_memory(fd): print("opened", name, "of", pid, flush=True)
            os.close(fd)
    for request in 16, 0x4206: # PTRACE_ATTACH, PTRACE_SEIZE
        if failed(libc.ptrace(request, pid, 0, 0)) == 0:
            print("traced", pid, flush=True)
            try: os.waitpid(pid, 0x40000000)
            except OSError: pass
            libc.ptrace(17, pid, 0, 0)
    for call in libc.process_vm_readv, libc.process_vm_writev:
        if failed(call(pid, vec, 1, ptr(1, 1), 1, 0)) not in (errno.EPERM, errno.ESRCH): print("memory of", pid, flush=True)
    for limit in range(16):
        if failed(libc.prlimit64(pid, limit, ptr(0, 0), None)) == 0: print("limit", limit, "of", pid, flush=True)
`

// attackOnce waits until there is a spare shell, at most 2 s, and attacks once.
const attackOnce = otherProcesses + `
end = time.monotonic() + 2
while not list(spares()) and time.monotonic() < end: time.sleep(0.001)
for pid in others(): reach(pid)
print("done")
`

// attackAlways attacks until it is killed.
const attackAlways = otherProcesses + `
print("on", flush=True)
while True:
    for pid in others(): reach(pid)
    time.sleep(0.01)
`

// traceOwnChild traces its own child, as a debugger does.
const traceOwnChild = otherProcesses + `
pid = os.fork()
if pid == 0:
    os.setsid()
    time.sleep(60)
while os.getsid(pid) != pid: time.sleep(0.001)
if failed(libc.process_vm_readv(pid, vec, 1, ptr(ctypes.addressof(byte), 8), 1, 0)): print("refused its memory")
if failed(libc.ptrace(16, pid, 0, 0)): print("refused to be traced")
os.waitpid(pid, 0)
os.kill(pid, 9)
print("refused nothing")
`

// moveFiles moves files between directories in each file system that commands can write.
const moveFiles = `
set -e
for base in "$PWD" /tmp "$HOME"; do
	mkdir -p "$base/move/a/b" "$base/move/c"
	cd "$base/move"
	echo x >a/b/f
	mv a/b/f c/g
	ln c/g a/h
	mv a/b c/
	mv c/b .
	mv a/h c/h
	cat c/h
	cd "$OLDPWD"
	rm -r "$base/move"
done`

const haveNoPython = "command -v python3 >/dev/null || { echo no python3; exit; }\n"

func python(script string) string {
	return haveNoPython + "exec python3 -S -E - <<'PYTHON'\n" + script + "\nPYTHON"
}

// testProcessIsolation has a run attack every process that it did not start, while
// another does so all the time, and then runs commands with a known result.
func testProcessIsolation(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	if sh(t, box, haveNoPython).stdout != "" {
		t.Skip("the image has no python3")
	}
	want(t, sh(t, box, python(traceOwnChild)), 0, "refused nothing\n")
	beside := start(t, box, sandbox.Command{Cmd: python(attackAlways)})
	printed(t, beside, "on")
	onSpares := 0
	for n := range weekly.Or(50, 500) {
		want(t, sh(t, box, python(attackOnce)), 0, "done\n")
		r := sh(t, box, fmt.Sprintf("ls /nonexistent; wc -c </proc/$$/cmdline; echo round %d; ulimit -f; exit 7", n))
		length, rest, _ := strings.Cut(r.stdout, "\n")
		if len(length) > 3 {
			onSpares++
		}
		if r.Status != sandbox.Exited || r.Code != 7 || rest != fmt.Sprintf("round %d\nunlimited\n", n) || !strings.Contains(r.stderr, "/nonexistent") {
			t.Fatalf("round %d: %s, exit %d, %q, %q", n, r.Status, r.Code, r.stdout, r.stderr)
		}
	}
	if onSpares == 0 {
		t.Error("no run used a spare shell, so none was attacked")
	}
	t.Logf("%d runs on spare shells", onSpares)
	beside.Kill()
	if r := wait(t, beside); r.stdout != "on\n" {
		t.Errorf("the attacker beside all runs: %.2000q", r.stdout)
	}
}

// testAgentLimits checks that no command can set a limit of the agent. Without
// descriptors the agent would not see what a run leaves behind, and what it starts
// inherits its limits.
func testAgentLimits(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	r := sh(t, box, python(`
import resource
for limit in range(16):
    resource.prlimit(1, limit)
    resource.prlimit(0, limit, resource.prlimit(0, limit))
    for value in 0, 3, 1 << 20:
        try: resource.prlimit(1, limit, (value, value))
        except PermissionError: pass
        else: print("set limit", limit)
print("done")`))
	if r.stdout != "done\n" && r.stdout != "no python3\n" {
		t.Errorf("%q, %q", r.stdout, r.stderr)
	}
	r = sh(t, box, "setsid sleep 4300 >/dev/null 2>&1 & sleep 0.1")
	if len(r.Leftover) != 1 {
		t.Errorf("left over: %v", r.Leftover)
	}
	r.run.Kill()
	want(t, sh(t, box, "echo fine >/tmp/file && cat /tmp/file"), 0, "fine\n")
}

// testForgedSignals sends the agent every signal in every way that the kernel offers.
func testForgedSignals(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	r := sh(t, box, python(`
import ctypes, fcntl, os, signal, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
call = lambda *a: libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
numbers = {"x86_64": (129, 297, 424, 434, 234), "aarch64": (138, 240, 424, 434, 131)}
queue, tqueue, pidfd_send, pidfd_open, tgkill = numbers[os.uname().machine]
pidfd = call(pidfd_open, 1, 0)
threads = [int(t) for t in os.listdir("/proc/1/task")]
os.makedirs("/tmp/watched", exist_ok=True)
sent = 0
for number in range(1, 65):
    for code in -1, -2, -3, -4, -5, -6, -60, 0, 1, 2, 128:
        info = ctypes.create_string_buffer(struct.pack("iiiiiil", number, 0, code, 0, os.getpid(), os.getuid(), 1), 128)
        sent += call(queue, 1, number, info) == 0
        sent += call(pidfd_send, pidfd, number, info, 0) == 0
        for thread in threads: sent += call(tqueue, 1, thread, number, info) == 0
    for thread in threads: sent += call(tgkill, 1, thread, number) == 0
    call(pidfd_send, pidfd, number, None, 0)
    own = [(fcntl.F_SETOWN, 1)] + [(15, struct.pack("ii", kind, who)) for kind, who in [(1, 1)] + [(0, t) for t in threads]]
    for command, owner in own:
        r, w = os.pipe()
        d = os.open("/tmp/watched", os.O_RDONLY)
        for fd in r, d:
            fcntl.fcntl(fd, command, owner)
            fcntl.fcntl(fd, 10, number) # F_SETSIG
        fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
        fcntl.fcntl(d, 1026, 4) # F_NOTIFY, DN_CREATE
        os.write(w, b"x")
        name = f"/tmp/watched/{number}"
        os.close(os.open(name, os.O_CREAT | os.O_RDWR))
        f = os.open(name, os.O_RDONLY)
        fcntl.fcntl(f, 1024, 0) # F_SETLEASE, F_RDLCK
        fcntl.fcntl(f, command, owner)
        fcntl.fcntl(f, 10, number)
        try: os.open(name, os.O_WRONLY | os.O_NONBLOCK)
        except OSError: pass
        for fd in r, w, d, f: os.close(fd)
time.sleep(0.2)
print("done" if sent > 1000 else sent)`))
	if r.stdout != "done\n" && r.stdout != "no python3\n" {
		t.Fatalf("%s, exit %d, %q, %q, %v", r.Status, r.Code, r.stdout, r.stderr, r.Err)
	}
	want(t, sh(t, box, "echo alive"), 0, "alive\n")
}

// testScheduling gives every thread of the agent the lowest priority on one busy
// processor. Nothing forbids that to commands: thread libraries do it to their own
// threads.
func testScheduling(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	r := sh(t, box, python(`
import os
for thread in map(int, os.listdir("/proc/1/task")):
    cpu = min(os.sched_getaffinity(thread))
    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, thread, 19)
    os.sched_setaffinity(thread, {cpu})
print("done")`))
	if r.stdout != "done\n" && r.stdout != "no python3\n" {
		t.Fatalf("%q, %q", r.stdout, r.stderr)
	}
	const busy = "for n in 1 2 3 4; do (while :; do :; done) & done; while :; do :; done"
	if r := do(t, box, sandbox.Command{Cmd: busy, Timeout: time.Second}); r.Status != sandbox.TimedOut {
		t.Errorf("%s, %v", r.Status, r.Err)
	}
}
