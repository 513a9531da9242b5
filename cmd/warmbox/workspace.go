package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// workspace resolves the directory that boxes share with this machine and
// refuses what none may have. Without workspace_roots any other will do: whoever
// names the workspace is mostly who would write that list, and a project may lie
// anywhere. The list is for who leaves the naming to a client.
func (c *config) workspace() error {
	if err := c.makeAbsolute(&c.Workspace, os.FileInfo.IsDir, "a directory"); err != nil || c.Workspace == "" {
		return err
	}
	dir, err := filepath.EvalSymlinks(c.Workspace)
	if err != nil {
		return err
	}
	if why := forbidden(dir); why != "" {
		return fmt.Errorf("%s cannot be a workspace: %s; name the directory of a project", dir, why)
	}
	if len(c.WorkspaceRoots) > 0 && !slices.ContainsFunc(c.WorkspaceRoots, func(root string) bool { return within(inHome(root), dir) }) {
		return fmt.Errorf("%s cannot be a workspace: it lies in none of workspace_roots, %s", dir, strings.Join(c.WorkspaceRoots, ", "))
	}
	c.Workspace = dir
	c.protectConfig()
	return nil
}

// inHome reads a path that begins with ~/, which no shell does in a file.
func inHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := homeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// protectConfig keeps commands from the settings of the next start, where those
// lie in the workspace.
func (c *config) protectConfig() {
	if c.file == "" || !within(c.Workspace, c.file) {
		return
	}
	if name, err := filepath.Rel(c.Workspace, resolved(absolute(c.file))); err == nil {
		c.Protect = append(slices.Clip(c.Protect), filepath.ToSlash(name))
	}
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// What no box may have of a machine: these places themselves, or with all that
// is in them.
var (
	systemPlaces = []string{"/", "/home", "/Users", "/mnt", "/media", "/Volumes", "/opt", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp",
		"/private", "/private/tmp", "/private/var", "/run/media"}
	systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/log", "/var/run",
		"/var/spool", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/Library", "/System", "/private/etc", "/private/var/run"}
	homeTrees = []string{".aws", ".colima", ".docker", ".gnupg", ".kube", ".local/share/containers", ".orbstack", ".rd", ".ssh"}
)

// systems is why a part of the system is refused, and kernelTrees are those of it
// that not even reading is safe of: sockets, devices, the state of processes.
const systems = "it belongs to the system"

var kernelTrees = []string{"/dev", "/proc", "/run", "/sys", "/var/run"}

// forbidden says why a directory cannot be a workspace, "" if it can. Links in
// it have been followed.
func forbidden(dir string) string {
	parent := filepath.Dir(dir)
	disk := strings.HasPrefix(dir, "/run/media/")
	switch {
	case slices.Contains(systemPlaces, dir):
		return "it holds much more than a project"
	case !disk && slices.ContainsFunc(systemTrees, func(tree string) bool { return within(tree, dir) }):
		return systems
	case parent == "/home" || parent == "/Users":
		return "it is somebody's home directory"
	}
	home, err := homeDir()
	switch {
	case err != nil:
		return ""
	case within(dir, home):
		return "your home directory is in it, with your keys"
	case slices.ContainsFunc(homeTrees, func(tree string) bool { return within(filepath.Join(home, tree), dir) }):
		return "it holds keys or an engine's sockets"
	}
	return ours(dir)
}

// ours says whether a directory has to do with one that warmbox keeps things
// in: the agent, tokens, what commands printed.
func ours(dir string) string {
	for _, place := range []func() (string, error){stateDir, cacheDir, configDir} {
		if own, err := place(); err == nil && (within(dir, own) || within(own, dir)) {
			return "warmbox keeps its own files in " + own
		}
	}
	return ""
}

// A mountSetting is one of [[mounts]].
type mountSetting struct {
	Source string `toml:"source"`
	Target string `toml:"target"`
	Mode   string `toml:"mode"`
}

// checkMounts resolves what boxes see besides the workspace. What commands can
// write must be fit for a workspace; what they read may be of the system, but
// hold no keys and no sockets.
func (c *config) checkMounts() error {
	for i := range c.Mounts {
		m := &c.Mounts[i]
		source, err := filepath.EvalSymlinks(absolute(inHome(m.Source)))
		if m.Source == "" {
			return fmt.Errorf("a mount at %q has no source", m.Target)
		}
		if err != nil {
			return fmt.Errorf("the source of a mount is not there: %w", err)
		}
		if err := m.allowed(source); err != nil {
			return err
		}
		m.Source = source
	}
	return nil
}

func (m *mountSetting) allowed(source string) error {
	if err := oneOf(cmp.Or(m.Mode, "ro"), "ro", "rw"); err != nil {
		return fmt.Errorf("mode of the mount of %s: %w", source, err)
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("%s cannot be mounted: it is neither a directory nor a file", source)
	}
	why := forbidden(source)
	if m.Mode != "rw" && why == systems && !slices.ContainsFunc(kernelTrees, func(tree string) bool { return within(tree, source) }) {
		why = ""
	}
	if why != "" {
		return fmt.Errorf("%s cannot be mounted: %s", source, why)
	}
	return nil
}

// mounts returns them for a box.
func (c *config) mounts() (list []sandbox.Mount) {
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
		if !filepath.IsLocal(path) || filepath.Clean(path) == "." {
			return fmt.Errorf("%q is no path in the workspace; write it such as .git/hooks", path)
		}
	}
	return nil
}
