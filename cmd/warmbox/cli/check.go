package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/sandbox/policy"
)

// check validates all values, so no later code needs to. The error names the source
// of the value.
func (c *Config) check() error {
	for _, r := range slices.Concat(c.rules(), c.summaryRules(), c.httpRules()) {
		if r.err != nil {
			err := fmt.Errorf("%s: %w", cmp.Or(c.origin[r.key], "the default of "+r.key), r.err)
			if c.fromFile(r.key) {
				return &fileError{err}
			}
			return err
		}
	}
	return nil
}

// A rule is the result of one check of a setting.
type rule struct {
	key string
	err error
}

func (c *Config) rules() []rule {
	return []rule{
		{"backend", oneOf(c.Backend, "docker", "process")},
		{"network", oneOf(c.Network, "none", "bridge")},
		{"userns", oneOf(c.UserNS, "engine", "auto")},
		{"workspace_mode", oneOf(c.WorkspaceMode, "ro", "rw")},
		{"workspace", c.workspace()},
		{"min_free", between(c.MinFree, 0, 1<<50)},
		{"protect", hostpath.CheckProtected(c.Protect)},
		{"mounts", c.checkMounts()},
		{"seccomp", c.seccomp()},
		{"user", validUser(c.User)},
		{"tmp_size", between(c.TmpSize, 1<<20, 1<<40)},
		{"max_boxes", between(c.MaxBoxes, 1, 1000)},
		{"idle_timeout", between(time.Duration(c.IdleTimeout), 0, 365*24*time.Hour)},
		{"keep_for", between(time.Duration(c.KeepFor), time.Second, 365*24*time.Hour)},
		{"on_full", oneOf(c.OnFull, "refuse", "evict")},
		{"grace", between(time.Duration(c.Grace), time.Millisecond, 365*24*time.Hour)},
		{"pool.warm", upTo("pool.max", between(c.Pool.Warm, 0, c.Pool.Max))},
		{"pool.max", between(c.Pool.Max, 0, 1000)},
		{"pool.images", c.poolImages()},
		{"pool.idle_timeout", between(time.Duration(c.Pool.IdleTimeout), 0, 365*24*time.Hour)},
		{"pool.max_lifetime", between(time.Duration(c.Pool.MaxLifetime), 0, 365*24*time.Hour)},
		{"pool.max_uses", between(c.Pool.MaxUses, 0, math.MaxInt32)},
		{"images.default", notEmpty(c.Images.Default)},
		{"images.allow", validGlobs(c.Images.Allow)},
		{"docker.path", oneOf(c.Docker.Path, "auto", "socket", "relay")},
		{"exec.timeout", between(time.Duration(c.Exec.Timeout), time.Second, 24*time.Hour)},
		{"exec.wait", between(time.Duration(c.Exec.Wait), 0, 10*time.Minute)},
		{"exec.on_disconnect", oneOf(c.Exec.OnDisconnect, "kill", "run-on")},
		{"exec.max_runs", between(c.Exec.MaxRuns, 1, 100_000)},
		{"exec.memory", between(c.Exec.Memory, 16<<20, 1<<50)},
		{"exec.cpu", between(c.Exec.CPU, 0.01, 1024)},
		{"exec.pids", between(c.Exec.Pids, 16, math.MaxInt32)},
		{"exec.spare_shells", between(c.Exec.SpareShells, 0, 4)},
		{"commands.allow", policy.Commands{Allow: c.Lists().Allow}.Validate()},
		{"commands.deny", policy.Commands{Deny: c.Commands.Deny}.Validate()},
		{"commands.on_deny", oneOf(c.Commands.OnDeny, "deny", "ask")},
		{"commands.release", policy.Commands{Release: c.Commands.Release}.Validate()},
		{"commands.examples", c.Lists().Validate()},
		{"backend", c.confined()},
		{"shims.commands", c.shimNames()},
		{"shims.deny", c.shimDenials()},
		{"shims.timeout", between(time.Duration(c.Shims.Timeout), 0, 24*time.Hour)},
		{"shims.output_bytes", between(c.Shims.OutputBytes, 0, 1<<40)},
		{"shims.output_lines", between(c.Shims.OutputLines, 0, 1<<40)},
		{"output.whole", upTo("output.max", between(c.Output.Whole, 1, c.Output.Max))},
		{"output.excerpt", upTo("output.whole", between(c.Output.Excerpt, 500, max(c.Output.Whole, 500)))},
		{"output.max", between(c.Output.Max, 1000, 100_000)},
		{"output.replies", oneOf(c.Output.Replies, "auto", "both", "text", "structured")},
		{"env", validNames(c.Env)},
		{"secrets.give", c.givenSecrets()},
		{"secrets.env", c.maskedNames()},
		{"audit.format", oneOf(c.Audit.Format, "json", "line")},
		{"log.level", oneOf(strings.ToLower(c.Log.Level), "debug", "info", "warn", "error")},
		{"log.format", oneOf(c.Log.Format, "text", "json")},
		{"log.max_run", between(c.Log.MaxRun, 1<<10, 1<<50)},
		{"log.max_total", between(c.Log.MaxTotal, 1<<20, 1<<50)},
		{"log.max_age", between(time.Duration(c.Log.MaxAge), time.Minute, 10*365*24*time.Hour)},
	}
}

// poolImages refuses an image that calls may not name.
func (c *Config) poolImages() error {
	for _, name := range c.Pool.Images {
		if name != c.Images.Default && !policy.Image(c.Images.Allow, name) {
			return fmt.Errorf("the image %q is not allowed; add it to images.allow, which is now %q", name, c.Images.Allow)
		}
	}
	return nil
}

func oneOf(value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s%s", value, strings.Join(allowed, ", "), didYouMean(value, allowed))
}

func between[T int | int64 | float64 | size | time.Duration](value, least, most T) error {
	if value >= least && value <= most {
		return nil
	}
	return fmt.Errorf("%v is not between %v and %v", value, least, most)
}

// upTo adds to the refusal of a value which setting is its maximum.
func upTo(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; the maximum is that of %s, so change one of the two", err, key)
}

func notEmpty(value string) error {
	if value == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// makeAbsolute resolves a path against the working directory, and checks that it
// exists and has the right kind.
func (c *Config) makeAbsolute(path *string, is func(os.FileInfo) bool, what string) (err error) {
	if *path == "" {
		return nil
	}
	if *path, err = filepath.Abs(*path); err != nil {
		return err
	}
	info, err := os.Stat(*path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingPath(*path, what)
	case err != nil:
		return fmt.Errorf("%s, which must be %s, cannot be examined: %w; correct the path or its permissions", *path, what, cause(err))
	case !is(info):
		return fmt.Errorf("%s is not %s", *path, what)
	}
	return nil
}

// missingPath says that nothing is at a path.
func missingPath(path, what string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is a symbolic link to something that does not exist, and must be %s; correct the link or the path", path, what)
	}
	return fmt.Errorf("%s does not exist, and must be %s; create it or correct the path", path, what)
}

// cause is the error of the system without the call and the path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// seccomp checks that the profile exists, unless the engine's is chosen.
func (c *Config) seccomp() error {
	if c.Seccomp == docker.EngineSeccomp {
		return nil
	}
	return c.makeAbsolute(&c.Seccomp, isRegular, "a file")
}

func isRegular(info os.FileInfo) bool { return info.Mode().IsRegular() }

func validUser(user string) error {
	var uid, gid uint32
	if user == "" {
		return nil
	}
	if n, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); n != 2 || err != nil || fmt.Sprintf("%d:%d", uid, gid) != user {
		return fmt.Errorf("%q is not a numeric user and group; write it like 1000:1000", user)
	}
	return nil
}

func validGlobs(list []string) error {
	for _, entry := range list {
		if !policy.ValidGlob(entry) {
			return fmt.Errorf("%q is not a valid pattern; write it like golang:* or ghcr.io/acme/*", entry)
		}
	}
	return nil
}

// anyCommand is the list that explicitly allows everything.
const anyCommand = "*"

// Lists are the lists of commands that may and may not run.
func (c *Config) Lists() policy.Commands {
	l := c.Commands
	if slices.Equal(l.Allow, []string{anyCommand}) {
		l.Allow = nil
	}
	return policy.Commands{Allow: l.Allow, Deny: l.Deny, Release: l.Release, Examples: l.Examples}
}

// confined requires a box or a list of commands between a model and this machine.
func (c *Config) confined() error {
	if c.Backend == "process" && len(c.Commands.Allow) == 0 {
		return errors.New("the process backend isolates nothing, so it needs a list of the commands that may run; set --exec-whitelist to \"default\" for the usual ones or to \"*\" for all, or use the docker backend")
	}
	return nil
}
