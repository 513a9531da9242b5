package hostpath

import (
	"path/filepath"
	"slices"
	"strings"
)

// What no box may have of a machine: systemPlaces themselves, and systemTrees and
// homeTrees with everything in them.
var (
	systemPlaces = []string{"/", "/home", "/Users", "/mnt", "/media", "/Volumes", "/opt", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp",
		"/private", "/private/tmp", "/private/var", "/run/media"}
	systemTrees = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/log", "/var/run",
		"/var/spool", "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker", "/Library", "/System", "/private/etc", "/private/var/run"}
	homeTrees = []string{".aws", ".colima", ".docker", ".gnupg", ".kube", ".local/share/containers", ".orbstack", ".rd", ".ssh"}
)

// systems is the reason for refusing a part of the system. kernelTrees are the parts that
// are not even safe to read: sockets, devices, the state of processes.
const systems = "it belongs to the system"

var kernelTrees = []string{"/dev", "/proc", "/run", "/sys", "/var/run"}

// forbidden returns why no box may have a path, "" if a box may. The path has no links.
func (g *Guard) forbidden(path string) string {
	parent := filepath.Dir(path)
	disk := strings.HasPrefix(path, "/run/media/")
	switch {
	case slices.Contains(systemPlaces, path):
		return "it holds much more than a project"
	case !disk && inAny(systemTrees, path):
		return systems
	case parent == "/home" || parent == "/Users":
		return "it is a user's home directory"
	case g.Home == "":
		return ""
	case below(path, Real(g.Home)):
		return "it is your home directory, or contains it, with your keys"
	case slices.ContainsFunc(homeTrees, func(tree string) bool { return inTree(filepath.Join(g.Home, tree), path) }):
		return "it holds keys or an engine's sockets"
	}
	for _, own := range g.Own {
		if below(path, Real(own)) || inTree(own, path) {
			return "warmbox keeps its own files in " + own
		}
	}
	return ""
}

func inAny(trees []string, path string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return inTree(tree, path) })
}

// inTree reports whether a path without links lies in a tree, whose own links are
// followed. The path is not resolved again, since it could lead elsewhere by now.
func inTree(tree, path string) bool { return below(Real(tree), path) }

// below reports whether path is dir or lies in it. It compares names only.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Within reports whether path is dir or lies in it, with all links followed.
func Within(dir, path string) bool { return below(Real(dir), Real(path)) }

// Real returns path with its links resolved, as far as its components exist.
func Real(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(Real(parent), filepath.Base(path))
}
