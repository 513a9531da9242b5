package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/agentbin"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

func doctorCommand() Command {
	return Command{
		Name:  "doctor",
		Short: "looks at all that warmbox needs, and says what to do about what is missing",
		Long: "Looks at all that warmbox needs: the engine, the image, the agent, limits, directories. Then it starts a box and\n" +
			"runs a command in it. Each line says ok, warn or fail, and what to do. It exits with 1 if anything failed.",
		Run: examine,
	}
}

// A doctor looks at one thing after the other and tells of each at once: the
// next one may take its time.
type doctor struct {
	*Call
	out    io.Writer
	failed bool
}

func examine(ctx context.Context, c *Call) error {
	d := &doctor{Call: c, out: c.Stdout}
	d.checkConfig()
	d.checkSecrets()
	logsKept := d.checkLogs()
	d.checkSummary(ctx)
	d.checkHTTP()
	ready := true
	if c.Config.Backend == "docker" {
		ready = d.checkEngine(ctx)
	} else {
		d.warn("backend", "process isolates nothing: commands run on this machine, as this user", "use --backend docker where an engine is at hand")
		ready = d.checkAgent(ctx, runtime.GOARCH)
	}
	if ready && logsKept {
		d.checkBox(ctx)
	}
	if d.failed {
		return &codeError{code: exitFailed}
	}
	return nil
}

func (d *doctor) ok(about, what string) { d.say("ok", about, what, "") }

func (d *doctor) warn(about, what, try string) { d.say("warn", about, what, try) }

func (d *doctor) fail(about string, err error) {
	var try string
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		try = e.Hint
	}
	d.failed = true
	d.say("fail", about, err.Error(), try)
}

func (d *doctor) say(verdict, about, what, try string) {
	fmt.Fprintf(d.out, "%-4s  %-9s  %s\n", verdict, about, what)
	if try != "" {
		fmt.Fprintf(d.out, "%-4s  %-9s  → %s\n", "", "", try)
	}
}

func (d *doctor) checkConfig() {
	d.ok("version", "warmbox "+Version())
	if d.Config.file == "" {
		d.ok("config", "no configuration file, so the defaults hold")
	} else {
		d.ok("config", "read from "+d.Config.file)
	}
	for name, meant := range misspelt() {
		d.warn("config", "the environment variable "+name+" means nothing", "did you mean "+meant+"?")
	}
}

// checkSecrets tells of settings that mask nothing.
func (d *doctor) checkSecrets() {
	values, holes := d.Config.masked()
	for _, hole := range holes {
		what, try, _ := strings.Cut(hole, "; ")
		d.warn("secrets", what, try)
	}
	if len(values) > 0 {
		d.ok("secrets", excerpt.Count(int64(len(values)), "value")+" masked, besides secrets of well-known forms")
	}
}

func (d *doctor) checkLogs() bool {
	logs, err := newLogs(d.Config, d.Log)
	if err != nil {
		d.fail("logs", err)
		return false
	}
	d.ok("logs", "raw logs are kept in "+logs.Dir)
	return true
}

func (d *doctor) checkAgent(ctx context.Context, arch string) bool {
	err := agentbin.Ensure(ctx, arch)
	var size int64
	if err == nil {
		_, size, err = agentbin.Describe(arch)
	}
	if err != nil {
		d.fail("agent", err)
		return false
	}
	d.ok("agent", fmt.Sprintf("for linux/%s, %.1f MB", arch, float64(size)/1e6))
	return true
}

// checkEngine reports whether a box can be tried.
func (d *doctor) checkEngine(ctx context.Context) bool {
	launcher, err := NewDocker(d.Config, d.Log)
	var e docker.Engine
	if err == nil {
		e, err = launcher.Probe(ctx)
	}
	if err != nil {
		d.fail("engine", err)
		return false
	}
	rootless := ""
	if e.Rootless {
		rootless = ", rootless"
	}
	d.ok("engine", fmt.Sprintf("version %s at %s (%s%s); %s/%s, %d CPUs, %d GB of memory",
		e.Version, e.Endpoint, e.Found, rootless, e.OS, e.Arch, e.CPUs, e.Memory>>30))
	d.checkRunc(e)
	d.checkUsers(e)
	d.checkLimits(e)
	agent := d.checkAgent(ctx, e.Arch)
	return d.checkImage(e) && agent
}

func (d *doctor) checkRunc(e docker.Engine) {
	switch {
	case e.RuncWarning != "":
		d.warn("runc", e.Runc+": "+e.RuncWarning, "")
	case e.Runc != "":
		d.ok("runc", e.Runc)
	}
}

// sharedQuotas is what the kernel counts for a user and no limit of a box can divide.
const sharedQuotas = "the kernel counts inotify instances and the memory of pipes for a user, so commands can use up what that user has of them, here and in other boxes"

// checkUsers tells where users of boxes are not the same on this machine, and what
// boxes and the user here share where they are.
func (d *doctor) checkUsers(e docker.Engine) {
	switch {
	case e.Rootless:
		d.ok("users", "the engine is rootless: commands are user 0 of its user name space, and on this machine the user who runs it")
	case e.FirstUID != 0:
		d.ok("users", fmt.Sprintf("the engine maps user ids: user 1000 of a box is user %d of this machine, and needs to write to the workspace", e.FirstUID+1000))
	case e.UserNS:
		d.ok("users", "the engine maps user ids: a box's user is another one on this machine, and needs to write to the workspace")
	case e.Podman && d.Config.UserNS != "auto":
		d.say("ok", "users", "a box's user is the same one on this machine; "+sharedQuotas,
			`userns = "auto" gives each box ids of its own, all but its user's, so what boxes write still belongs to that one; inotify instances of all boxes then count for the engine's user together`)
	case !e.Podman:
		d.say("ok", "users", "a box's user is the same one on this machine; "+sharedQuotas,
			`to keep them from your user, set "userns-remap": "default" in the engine's daemon.json and restart it, which hides its images and containers. User 1000 of a box is then user 101000 or so here: `+
				`what boxes write belongs to that one, and a workspace must let it write, e.g. setfacl -R -m u:101000:rwX,d:u:101000:rwX DIR, with user = "1000:1000". `+
				`Boxes still share the memory of pipes with each other, and inotify instances with each other and with root`)
	}
}

func (d *doctor) checkLimits(e docker.Engine) {
	cgroup := fmt.Sprintf("cgroup v%s (%s)", e.Cgroup, e.CgroupDriver)
	if len(e.Unlimited) > 0 {
		d.warn("limits", cgroup+" does not enforce limits of "+strings.Join(e.Unlimited, ", ")+": a box can take more of them than it should",
			"have the kernel or the init system delegate these controllers to the engine")
		return
	}
	d.ok("limits", cgroup+" enforces memory, swap, CPUs and processes")
}

func (d *doctor) checkImage(e docker.Engine) bool {
	switch err := MissingImage(e); {
	case e.HasImage:
		d.ok("image", e.Image+" exists")
		return true
	case err != nil:
		d.fail("image", err)
	default:
		d.warn("image", e.Image+" is not on the engine; the first box pulls it, and starts later by that time", "docker pull "+e.Image)
	}
	return false
}

// boxPatience bounds the trial: a box takes well under a second to start.
const boxPatience = 30 * time.Second

// checkBox starts a box the way that a client would, and runs a command.
func (d *doctor) checkBox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, boxPatience)
	defer cancel()
	manager, err := newManager(d.Config, d.Log)
	if err != nil {
		d.fail("box", err)
		return
	}
	defer manager.Close()
	start := time.Now()
	box, err := manager.DefaultBox(ctx, sandbox.Owner{}, nil)
	if err != nil {
		d.fail("box", err)
		return
	}
	started := time.Since(start)
	took, err := fastest(ctx, box)
	if err != nil {
		d.fail("box", err)
		return
	}
	d.ok("box", fmt.Sprintf("started in %v, reached by its %s; a command takes %v",
		started.Round(time.Millisecond), box.Place.Path, took.Round(10*time.Microsecond)))
	for _, note := range box.Place.Notes {
		d.warn("box", note, "")
	}
	d.checkWorkspace(ctx, box)
}

// checkWorkspace finds out whether commands may write where they work: a
// directory that root made is not theirs.
func (d *doctor) checkWorkspace(ctx context.Context, box *sandbox.Box) {
	exit, err := try(ctx, box, "test -w .")
	switch {
	case err != nil:
		d.fail("workspace", err)
	case d.Config.WorkspaceMode == "ro":
		d.ok("workspace", box.Place.Workspace+", to be read only")
	case exit.Code != 0:
		d.warn("workspace", "commands cannot write to "+box.Place.Workspace, "give it to the user that they run as: chown -R 1000:1000 "+box.Place.Workspace)
	case d.Config.Workspace == "":
		d.ok("workspace", "each box gets one of its own in "+filepath.Dir(box.Place.Workspace))
	default:
		d.ok("workspace", box.Place.Workspace)
	}
}

// fastest runs a command that does nothing a few times: the first one pays for
// what later ones find ready.
func fastest(ctx context.Context, box *sandbox.Box) (best time.Duration, err error) {
	const times = 5
	for range times {
		exit, err := try(ctx, box, "true")
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("a command that does nothing ended with %s, code %d", exit.Status, exit.Code)
		}
		if err != nil {
			return 0, err
		}
		if best == 0 || exit.Took < best {
			best = exit.Took
		}
	}
	return best, nil
}

func try(ctx context.Context, box *sandbox.Box, cmd string) (sandbox.Exit, error) {
	run, err := box.Exec(ctx, sandbox.Command{Cmd: cmd, Timeout: boxPatience})
	if err != nil {
		return sandbox.Exit{}, err
	}
	select {
	case <-run.Done():
		return run.Exit(), run.Exit().Err
	case <-ctx.Done():
		return sandbox.Exit{}, fmt.Errorf("the command %q has not ended: %w", cmd, ctx.Err())
	}
}
