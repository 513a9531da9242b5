package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/system"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/docker/enginetest"
)

func TestEngineThatMapsUsers(t *testing.T) {
	e := privateEngine(t, enginetest.Config{UserNS: true}, enginetest.Base(t, DefaultImage))
	t.Run("a box", func(t *testing.T) { eachTransport(t, mappedBox(e)) })
	t.Run("a workspace of the user's", func(t *testing.T) { eachTransport(t, mappedWorkspace(e)) })
	t.Run("a workspace of another user", func(t *testing.T) { foreignWorkspace(t, e) })
	t.Run("nothing escapes", func(t *testing.T) { mappedEscape(t, e) })
}

func mappedBox(e *enginetest.Engine) func(*testing.T, *Launcher) {
	return func(t *testing.T, l *Launcher) {
		b := launch(t, l, sandbox.Spec{})
		out, code := sh(t, b, greet(t, b), `whoami; id -u; touch ~/there "$TMPDIR"/temp && echo x >file; cat /proc/self/uid_map`)
		if want := fmt.Sprintf("agent 1000 0 %d 65536", e.First); strings.Join(strings.Fields(out), " ") != want || code != 0 {
			t.Errorf("got %q, exit %d, want %q", out, code, want)
		}
		if uid, gid := fileOwner(filepath.Join(b.Place().Workspace, "file")); uid != e.First+1000 || gid != e.First+1000 {
			t.Errorf("on the host its files are %d:%d's", uid, gid)
		}
		if info, err := os.Stat(b.Place().Workspace); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("the workspace is open to others: %v, %v", info.Mode(), err)
		}
		if got := b.Place().Path; got != l.config.Transport {
			t.Errorf("path %q, want %q", got, l.config.Transport)
		}
	}
}

// mappedWorkspace checks that a box runs as the owner of its workspace on the host.
func mappedWorkspace(e *enginetest.Engine) func(*testing.T, *Launcher) {
	return func(t *testing.T, l *Launcher) {
		dir := t.TempDir()
		if err := os.Chown(dir, e.First+1234, e.First+1235); err != nil {
			t.Fatal(err)
		}
		b := launch(t, l, sandbox.Spec{Workspace: dir})
		if out, code := sh(t, b, greet(t, b), "id -u; id -g; echo hi >file"); out != "1234\n1235\n" || code != 0 {
			t.Errorf("got %q, exit %d", out, code)
		}
		if uid, gid := fileOwner(filepath.Join(dir, "file")); uid != e.First+1234 || gid != e.First+1235 {
			t.Errorf("on the host its files are %d:%d's", uid, gid)
		}
	}
}

// foreignWorkspace checks that a launch refuses a workspace that commands cannot
// write.
func foreignWorkspace(t *testing.T, e *enginetest.Engine) {
	l := newLauncher(t, Config{})
	dir := t.TempDir()
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	_, err := l.Launch(t.Context(), "foreign", sandbox.Spec{Workspace: dir})
	hint := fmt.Sprintf("chown -R %d:%[1]d %s", e.First+1000, dir)
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Hint, hint) || !strings.Contains(e.Text, "userns-remap") {
		t.Errorf("got %v, want a hint to %s", err, hint)
	}
	b := launch(t, l, sandbox.Spec{Workspace: dir, ReadOnly: true})
	if out, code := sh(t, b, greet(t, b), "id -u; ls -a"); out != "1000\n.\n..\n" || code != 0 {
		t.Errorf("to be read only: %q, exit %d", out, code)
	}
}

func mappedEscape(t *testing.T, e *enginetest.Engine) {
	dir := t.TempDir()
	copyTestdata(t, escapeChecks, dir)
	if err := os.Chown(dir, e.First+1000, e.First+1000); err != nil {
		t.Fatal(err)
	}
	b := launch(t, newLauncher(t, Config{}), sandbox.Spec{Workspace: dir})
	out, code := sh(t, b, greet(t, b), "bash /workspace/"+escapeChecks)
	if failed := verdicts(out, "FAIL"); code != 0 || len(failed) > 0 || len(verdicts(out, "total")) != 1 {
		t.Errorf("exit %d, %v\n%s", code, verdicts(out, "total"), strings.Join(failed, "\n"))
	}
}

func TestBoxOnAnEngineThatMapsUsers(t *testing.T) {
	weekly.Only(t)
	privateEngine(t, enginetest.Config{UserNS: true}, DefaultImage)
	TestBox(t)
}

// Podman gives a box ids of its own, in which the box's user keeps its id. A launch
// on another engine is refused, and not made less isolated.
func TestOwnIDsNeedPodman(t *testing.T) {
	podman, docker := &engine{podman: true}, &engine{endpoint: endpoint{Host: "unix:///var/run/docker.sock"}}
	for name, c := range map[string]struct {
		engine   *engine
		want     bool
		mode     string
		refusing string
	}{
		"podman":                {podman, true, "auto:uidmapping=1000:1000:1,gidmapping=100:100:1", ""},
		"podman, not asked for": {podman, false, "", ""},
		"docker":                {docker, true, "", "The engine at unix:///var/run/docker.sock cannot give a box user ids of its own"},
		"docker, not asked for": {docker, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := request{UID: 1000, GID: 100}
			err := New(Config{OwnIDs: c.want}).mapIDs(c.engine, &r)
			if (err != nil) != (c.refusing != "") || err != nil && !strings.HasPrefix(err.Error(), c.refusing) {
				t.Errorf("got %v, want %q", err, c.refusing)
			}
			if _, host := r.container(); string(host.UsernsMode) != c.mode {
				t.Errorf("the request says %q, want %q", host.UsernsMode, c.mode)
			}
		})
	}
}

func TestIDMapping(t *testing.T) {
	mapped := []string{"name=seccomp,profile=default", "name=userns"}
	for _, c := range []struct {
		dir     string
		options []string
		want    idMapping
	}{
		{"/var/lib/docker/100000.100001", mapped, idMapping{100000, 100001}},
		{"/var/lib/docker/100000.100001", mapped[:1], idMapping{}},
		{"/var/lib/docker", mapped, idMapping{}},
		{"/data/1.5", mapped[:1], idMapping{}},
		{"/data/0.0", mapped, idMapping{}},
		{"/data/-1.1000", mapped, idMapping{}},
		{"", mapped, idMapping{}},
	} {
		e := &engine{info: system.Info{DockerRootDir: c.dir, SecurityOptions: c.options}}
		if got := e.idMapping(); got != c.want {
			t.Errorf("%s, %v: %v, want %v", c.dir, c.options, got, c.want)
		}
	}
	for id, want := range map[int]int{0: 0, 1000: 0, 100000: 0, 101000: 1000, 165535: 65535, 165536: 0} {
		if got := mapID(id, 100000); got != want {
			t.Errorf("user %d is %d in a box, want %d", id, got, want)
		}
	}
	if got := mapID(1000, 0); got != 1000 {
		t.Errorf("user 1000 is %d in a box of an engine that maps nothing", got)
	}
}

// asRootless names the variable that tells a test process that it is the user of a
// rootless engine.
const asRootless = "WARMBOX_AS_ROOTLESS"

// TestRootless runs TestRootlessBox as the user who runs a rootless engine, as in
// practice.
func TestRootless(t *testing.T) {
	e := enginetest.Start(t, enginetest.Config{Rootless: true})
	e.Load(enginetest.Base(t, DefaultImage), DefaultImage)
	home := filepath.Join(e.Dir, "home")
	// By this name, since its own may lie in a directory of root's.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^TestRootlessBox$")
	cmd.Dir = home
	cmd.Env = append(os.Environ(), asRootless+"=1", "WARMBOX_REQUIRE=docker", "DOCKER_HOST="+e.Host, "HOME="+home, "TMPDIR="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(e.UID), Gid: uint32(e.GID)}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRootlessBox") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Setenv("DOCKER_HOST", e.Host)
	t.Run("of another user", foreignEngine)
}

// foreignEngine uses an engine that may not enter our directories: what lay on the
// host lies in the box, and a named workspace is refused.
func foreignEngine(t *testing.T) {
	l := newLauncher(t, Config{})
	b := launch(t, l, sandbox.Spec{})
	if out, code := sh(t, b, greet(t, b), "pwd; echo x >file"); out != home+"/workspace\n" || code != 0 {
		t.Errorf("got %q, exit %d", out, code)
	}
	dir := t.TempDir()
	_, err := l.Launch(t.Context(), "named", sandbox.Spec{Workspace: dir})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Text, "does not see the workspace "+dir) {
		t.Errorf("got %v", err)
	}
}

func TestRootlessBox(t *testing.T) {
	if os.Getenv(asRootless) == "" {
		t.Skip("is run by TestRootless")
	}
	eachTransport(t, func(t *testing.T, l *Launcher) {
		named := t.TempDir()
		for _, workspace := range []string{"", named} {
			b := launch(t, l, sandbox.Spec{Workspace: workspace})
			out, code := sh(t, b, greet(t, b), `whoami; id -u; pwd; grep CapBnd /proc/self/status; touch ~/there "$TMPDIR"/temp && echo x >file`)
			if want := "root 0 /workspace CapBnd: 0000000000000000"; strings.Join(strings.Fields(out), " ") != want || code != 0 {
				t.Errorf("got %q, exit %d, want %q", out, code, want)
			}
			if uid, _ := fileOwner(filepath.Join(b.Place().Workspace, "file")); uid != os.Getuid() {
				t.Errorf("on the host its files are %d's", uid)
			}
			b.Close()
		}
		found, err := l.Probe(t.Context())
		if err != nil || !found.Rootless || found.UserNS || found.FirstUID != 0 {
			t.Errorf("%+v, %v", found, err)
		}
	})
}
