package docker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// The kernel's mountinfo of a container's process shows whether the covers of its
// workspace are what they should be.

// errMoved says that a cover is not the part of the workspace that it should be.
// Another box with the same workspace can replace that part by a symbolic link
// between our scan and the engine's mount, and the engine follows the link to
// anywhere on the host.
var errMoved = errors.New("the workspace changed while it was mounted")

const noteUnprotected = "Commands can change the protected files of the workspace: on this engine the mounts that protect them cannot be verified."

// verifiable reports whether this system shows the mounts of other users' processes.
// Some systems hide the processes.
func verifiable() bool {
	f, err := os.Open("/proc/1/mountinfo")
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// verify checks the covers of a container before the box runs a command: each must
// show its part of the file system that is mounted at the workspace.
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
		return fmt.Errorf("verify the workspace: process %d is not in the box", pid) // it has that pid in another name space only
	}
	if name := misplaced(mounts, covers); name != "" {
		return sandbox.Errorf(sandbox.InvalidArgument, "Start the box again. If this path is a mount or a volume of its own, remove it from protect.",
			"%w: %s does not belong to the workspace", errMoved, sanitize(name, 200))
	}
	return nil
}

// A mountSource is what the kernel mounts at a place: a part of a device.
type mountSource struct{ device, part string }

// parseMounts reads a mountinfo, by places.
func parseMounts(mountinfo string) map[string]mountSource {
	mounts := make(map[string]mountSource)
	for line := range strings.Lines(mountinfo) {
		if f := strings.Fields(line); len(f) > 4 {
			mounts[unescape.Replace(f[4])] = mountSource{f[2], unescape.Replace(f[3])}
		}
	}
	return mounts
}

// misplaced returns the first cover that does not show its part of what is mounted at
// the workspace, "" if all do.
func misplaced(mounts map[string]mountSource, covers []cover) string {
	workspace := mounts[workspaceDir]
	for _, c := range covers {
		if mounts[workspaceDir+"/"+c.Path] != (mountSource{workspace.device, path.Join(workspace.part, c.Path)}) {
			return c.Path
		}
	}
	return ""
}

// unescape reverses how the kernel escapes names in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
