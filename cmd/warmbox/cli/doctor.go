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
	"github.com/warmbox/warmbox/sandbox/policy"
)

func doctorCommand() Command {
	return Command{
		Name:  "doctor",
		Short: "checks everything that warmbox needs, and says how to fix what is missing",
		Long: "Checks everything that warmbox needs: the engine, the image, the agent, limits, directories. Then it starts a\n" +
			"box and runs a command in it. Each line says ok, warn or fail, and what to do. It exits with 1 if a check failed.",
		Run: examine,
	}
}

// A doctor runs its checks one after the other and prints each result at once, since
// the next check may be slow.
type doctor struct {
	*Call
	out    io.Writer
	failed bool
}

func examine(ctx context.Context, c *Call) error {
	d := &doctor{Call: c, out: c.Stdout}
	d.checkConfig()
	d.checkSecrets()
	logsOK := d.checkLogs()
	d.checkSummary(ctx)
	d.checkHTTP()
	ready := true
	if c.Config.Backend == "docker" {
		ready = d.checkEngine(ctx)
	} else {
		d.warn("backend", "process isolates nothing: commands run on this machine, as this user", "use --backend docker if an engine is available")
		ready = d.checkAgent(ctx, runtime.GOARCH)
	}
	if ready && logsOK {
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
		d.ok("config", "no configuration file, so the defaults apply")
	} else {
		d.ok("config", "read from "+d.Config.file)
	}
	for name, meant := range misspelt() {
		d.warn("config", "unknown environment variable "+name, "did you mean "+meant+"?")
	}
}

// checkSecrets reports settings for which nothing is masked.
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
	d.ok("logs", "raw logs are stored in "+logs.Dir)
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

// checkEngine reports whether a trial box can start.
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
		e.Version, e.Endpoint, e.Origin, rootless, e.OS, e.Arch, e.CPUs, e.Memory>>30))
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

// sharedQuotas names what the kernel counts per user, where a limit of a box has no
// effect.
const sharedQuotas = "the kernel counts inotify instances and pipe memory per user, so commands can use up that user's share of them, here and in other boxes"

// checkUsers reports how user ids of boxes map to this machine, and what boxes share
// with the user here if they are the same.
func (d *doctor) checkUsers(e docker.Engine) {
	switch {
	case e.Rootless:
		d.ok("users", "the engine is rootless: commands are user 0 of its user name space, and on this machine the user who runs it")
	case e.FirstUID != 0:
		d.ok("users", fmt.Sprintf("the engine maps user ids: user 1000 of a box is user %d of this machine, and needs write access to the workspace", e.FirstUID+1000))
	case e.UserNS:
		d.ok("users", "the engine maps user ids: the user of a box is a different user of this machine, and needs write access to the workspace")
	case e.Podman && d.Config.UserNS != "auto":
		d.say("ok", "users", "the user of a box is the same user of this machine; "+sharedQuotas,
			`userns = "auto" gives each box its own ids except for its user, so files that boxes write still belong to that user; inotify instances of all boxes then count together for the engine's user`)
	case !e.Podman:
		d.say("ok", "users", "the user of a box is the same user of this machine; "+sharedQuotas,
			`to separate them from your user, set "userns-remap": "default" in the engine's daemon.json and restart it, which hides its images and containers. User 1000 of a box is then user 101000 or so here: `+
				`files that boxes write belong to that user, who needs write access to the workspace, e.g. setfacl -R -m u:101000:rwX,d:u:101000:rwX DIR, with user = "1000:1000". `+
				`Boxes still share pipe memory with each other, and inotify instances with each other and with root`)
	}
}

func (d *doctor) checkLimits(e docker.Engine) {
	cgroup := fmt.Sprintf("cgroup v%s (%s)", e.Cgroup, e.CgroupDriver)
	if len(e.Unlimited) > 0 {
		d.warn("limits", cgroup+" does not enforce limits of "+strings.Join(e.Unlimited, ", ")+": a box can use more of them than configured",
			"configure the kernel or the init system to delegate these controllers to the engine")
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
		d.warn("image", e.Image+" is not on the engine; the first box pulls it, and starts that much later", "docker pull "+e.Image)
	}
	return false
}

// trialTimeout bounds the trial. A box usually starts in well under a second.
const trialTimeout = 30 * time.Second

// checkBox starts a box as a client would, and runs commands in it.
func (d *doctor) checkBox(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	manager, err := newManager(d.Config, d.Log)
	if err != nil {
		d.fail("box", err)
		return
	}
	defer manager.Close()
	manager.Commands = policy.Commands{} // the lists are for the commands of clients
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

// checkWorkspace checks that commands can write to the workspace. They cannot if root
// created the directory.
func (d *doctor) checkWorkspace(ctx context.Context, box *sandbox.Box) {
	exit, err := try(ctx, box, "test -w .")
	switch {
	case err != nil:
		d.fail("workspace", err)
	case d.Config.WorkspaceMode == "ro":
		d.ok("workspace", box.Place.Workspace+", read-only")
	case exit.Code != 0:
		d.warn("workspace", "commands cannot write to "+box.Place.Workspace, "chown it to the user that they run as: chown -R 1000:1000 "+box.Place.Workspace)
	case d.Config.Workspace == "":
		d.ok("workspace", "each box gets its own in "+filepath.Dir(box.Place.Workspace))
	default:
		d.ok("workspace", box.Place.Workspace)
	}
}

// fastest returns the shortest time of several runs of true: the first run has costs
// that later ones have not.
func fastest(ctx context.Context, box *sandbox.Box) (best time.Duration, err error) {
	const times = 5
	for range times {
		exit, err := try(ctx, box, "true")
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("the command true ended with status %s, exit code %d", exit.Status, exit.Code)
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
	run, err := box.Exec(ctx, sandbox.Command{Cmd: cmd, Timeout: trialTimeout})
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
