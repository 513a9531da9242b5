package enginetest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Config says what kind of engine to start. Its zero value is an ordinary one.
type Config struct {
	UserNS   bool     // user ids in containers are others on the host
	Rootless bool     // the engine runs as an ordinary user
	Args     []string // more for dockerd's command line, such as --live-restore
}

// An Engine is a dockerd for one test.
type Engine struct {
	Host     string // as in DOCKER_HOST
	Dir      string // holds all files of the engine
	UID, GID int    // of the user who runs the engine
	First    int    // the first mapped user id on the host; 0 without a mapping

	t          testing.TB
	config     Config
	containerd *process // nil on an engine without root, whose dockerd starts one
	dockerd    *process
	stopped    bool
}

const (
	// startTime bounds the time in which an engine answers or ends. It takes half a
	// second on an idle machine.
	startTime = 60 * time.Second

	// mappedUser is a user that every machine has and no person works as. User ids are
	// mapped for it, and rootless engines run as it.
	mappedUser = "daemon"

	// firstID is the first of the mapped user ids. It is beyond those of people and of
	// what distributions assign.
	firstID = 3 << 20
)

// Start starts an engine that ends with the test.
func Start(t testing.TB, c Config) *Engine {
	t.Helper()
	who := require(t, c)
	e := &Engine{t: t, config: c}
	var err error
	// It contains sockets, whose paths must be short.
	if e.Dir, err = os.MkdirTemp("", "wbengine"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	if c.Rootless {
		e.UID, _ = strconv.Atoi(who.Uid)
		e.GID, _ = strconv.Atoi(who.Gid)
	}
	if c.Rootless || c.UserNS {
		e.First = firstID
	}
	e.Host = "unix://" + e.path("run/docker.sock")
	if err := e.createFiles(); err != nil {
		t.Fatal(err)
	}
	if !c.Rootless {
		e.containerd = e.spawn("containerd", e.inNewSpace("containerd", "-c", e.path("containerd.toml"))...)
		e.await("containerd", e.containerd, func() bool { return listens(e.path("run/containerd.sock")) })
	}
	e.start()
	return e
}

// require skips a test if something is missing, or fails it if WARMBOX_REQUIRE demands
// it, and returns the user that ids are mapped for.
func require(t testing.TB, c Config) *user.User {
	t.Helper()
	name, programs := "engine", []string{"dockerd", "containerd", "unshare", "nsenter", "mount"}
	if c.Rootless {
		name, programs = "rootless", append(programs, "rootlesskit", "newuidmap", "setpriv")
	}
	missing := t.Skipf
	if slices.Contains(strings.Split(os.Getenv("WARMBOX_REQUIRE"), ","), name) {
		missing = t.Fatalf
	}
	if os.Getuid() != 0 {
		missing("a private engine needs root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing("a private engine: %v", err)
		}
	}
	who, err := user.Lookup(mappedUser)
	for _, table := range []string{"/etc/subuid", "/etc/subgid"} {
		if _, serr := os.Stat(table); err == nil && (c.UserNS || c.Rootless) {
			err = serr
		}
	}
	if err != nil {
		missing("a private engine: %v", err)
	}
	return who
}

func (e *Engine) path(name string) string { return filepath.Join(e.Dir, name) }

// createFiles creates the directories and files of the engine.
func (e *Engine) createFiles() error {
	// The root user of a container must reach what is mounted there.
	if err := os.Chmod(e.Dir, 0o711); err != nil {
		return err
	}
	for _, dir := range []string{"run", "data", "exec", "home", "over/run/containerd", "over/etc/docker"} {
		if err := os.MkdirAll(e.path(dir), 0o711); err != nil {
			return err
		}
	}
	for _, dir := range []string{"run", "data", "exec", "home"} {
		if err := os.Chown(e.path(dir), e.UID, e.GID); err != nil {
			return err
		}
	}
	files := map[string]string{"daemon.json": "{}\n", "containerd.toml": fmt.Sprintf(containerdConfig, e.Dir)}
	if e.First != 0 {
		files["over/etc/subuid"] = fmt.Sprintf("%s:%d:65536\n", mappedUser, e.First)
		files["over/etc/subgid"] = files["over/etc/subuid"]
	}
	for name, text := range files {
		if err := os.WriteFile(e.path(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const containerdConfig = `version = 2
root = "%[1]s/data/containerd"
state = "%[1]s/exec/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "%[1]s/run/containerd.sock"
`

// inNewSpace returns a command in a mount and a network name space of its own. Files of
// the engine cover those of the machine at a few places there: so the engine meets no
// other containerd, ignores the machine's configuration, and has user ids to map. Its
// mounts end with the name space. On the machine's network a dockerd without a bridge
// would remove the bridge of another.
func (e *Engine) inNewSpace(args ...string) []string {
	const cover = `for p in run/containerd etc/docker etc/subuid etc/subgid; do
	[ ! -e "$1/$p" ] || [ ! -e "/$p" ] || mount --bind "$1/$p" "/$p" || exit
done
shift
exec "$@"`
	return append([]string{"unshare", "--net", "--mount", "--propagation", "slave", "sh", "-c", cover, "sh", e.path("over")}, args...)
}

// start starts dockerd and waits until it answers.
func (e *Engine) start() {
	e.t.Helper()
	for _, pid := range []string{"run/dockerd.pid", "exec/containerd/containerd.pid"} {
		os.Remove(e.path(pid)) // dockerd trusts it, whatever process has the pid now
	}
	e.dockerd = e.spawn("dockerd", e.command()...)
	e.await("dockerd", e.dockerd, func() bool { return e.ping() == nil })
}

func (e *Engine) command() []string {
	dockerd := []string{"dockerd", "--config-file", e.path("daemon.json"), "-H", e.Host, "-p", e.path("run/dockerd.pid"),
		"--data-root", e.path("data"), "--exec-root", e.path("exec"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"}
	if e.config.Rootless {
		return e.rootless(append(dockerd, e.config.Args...))
	}
	dockerd = append(dockerd, "--containerd", e.path("run/containerd.sock"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", "/"+e.group())
	if e.config.UserNS {
		dockerd = append(dockerd, "--userns-remap", mappedUser)
	}
	spaces := fmt.Sprintf("/proc/%d/ns/", e.containerd.cmd.Process.Pid)
	return append([]string{"nsenter", "--mount=" + spaces + "mnt", "--net=" + spaces + "net"}, append(dockerd, e.config.Args...)...)
}

// rootless returns the command that becomes an ordinary user, and then root of that
// user's name space for dockerd. It gets no network of its own: it needs none.
func (e *Engine) rootless(dockerd []string) []string {
	const run = `rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@" --rootless`
	kit := []string{"setpriv", "--reuid", strconv.Itoa(e.UID), "--regid", strconv.Itoa(e.GID), "--clear-groups",
		"rootlesskit", "--state-dir", e.path("run/rootlesskit"), "--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave",
		"sh", "-c", run, "sh"}
	return e.inNewSpace(append(kit, dockerd...)...)
}

// Kill ends dockerd as a crash does. Its containers continue, as they do where
// containerd is a separate service; without --live-restore the next dockerd ends them.
// Those of a rootless engine continue too, and its containerd does not.
func (e *Engine) Kill() {
	e.t.Helper()
	e.signal(syscall.SIGKILL)
	e.awaitExit()
}

// Restart shuts dockerd down, if it runs, and starts another with the same data.
func (e *Engine) Restart() {
	e.t.Helper()
	if e.dockerd.runs() {
		e.signal(syscall.SIGTERM)
		e.awaitExit()
	}
	e.start()
}

// Pause makes the engine hang: connections to it succeed, and no request is answered.
func (e *Engine) Pause() {
	e.t.Helper()
	pid := e.signal(syscall.SIGSTOP)
	e.await("a paused dockerd", e.dockerd, func() bool { return Stopped(pid) })
}

// Resume ends the effect of Pause.
func (e *Engine) Resume() {
	e.t.Helper()
	e.signal(syscall.SIGCONT)
}

// signal signals dockerd itself and returns its pid. On a rootless engine it is a
// descendant of the process that was started.
func (e *Engine) signal(s syscall.Signal) int {
	e.t.Helper()
	if !e.dockerd.runs() {
		e.t.Fatalf("cannot send %v: dockerd does not run", s)
	}
	text, err := os.ReadFile(e.path("run/dockerd.pid"))
	if err != nil {
		e.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err := cmp.Or(err, syscall.Kill(pid, s)); err != nil {
		e.t.Fatalf("signal dockerd: %v", err)
	}
	return pid
}

func (e *Engine) awaitExit() {
	e.t.Helper()
	select {
	case <-e.dockerd.done:
	case <-time.After(startTime):
		e.t.Fatalf("dockerd has not ended within %v\n%s", startTime, e.dockerd.tail())
	}
}
