package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/docker"
	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/userdir"
)

// workspace admits the directory that boxes share with this machine. Without
// workspace_roots any will do that is not the system's, a home or ours: whoever names
// the workspace is mostly who would write that list, and a project may lie anywhere.
// The list is for who leaves the naming to a client.
func (c *Config) workspace() error {
	c.paths = newGuard()
	if err := c.makeAbsolute(&c.Workspace, os.FileInfo.IsDir, "a directory"); err != nil || c.Workspace == "" {
		return err
	}
	var roots []string
	for _, root := range c.WorkspaceRoots {
		roots = append(roots, inHome(root))
	}
	dir, err := c.paths.Workspace(c.Workspace, c.WorkspaceMode == "rw", roots)
	if err != nil {
		return advised(err)
	}
	c.Workspace = dir
	c.protectConfig()
	return nil
}

// newGuard says what of this machine boxes never have.
func newGuard() *hostpath.Guard {
	g := new(hostpath.Guard)
	g.Home, _ = userdir.Home() // where there is none, there are no keys to protect
	for _, place := range []func() (string, error){userdir.State, userdir.Cache, userdir.Config} {
		if own, err := place(); err == nil {
			g.Own = append(g.Own, own)
		}
	}
	if state, err := userdir.State(); err == nil {
		g.Wrote, _ = docker.Written(state) // what cannot be read no program of ours wrote
	}
	return g
}

// advised adds to a refusal what to do about it.
func advised(err error) error {
	if r, ok := errors.AsType[*hostpath.Refusal](err); ok && r.Hint != "" {
		return fmt.Errorf("%w. %s", err, r.Hint)
	}
	return err
}

// inHome reads a path that begins with ~/, which no shell does in a file.
func inHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := userdir.Home(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// protectConfig keeps commands from the settings of the next start, where those
// lie in the workspace.
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

// A mountSetting is one of [[mounts]].
type mountSetting struct {
	Source string `toml:"source"`
	Target string `toml:"target"`
	Mode   string `toml:"mode"`
}

// checkMounts admits what boxes see besides the workspace. What commands can
// write must be fit for a workspace; what they read may be of the system, but
// hold no keys and no sockets. Neither may lie where commands can replace it.
func (c *Config) checkMounts() error {
	for i := range c.Mounts {
		m := &c.Mounts[i]
		if m.Source == "" {
			return fmt.Errorf("a mount at %q has no source", m.Target)
		}
		if err := oneOf(cmp.Or(m.Mode, "ro"), "ro", "rw"); err != nil {
			return fmt.Errorf("mode of the mount of %s: %w", m.Source, err)
		}
		source, err := c.paths.Mount(inHome(m.Source), m.Mode == "rw")
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the source of a mount is not there: %w", err)
		}
		if err != nil {
			return advised(err)
		}
		m.Source = source
	}
	return nil
}

// mounts returns them for a box.
func (c *Config) mounts() (list []sandbox.Mount) {
	for _, m := range c.Mounts {
		list = append(list, sandbox.Mount{Source: m.Source, Target: m.Target, Writable: m.Mode == "rw"})
	}
	return list
}

// maxProtect bounds what is looked at and mounted for each box.
const maxProtect = 64

// validProtect checks paths in the workspace.
func validProtect(list []string) error {
	if len(list) > maxProtect {
		return fmt.Errorf("%d paths are more than the %d that can be protected", len(list), maxProtect)
	}
	for _, path := range list {
		path = strings.TrimPrefix(path, "!")
		if !filepath.IsLocal(path) || filepath.Clean(path) == "." {
			return fmt.Errorf("%q is no path in the workspace; write it such as .git/hooks", path)
		}
	}
	return nil
}
