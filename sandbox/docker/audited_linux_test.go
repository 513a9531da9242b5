package docker

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// TestPrograms checks that programs are recorded, and in the weekly run that recording them
// changes nothing else.
func TestPrograms(t *testing.T) {
	boxtest.Programs(t, newLauncher(t, Config{}), sandbox.Spec{Spares: 1})
	t.Run("box", func(t *testing.T) {
		weekly.Only(t)
		eachTransport(t, func(t *testing.T, l *Launcher) {
			boxtest.Run(t, l, sandbox.Spec{Spares: 1, AuditPrograms: true})
		})
	})
}

// TestNothingEscapesWhereProgramsAreRecorded runs the checks of TestNothingEscapes.
func TestNothingEscapesWhereProgramsAreRecorded(t *testing.T) {
	workspace := t.TempDir()
	copyTestdata(t, escapeChecks, workspace)
	box := startBox(t, sandbox.Spec{Workspace: workspace, AuditPrograms: true})
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "bash /workspace/" + escapeChecks + " | grep -v ^ok"})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	stdout, _ := run.Output(excerpt.Limits{Whole: 1 << 20})
	if failed := verdicts(stdout.Text, "FAIL"); len(failed) > 0 || len(verdicts(stdout.Text, "total")) != 1 {
		t.Errorf("%+v\n%s", run.Exit(), stdout.Text)
	}
}

// TestCommandsCannotUseTheFilterOfTheAudit: a command has no descriptor of the filter that
// reports programs, gets none of its own, and a filter of its own hides nothing that it executes.
func TestCommandsCannotUseTheFilterOfTheAudit(t *testing.T) {
	box := startBox(t, sandbox.Spec{AuditPrograms: true})
	const script = `python3 - <<'EOF'
import ctypes, os, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    r = libc.syscall(*args)
    return r if r >= 0 else -ctypes.get_errno()
class Prog(ctypes.Structure): _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
def filtered(flags, *code):
    text = b"".join(struct.pack("HBBI", *i) for i in code)
    prog = Prog(len(code), text)
    return call(SECCOMP, 1, flags, ctypes.byref(prog))
SECCOMP = 317 if os.uname().machine == "x86_64" else 277
allow = (6, 0, 0, 0x7fff0000)
print("a listener", filtered(8, allow))
links = [os.readlink("/proc/self/fd/%d" % f) for f in range(64) if os.path.lexists("/proc/self/fd/%d" % f)]
print("descriptors", [l for l in links if "seccomp" in l])
try: os.listdir("/proc/1/fd"); print("the agent's descriptors")
except PermissionError: print("refused")
print("a filter", filtered(0, allow))
print("tracing", filtered(0, (0x20, 0, 0, 0), (0x15, 0, 1, 59 if SECCOMP == 317 else 221), (6, 0, 0, 0x7ff00000), allow))
sys.stdout.flush()
subprocess.run(["/bin/echo", "seen"])
EOF`
	// The filter of the audit is stronger than one that leaves a call to a tracer, which none is.
	boxtest.Expect(t, box, script, 0, "a listener -16\ndescriptors []\nrefused\na filter 0\ntracing 0\nseen\n")
}
