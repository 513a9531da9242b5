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

// newManager returns a manager with these settings. It starts no box and does not
// look for an engine: a client that only lists the tools needs none.
func newManager(c *Config, log *slog.Logger) (*sandbox.Manager, error) {
	logs, err := newLogs(c, log)
	if err != nil {
		return nil, err
	}
	launcher, err := newLauncher(c, log)
	if err != nil {
		return nil, err
	}
	c.warnOfEnv(log)
	audit, err := newAudit(c, log)
	if err != nil {
		return nil, err
	}
	return &sandbox.Manager{
		Audit:    audit,
		Launcher: launcher, Logs: logs, Defaults: boxSpec(c),
		Images: c.Images.Allow, Commands: c.Lists(), MaxBoxes: c.MaxBoxes, MaxRuns: c.Exec.MaxRuns, MinFree: int64(c.MinFree), Logger: log,
		Secrets: newRedactor(c, log), IdleTimeout: time.Duration(c.IdleTimeout), ReattachTimeout: time.Duration(c.KeepFor), Evict: c.OnFull == "evict", Grace: time.Duration(c.Grace),
		Pool: sandbox.Pool{
			Warm: c.Pool.Warm, Images: c.Pool.Images, Max: c.Pool.Max, Uses: c.Pool.MaxUses,
			Idle: time.Duration(c.Pool.IdleTimeout), Life: time.Duration(c.Pool.MaxLifetime),
		},
	}, nil
}

// signOff closes the launcher of a closed manager: it ends the launcher's background
// work and removes the lock file that marks this program as alive.
func signOff(m *sandbox.Manager) {
	if l, ok := m.Launcher.(io.Closer); ok {
		l.Close() // a later sweep removes what this cannot
	}
}

// newRedactor masks the configured values, and logs those that it cannot mask.
func newRedactor(c *Config, log *slog.Logger) *redact.Redactor {
	values, holes := c.masked()
	for _, hole := range holes {
		log.Warn(hole)
	}
	return &redact.Redactor{Values: values}
}

// newLogs opens the store of raw logs, and checks that it can write there, so that a
// server fails at its start and not at the first command. Boxes must not reach the
// logs: they contain the output of other boxes, and are evidence of their own.
func newLogs(c *Config, log *slog.Logger) (*rawlog.Store, error) {
	dir := c.Log.Dir
	if dir == "" {
		state, err := userdir.State()
		if err != nil {
			return nil, fmt.Errorf("no directory for raw logs: %w; set --log-dir, or log.dir in the configuration file", err)
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

// within reports whether path is dir or below it, after symbolic links are followed.
func within(dir, path string) bool { return hostpath.Within(dir, path) }

func newLauncher(c *Config, log *slog.Logger) (sandbox.Launcher, error) {
	switch c.Backend {
	case "docker":
		return NewDocker(c, log)
	case "process":
		return newProcess(c, log)
	}
	return nil, fmt.Errorf("unknown backend %q", c.Backend)
}

// NewDocker returns a launcher with these settings. It does not connect to the engine.
func NewDocker(c *Config, log *slog.Logger) (*docker.Launcher, error) {
	state, err := userdir.State()
	if err != nil && c.Workspace == "" {
		return nil, fmt.Errorf("no directory for workspaces: %w; set --workspace, or XDG_STATE_HOME", err)
	}
	cache, err := userdir.Cache()
	if err != nil {
		return nil, fmt.Errorf("no directory for the cache: %w; set XDG_CACHE_HOME", err)
	}
	return docker.New(docker.Config{
		Host: c.Docker.Host, DefaultImage: c.Images.Default, SeccompProfile: c.Seccomp, Runtime: c.Runtime, OwnIDs: c.UserNS == "auto",
		StateDir: state, CacheDir: cache, Transport: strings.TrimPrefix(c.Docker.Path, "auto"), Logger: log,
		Writable: c.paths.Writable(),
	}), nil
}

func newProcess(c *Config, log *slog.Logger) (*launch.Process, error) {
	state, err := userdir.State()
	if err != nil {
		return nil, fmt.Errorf("no directory for workspaces: %w; set XDG_STATE_HOME", err)
	}
	log.Warn("the process backend isolates nothing: commands run on this host, as the user who runs warmbox")
	if c.Audit.Programs {
		log.Warn("commands gain no privileges where programs are recorded (no_new_privs): sudo does not work in them")
	}
	return &launch.Process{Agent: launch.OwnAgent, Workspaces: workspaces(state)}, nil
}

func boxSpec(c *Config) sandbox.Spec {
	env, _ := c.environment() // check has refused errors
	return sandbox.Spec{
		Env:   env,
		Image: c.Images.Default, Network: c.Network, User: c.User,
		Workspace: c.Workspace, ReadOnly: c.WorkspaceMode == "ro", Protect: c.Protect, Mounts: c.mounts(), Paths: c.paths,
		Memory: int64(c.Exec.Memory), CPUs: c.Exec.CPU, Pids: c.Exec.Pids, Spares: c.Exec.SpareShells, Tmp: int64(c.TmpSize),
		AuditPrograms: c.Audit.Programs, Shims: c.shims(),
	}
}

func newTools(c *Config, m *sandbox.Manager, log *slog.Logger) (*tools.Set, error) {
	set := &tools.Set{
		Manager: m, Wait: time.Duration(c.Exec.Wait), Timeout: time.Duration(c.Exec.Timeout), Logger: log,
		Limits: excerpt.Limits{Whole: int(c.Output.Whole), Cut: int(c.Output.Excerpt)}, MaxBytes: int(c.Output.Max),
		RunOn: c.Exec.OnDisconnect == "run-on", Terse: c.Summary.Provider == "none",
	}
	if c.Output.Replies != "auto" {
		set.Replies = tools.Form(c.Output.Replies)
	}
	summarizer, err := newModel(c)
	switch {
	case summarizer == nil: // a nil pointer in an interface is not nil
	case summarizer.Ask == nil:
		set.Sampler = summarizer
	default:
		set.Model = summarizer
	}
	return set, err
}
