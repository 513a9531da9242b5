package docker

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"

	"github.com/warmbox/warmbox/sandbox"
)

// A cover is a mount of a part of the workspace over itself. One that is
// read-only protects what would run code on the host later: a hook, the settings
// of an editor. One that is not lies over what is above such a part, because a
// mount point cannot be renamed: else a command moves .git away and makes
// another one.
type cover struct {
	Path     string // in the workspace, with slashes
	ReadOnly bool
}

// maxCovers bounds the mounts of a box: each costs time when it starts.
const maxCovers = 200

// covers returns what protects those of the paths that are there, from the top
// down. One that is not there gets none: the engine would make it on the host.
// Nor does one behind a symbolic link, which a command of an earlier box may
// have made to lead anywhere. What comes late in the list may find no room, and
// is left.
func covers(workspace string, protect []string) (list []cover, left []string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	readOnly := make(map[string]bool)
	for _, name := range protect {
		steps := way(root, name)
		more := 0
		for _, step := range steps {
			if _, known := readOnly[step]; !known {
				more++
			}
		}
		if len(readOnly)+more > maxCovers {
			left = append(left, name)
			continue
		}
		for i, step := range steps {
			readOnly[step] = readOnly[step] || i == len(steps)-1
		}
	}
	for name, ro := range readOnly {
		// A writable cover must not lie within one that is read-only.
		if !slices.ContainsFunc(above(name), func(dir string) bool { return readOnly[dir] }) {
			list = append(list, cover{name, ro})
		}
	}
	slices.SortFunc(list, func(a, b cover) int { return cmp.Compare(a.Path, b.Path) })
	return list, left, nil
}

// way returns the steps to a path, itself the last, or nothing if it is not all
// there. It ends at a file in the place of a directory: the .git of a work tree
// names the real one, and is as good as its settings.
func way(root *os.Root, name string) (steps []string) {
	parts := strings.Split(path.Clean(name), "/")
	for i := range parts {
		step := path.Join(parts[:i+1]...)
		info, err := root.Lstat(filepath.FromSlash(step))
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return nil
		}
		steps = append(steps, step)
		if !info.IsDir() {
			break
		}
	}
	return steps
}

// above returns the directories of the workspace that a path is in.
func above(name string) (dirs []string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func (c request) coverMounts() (mounts []mount.Mount) {
	for _, v := range c.Covers {
		mounts = append(mounts, bindMount(filepath.Join(c.Workspace, filepath.FromSlash(v.Path)), workspaceDir+"/"+v.Path, v.ReadOnly))
	}
	return mounts
}

const noteUnprotected = "The protected files of the workspace can be changed by commands: on this engine their mounts cannot be verified."

// errMoved says that a cover is not what it was meant to be. Another box with
// the same workspace can put a link in its place between our look and the
// engine's mount, and the engine follows it, to anything on the host.
var errMoved = errors.New("the workspace changed while it was mounted")

// verifiable reports whether this system shows the mounts of other users'
// processes. Some hide the processes.
func verifiable() bool {
	f, err := os.Open("/proc/1/mountinfo")
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// verify holds the mounts of a container, before anything of ours runs in it,
// against what they should be: the same part of the same file system as that of
// the workspace's own mount.
func verify(pid int, covers []cover) error {
	if len(covers) == 0 {
		return nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return fmt.Errorf("verify the workspace: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err != nil {
		return fmt.Errorf("verify the workspace: %w", err)
	}
	mounts := parseMounts(string(text))
	if _, ok := mounts[workspaceDir]; !ok {
		return fmt.Errorf("verify the workspace: process %d is not in the box", pid) // it has that number in another container only
	}
	if name := misplaced(mounts, covers); name != "" {
		return sandbox.Errorf(sandbox.InvalidArgument, "Start the box again. Where this part is a mount or a volume of its own, leave it out of protect.",
			"%w: %s is not the workspace's own", errMoved, clean(name, 200))
	}
	return nil
}

// A mounted is what the kernel says of a mount: which part of which device.
type mounted struct{ device, part string }

// parseMounts reads what the kernel says of a process's mounts, by their places.
func parseMounts(mountinfo string) map[string]mounted {
	mounts := make(map[string]mounted)
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) > 4 {
			mounts[unescape.Replace(f[4])] = mounted{f[2], unescape.Replace(f[3])}
		}
	}
	return mounts
}

// misplaced returns the first cover that does not show its part of what is
// mounted at the workspace, "" if all do.
func misplaced(mounts map[string]mounted, covers []cover) string {
	workspace := mounts[workspaceDir]
	for _, c := range covers {
		if mounts[workspaceDir+"/"+c.Path] != (mounted{workspace.device, path.Join(workspace.part, c.Path)}) {
			return c.Path
		}
	}
	return ""
}

// unescape undoes what the kernel does to names in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
