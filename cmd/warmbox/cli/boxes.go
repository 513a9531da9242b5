package cli

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/sandbox/launch"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/tools"
	"github.com/warmbox/warmbox/userdir"
)

// newManager makes what the settings describe. It starts nothing and looks for
// no engine: a client that only asks for the list of tools needs none.
func newManager(c *Config, log *slog.Logger) (*sandbox.Manager, error) {
	logs, err := newLogs(c, log)
	if err != nil {
		return nil, err
	}
	launcher, err := newLauncher(c, log)
	if err != nil {
		return nil, err
	}
	c.tellOfEnv(log)
	audit, err := newAudit(c, log)
	if err != nil {
		return nil, err
	}
	return &sandbox.Manager{
		Audit:    audit,
		Launcher: launcher, Logs: logs, Defaults: boxSpec(c),
		Images: c.Images.Allow, Commands: c.Lists(), MaxBoxes: c.MaxBoxes, MaxRuns: c.Exec.MaxRuns, MinFree: int64(c.MinFree), Logger: log,
		Secrets: newRedactor(c, log), IdleTimeout: time.Duration(c.IdleTimeout), ReattachTimeout: time.Duration(c.KeepFor), Evict: c.OnFull == "evict",
		Pool: sandbox.Pool{
			Warm: c.Pool.Warm, Images: c.Pool.Images, Max: c.Pool.Max, Uses: c.Pool.MaxUses,
			Idle: time.Duration(c.Pool.IdleTimeout), Life: time.Duration(c.Pool.MaxLifetime),
		},
	}, nil
}

// signOff lets the launcher of a manager whose boxes are gone end what it does
// behind its back, and take back the file that says that this program lives.
func signOff(m *sandbox.Manager) {
	if l, ok := m.Launcher.(io.Closer); ok {
		l.Close() // what it cannot take back is swept
	}
}

// newRedactor takes the values that are to be masked, and tells of those that it
// cannot mask.
func newRedactor(c *Config, log *slog.Logger) *redact.Redactor {
	values, holes := c.masked()
	for _, hole := range holes {
		log.Warn(hole)
	}
	return &redact.Redactor{Values: values}
}

// newLogs finds where raw logs go, and proves that they can be kept there: a
// server that finds out with the first command has promised too much. A box
// must not reach them: they hold what other boxes printed, and its own are
// evidence.
func newLogs(c *Config, log *slog.Logger) (*rawlog.Store, error) {
	dir := c.Log.Dir
	if dir == "" {
		state, err := userdir.State()
		if err != nil {
			return nil, fmt.Errorf("no place for raw logs: %w; set --log-dir, or log.dir in the configuration file", err)
		}
		dir = filepath.Join(state, "logs")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := c.private().MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("the directory of raw logs, --log-dir or log.dir in the configuration file: %w", err)
	}
	logs := &rawlog.Store{
		Dir: dir, MaxRun: int64(c.Log.MaxRun), MaxTotal: int64(c.Log.MaxTotal), MaxAge: time.Duration(c.Log.MaxAge), Logger: log,
	}
	if err := logs.Check(); err != nil {
		return nil, fmt.Errorf("%w, with --log-dir or log.dir in the configuration file", err)
	}
	return logs, nil
}

// within reports whether path is dir or below it, wherever symbolic links lead.
func within(dir, path string) bool { return hostpath.Within(dir, path) }

func newLauncher(c *Config, log *slog.Logger) (sandbox.Launcher, error) {
	switch c.Backend {
	case "docker":
		return NewDocker(c, log)
	case "process":
		return newProcess(log)
	}
	return nil, fmt.Errorf("there is no backend %q", c.Backend)
}

func NewDocker(c *Config, log *slog.Logger) (*docker.Launcher, error) {
	state, err := userdir.State()
	if err != nil && c.Workspace == "" {
		return nil, fmt.Errorf("no place for workspaces: %w; name one with --workspace, or set XDG_STATE_HOME", err)
	}
	cache, err := userdir.Cache()
	if err != nil {
		return nil, fmt.Errorf("no place for a cache: %w; set XDG_CACHE_HOME", err)
	}
	return docker.New(docker.Config{
		Host: c.Docker.Host, DefaultImage: c.Images.Default, SeccompProfile: c.Seccomp, Runtime: c.Runtime, OwnIDs: c.UserNS == "auto",
		StateDir: state, CacheDir: cache, ForcePath: strings.TrimPrefix(c.Docker.Path, "auto"), Logger: log,
		Writable: c.paths.Writable(),
	}), nil
}

func newProcess(log *slog.Logger) (*launch.Process, error) {
	state, err := userdir.State()
	if err != nil {
		return nil, fmt.Errorf("no place for workspaces: %w; set XDG_STATE_HOME", err)
	}
	log.Warn("the process backend isolates nothing: commands run on this host, as the user who runs warmbox")
	return &launch.Process{Agent: launch.OwnAgent, Workspaces: workspaces(state)}, nil
}

func boxSpec(c *Config) sandbox.Spec {
	env, _ := c.environment() // it was checked when it was read
	return sandbox.Spec{
		Env:   env,
		Image: c.Images.Default, Network: c.Network, User: c.User,
		Workspace: c.Workspace, ReadOnly: c.WorkspaceMode == "ro", Protect: c.Protect, Mounts: c.mounts(), Paths: c.paths,
		Memory: int64(c.Exec.Memory), CPUs: c.Exec.CPU, Pids: c.Exec.Pids, Spares: c.Exec.SpareShells, Tmp: int64(c.TmpSize),
	}
}

func newTools(c *Config, m *sandbox.Manager, log *slog.Logger) (*tools.Set, error) {
	set := &tools.Set{
		Manager: m, Wait: time.Duration(c.Exec.Wait), Timeout: time.Duration(c.Exec.Timeout), Logger: log,
		Limits: excerpt.Limits{Whole: int(c.Output.Whole), Cut: int(c.Output.Excerpt)}, MaxBytes: int(c.Output.Max),
		RunOn: c.Exec.OnDisconnect == "run-on", Terse: c.Summary.Provider == "none",
	}
	asked, err := newModel(c)
	switch {
	case asked == nil: // a nil pointer in an interface would be no nil
	case asked.Ask == nil:
		set.Sampler = asked
	default:
		set.Model = asked
	}
	return set, err
}
