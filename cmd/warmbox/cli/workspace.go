package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/userdir"
)

// workspace checks the directory that boxes share with this machine; hostpath.Guard has
// the rules. Without workspace_roots any directory is allowed that is not the system's, a
// home or ours: the user who names the workspace is usually the one who would write that
// list, and a project may lie anywhere. The list is for users whose client names the
// workspace.
func (c *Config) workspace() error {
	c.paths = newGuard()
	if err := c.makeAbsolute(&c.Workspace, os.FileInfo.IsDir, "a directory"); err != nil || c.Workspace == "" {
		return err
	}
	var roots []string
	for _, root := range c.WorkspaceRoots {
		roots = append(roots, userdir.Expand(root))
	}
	dir, err := c.paths.Workspace(c.Workspace, c.WorkspaceMode == "rw", roots)
	if err != nil {
		return withHint(err)
	}
	c.Workspace = dir
	c.protectConfig()
	return nil
}

// newGuard returns the rules for paths of this machine, with what boxes never get.
func newGuard() *hostpath.Guard {
	g := new(hostpath.Guard)
	g.Home, _ = userdir.Home() // without a home there are no keys to protect
	for _, place := range []func() (string, error){userdir.State, userdir.Cache, userdir.Config} {
		if own, err := place(); err == nil {
			g.Own = append(g.Own, own)
		}
	}
	if state, err := userdir.State(); err == nil {
		g.Wrote, _ = docker.Written(state) // a file that cannot be read was not written by warmbox
	}
	return g
}

// withHint adds its hint to a refusal.
func withHint(err error) error {
	if r, ok := errors.AsType[*hostpath.Refusal](err); ok && r.Hint != "" {
		return fmt.Errorf("%w. %s", err, r.Hint)
	}
	return err
}

// protectConfig protects the configuration file from commands if it lies in the
// workspace.
func (c *Config) protectConfig() {
	if c.file == "" || !within(c.Workspace, c.file) {
		return
	}
	if name, err := filepath.Rel(c.Workspace, hostpath.Real(absolute(c.file))); err == nil {
		c.Protect = append(slices.Clip(c.Protect), filepath.ToSlash(name))
	}
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// A mountSetting is one of [[mounts]] in the file.
type mountSetting struct {
	Source string `toml:"source"`
	Target string `toml:"target"`
	Mode   string `toml:"mode"`
}

// checkMounts checks what boxes see besides the workspace; hostpath.Guard has the rules.
func (c *Config) checkMounts() error {
	for i := range c.Mounts {
		m := &c.Mounts[i]
		if m.Source == "" {
			return fmt.Errorf("the mount at %q has no source", m.Target)
		}
		if err := oneOf(cmp.Or(m.Mode, "ro"), "ro", "rw"); err != nil {
			return fmt.Errorf("mode of the mount of %s: %w", m.Source, err)
		}
		source, err := c.paths.Mount(userdir.Expand(m.Source), m.Mode == "rw")
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the source of a mount: %w", missingPath(userdir.Expand(m.Source), "a file or a directory"))
		}
		if err != nil {
			return withHint(err)
		}
		m.Source = source
	}
	return nil
}

// mounts returns the checked mounts.
func (c *Config) mounts() (list []sandbox.Mount) {
	for _, m := range c.Mounts {
		list = append(list, sandbox.Mount{Source: m.Source, Target: m.Target, Writable: m.Mode == "rw"})
	}
	return list
}
