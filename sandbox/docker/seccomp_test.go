package docker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/system"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// neverAllowed are calls that no change may add to the profile.
var neverAllowed = strings.Fields(`acct add_key bpf chroot clone3 delete_module finit_module fsconfig fsmount fsopen fspick
	init_module io_setup io_submit io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load
	kexec_load keyctl lookup_dcookie mount mount_setattr move_mount name_to_handle_at open_by_handle_at open_tree
	perf_event_open pidfd_getfd pivot_root process_madvise quotactl reboot request_key setdomainname sethostname setns
	settimeofday swapon syslog umount umount2 unshare userfaultfd vmsplice`)

func TestProfile(t *testing.T) {
	seen := make(map[string]string) // the action of each call that has no condition
	for _, rule := range ourProfile().Syscalls {
		for _, name := range rule.Names {
			if slices.Contains(neverAllowed, name) && rule.Action == "SCMP_ACT_ALLOW" {
				t.Errorf("%s is allowed", name)
			}
			if len(rule.Args) > 0 {
				continue
			}
			if seen[name] != "" {
				t.Errorf("%s is named twice", name)
			}
			seen[name] = rule.Action
		}
	}
	for _, rule := range ourProfile().Syscalls {
		for _, name := range rule.Names {
			if len(rule.Args) > 0 && seen[name] != "" {
				t.Errorf("%s has conditions, and is %s without", name, seen[name])
			}
		}
		indices := make(map[int]bool)
		for _, arg := range rule.Args {
			if indices[arg.Index] {
				t.Errorf("%v: two conditions on one argument can never hold both", rule)
			}
			indices[arg.Index] = true
		}
	}
}

// Podman gets the name of a file where Docker gets its text.
func TestProfileForPodman(t *testing.T) {
	l := New(Config{CacheDir: t.TempDir()})
	info := system.Info{SecurityOptions: []string{"name=seccomp,profile=default"}}
	near := &engine{podman: true, info: info, endpoint: endpoint{Host: "unix:///run/podman/podman.sock"}}
	for range 2 {
		p := new(plan)
		if err := l.chooseSeccomp(near, p); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(p.request.Seccomp)
		want, _ := json.Marshal(ourProfile())
		if err != nil || string(got) != string(want) {
			t.Errorf("%s has %.50q, %v", p.request.Seccomp, got, err)
		}
		if !p.withoutHost() || p.request.Seccomp != "" || len(p.notes) != 1 {
			t.Errorf("where Podman does not see the file: %q, notes %q", p.request.Seccomp, p.notes)
		}
	}
	far := &engine{podman: true, info: info, endpoint: endpoint{Host: "tcp://far:1"}}
	p := new(plan)
	if err := l.chooseSeccomp(far, p); err != nil || p.request.Seccomp != "" || len(p.notes) != 1 {
		t.Errorf("%q, notes %q, %v", p.request.Seccomp, p.notes, err)
	}
}

// A probe makes a call in the shell's python.
type probe struct{ name, python, want string }

// probes are calls that the profile decides by their arguments, as seen from a box.
var probes = []probe{
	{"tcp", `socket.socket(socket.AF_INET, socket.SOCK_STREAM)`, "ok"},
	{"tcp by number", `socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 6)`, "ok"},
	{"udp", `socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)`, "ok"},
	{"unix", `socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)`, "ok"},
	{"flags beside the type", `socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)`, "ok"},
	{"pair", `socket.socketpair()`, "ok"},
	{"interfaces", `socket.if_nameindex()`, "ok"},
	{"sctp", `socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)`, "refused"},
	{"sctp by packets", `socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET)`, "refused"},
	{"dccp", `socket.socket(socket.AF_INET, 6, 33)`, "refused"},
	{"l2tp", `socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 115)`, "refused"},
	{"raw", `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`, "refused"},
	{"AF_ALG", `socket.socket(38, 5, 0)`, "refused"},
	{"AF_VSOCK", `socket.socket(40, 1, 0)`, "refused"},
	{"a pair of AF_TIPC", `call(53, 30, 1, 0, buf)`, "refused"},
	{"netlink audit", `socket.socket(16, 3, 9)`, "refused"},
	{"netlink filter", `socket.socket(16, 3, 12)`, "refused"},
	{"family behind high bits", `call(41, 38 | 1 << 32, 5, 0)`, "refused"},
	{"clone into a name space of users", `call(56, 0x10000011, 0, 0, 0, 0)`, "refused"},
	{"clone3", `call(435, buf, 88)`, "absent"},
	{"asking for the personality", `call(135, 0xffffffff)`, "ok"},
	{"fixed addresses", `call(135, 0x0040000)`, "ok"},
	{"what is read can be run", `call(135, 0x0400000)`, "refused"},
	{"io_uring", `call(425, 8, buf)`, "refused"},
	{"unshare", `call(272, 0x10000000)`, "refused"},
	{"one's own limits", `call(302, 0, 7, buf, 0)`, "ok"},
	{"reading another's limits", `call(302, 1, 7, 0, buf)`, "ok"},
	{"another's limits", `call(302, 1, 7, buf, 0)`, "refused"},
	{"one's own by number", `call(302, __import__("os").getpid(), 7, buf, 0)`, "refused"},
	{"another's behind high bits", `call(302, 1 | 1 << 32, 7, buf, 0)`, "refused"},
	{"a domain", `call(444, 0, 0, 1)`, "ok"},
	{"a long attribute", `open("/tmp/a", "w"); os.setxattr("/tmp/a", "user.a", bytes(997))`, "E2BIG"},
	{"an access control list", `os.setxattr(os.open("/tmp/a", os.O_CREAT), "system.posix_acl_access", acl(120))`, "ok"},
	{"an access control list of 8,000 entries", `os.setxattr("/tmp/a", "system.posix_acl_access", acl(8000))`, "E2BIG"},
	{"one of a file without a name", `os.setxattr(os.memfd_create("a"), "system.posix_acl_access", acl(8000))`, "E2BIG"},
	{"one of a link", `os.setxattr("/tmp/a", "system.posix_acl_access", acl(8000), follow_symlinks=False)`, "E2BIG"},
	{"a size behind high bits", `call(190, os.open("/tmp/a", os.O_CREAT), b"user.a", buf, 1 << 32, 0)`, "E2BIG"},
	{"message queues", `call(68, 0x77, 0o1600)`, "ok"},
}

const python = `import ctypes, errno, os, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
buf = ctypes.create_string_buffer(256)
def call(*args):
    r = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0: raise OSError(ctypes.get_errno(), "")
def acl(users):
    entries = [(1, 7, -1)] + [(2, 7, 1000)] * users + [(4, 7, -1), (16, 7, -1), (32, 7, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)
try:
    %s
    print("ok")
except OSError as e:
    print({errno.EPERM: "refused", errno.ENOSYS: "absent"}.get(e.errno, errno.errorcode[e.errno]))
`

func TestProfileInABox(t *testing.T) {
	box := startBox(t, sandbox.Spec{})
	if requireEngine(t).info.Architecture != "x86_64" {
		t.Skip("the calls are those of x86_64")
	}
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			boxtest.Expect(t, box, "python3 - <<'EOF'\n"+strings.Replace(python, "%s", p.python, 1)+"EOF", 0, p.want+"\n")
		})
	}
}

// startBox returns a box with an empty workspace that its commands can write.
func startBox(t *testing.T, spec sandbox.Spec) *sandbox.Box {
	t.Helper()
	return startBoxWith(t, Config{}, spec)
}

func startBoxWith(t *testing.T, c Config, spec sandbox.Spec) *sandbox.Box {
	t.Helper()
	if spec.Workspace == "" {
		spec.Workspace = t.TempDir()
	}
	makeWritable(spec.Workspace, 1000, 1000)
	box, _, err := boxtest.Manager(t, newLauncher(t, c), spec).Start(t.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// copyTestdata copies a file of testdata to a directory.
func copyTestdata(t *testing.T, name, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Under the engine's own profile commands can set limits of the agent. That hides
// nothing: the box ends and says why.
func TestLoweredLimitEndsTheBox(t *testing.T) {
	box := startBoxWith(t, Config{SeccompProfile: EngineSeccomp}, sandbox.Spec{Spares: 1})
	for range 3 { // spare shells start and are used as always
		boxtest.Expect(t, box, "ls /nonexistent 2>/dev/null; echo fine; exit 7", 7, "fine\n")
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: `setsid sleep 4400 >/dev/null 2>&1 & python3 -c "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))"`})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	if e := run.Exit(); e.Status != sandbox.Lost || !strings.Contains(e.Err.Error(), "a command lowered RLIMIT_NOFILE") {
		t.Errorf("%s, exit %d, %v, left over %v", e.Status, e.Code, e.Err, e.Leftover)
	}
}
