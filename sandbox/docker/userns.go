package docker

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// An idMapping is how an engine maps the user ids of containers: 0 in a container is
// FirstUID on the host, and so on. The zero mapping maps nothing.
type idMapping struct{ FirstUID, FirstGID int }

// defaultUser runs commands where nothing else determines their user.
const defaultUser = 1000

// mappedIDs is how many ids an engine is assumed to map: the range that distributions
// assign.
const mappedIDs = 1 << 16

// idMapping returns how the engine maps ids, as far as it says. It says so by the name
// of its data directory: engines with different mappings cannot share one.
func (e *engine) idMapping() (m idMapping) {
	uid, gid, _ := strings.Cut(filepath.Base(e.info.DockerRootDir), ".")
	u, uerr := strconv.Atoi(uid)
	g, gerr := strconv.Atoi(gid)
	if !e.has("userns") || uerr != nil || gerr != nil || u <= 0 || g <= 0 {
		return m
	}
	return idMapping{u, g}
}

// known reports whether the engine maps ids and says how.
func (m idMapping) known() bool { return m != idMapping{} }

// toBox turns the owner of a directory on the host into ids of boxes, 0 where no box
// can run as that user.
func (m idMapping) toBox(uid, gid int) (int, int) {
	return mapID(uid, m.FirstUID), mapID(gid, m.FirstGID)
}

func mapID(id, first int) int {
	if first == 0 || id >= first && id < first+mappedIDs {
		return id - first
	}
	return 0
}

// refuse says that commands could only read a workspace, and how to let them write: a
// directory of a user of this machine has no owner in a box.
func (m idMapping) refuse(dir string) error {
	uid, gid := m.FirstUID+defaultUser, m.FirstGID+defaultUser
	return sandbox.Errorf(sandbox.InvalidArgument,
		fmt.Sprintf(`Set workspace_mode = "ro", or give the directory to that user: chown -R %d:%d %s. To share the directory, give that user access with setfacl -R -m u:%[1]d:rwX,d:u:%[1]d:rwX %[3]s, and set user = "%[4]d:%[4]d".`,
			uid, gid, dir, defaultUser),
		"Commands could not write to the workspace %s: the engine maps user ids (userns-remap), so user %d of a box is user %d of this machine, who does not own it.",
		dir, defaultUser, uid)
}

// mapIDs requests a user name space of the box's own, if the configuration wants one.
// The user of the box keeps its id on this machine, or else no command could write to
// that user's workspace. Only Podman is asked: Docker knows "host" and its own mapping.
func (l *Launcher) mapIDs(e *engine, r *request) error {
	if !l.config.OwnIDs {
		return nil
	}
	if !e.podman {
		return sandbox.Errorf(sandbox.InvalidArgument, `Set userns = "engine". To map user ids, set "userns-remap" in the engine's own configuration; warmbox doctor says what that changes.`,
			"The engine at %s cannot give a box user ids of its own (userns = \"auto\"): only Podman can.", e.endpoint.Host)
	}
	r.UserNS = fmt.Sprintf("auto:uidmapping=%d:%[1]d:1,gidmapping=%d:%[2]d:1", r.UID, r.GID)
	return nil
}
