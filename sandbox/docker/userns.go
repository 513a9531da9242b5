package docker

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
)

// A shift is how an engine maps the user ids of containers: 0 there is First
// here, and so on. The zero shift maps nothing.
type shift struct{ FirstUID, FirstGID int }

// defaultUser is who commands run as where a workspace does not say.
const defaultUser = 1000

// shifted is how many ids are taken to be mapped: what distributions hand out.
const shifted = 1 << 16

// shift returns how the engine maps ids, as far as it says. It does so by the
// name of the directory in which it keeps what it cannot share with an engine
// that maps them in another way.
func (e *engine) shift() (s shift) {
	uid, gid, _ := strings.Cut(filepath.Base(e.info.DockerRootDir), ".")
	u, uerr := strconv.Atoi(uid)
	g, gerr := strconv.Atoi(gid)
	if !e.has("userns") || uerr != nil || gerr != nil || u <= 0 || g <= 0 {
		return s
	}
	return shift{u, g}
}

// known reports whether the engine maps ids and says how.
func (s shift) known() bool { return s != shift{} }

// owner turns the owner of a directory into the numbers of boxes, 0 where that is
// nobody who a box could run as.
func (s shift) owner(uid, gid int) (int, int) {
	return into(uid, s.FirstUID), into(gid, s.FirstGID)
}

// into turns an id of this machine into that of boxes.
func into(id, first int) int {
	if first == 0 || id >= first && id < first+shifted {
		return id - first
	}
	return 0
}

// refuse says that commands could only read a workspace, and how to let them
// write: one that belongs to a user of this machine belongs to nobody in a box.
func (s shift) refuse(dir string) error {
	uid, gid := s.FirstUID+defaultUser, s.FirstGID+defaultUser
	return sandbox.Errorf(sandbox.InvalidArgument,
		fmt.Sprintf(`Say workspace_mode = "ro", or give the directory to that user: chown -R %d:%d %s. To share it, let that user in with setfacl -R -m u:%[1]d:rwX,d:u:%[1]d:rwX %[3]s, and say user = "%[4]d:%[4]d".`,
			uid, gid, dir, defaultUser),
		"Commands could not write to the workspace %s: the engine maps user ids (userns-remap), and user %d of a box is user %d of this machine, whose it is not.",
		dir, defaultUser, uid)
}

// ownIDs asks for a user name space of the box's own, where that is wanted. The user
// of the box alone stays who it is on this machine, or no command could write to a workspace
// of it. Docker's engine knows "host" and its own mapping and no more, and takes any
// other word for an error of its own.
func (l *Launcher) ownIDs(e *engine, c *request) error {
	if !l.config.OwnIDs {
		return nil
	}
	if !e.podman {
		return sandbox.Errorf(sandbox.InvalidArgument, `Say userns = "engine", and where ids are to be others set "userns-remap" in the engine's own configuration; doctor says what that changes.`,
			"The engine at %s cannot give a box user ids of its own (userns = \"auto\"): only Podman can.", e.endpoint.Host)
	}
	c.UserNS = fmt.Sprintf("auto:uidmapping=%d:%[1]d:1,gidmapping=%d:%[2]d:1", c.UID, c.GID)
	return nil
}
