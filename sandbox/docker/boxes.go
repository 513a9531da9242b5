package docker

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/warmbox/warmbox/sandbox"
)

// A BoxInfo describes a box of this host on an engine: of this machine, this user and
// this state directory, whichever process started it.
type BoxInfo struct {
	ID         string // "" for a container that was created to inspect an image
	Container  string // the engine's id
	Image      string
	Started    time.Time
	Running    bool
	Alive      bool                // the process that has it lives
	Holder     int                 // the pid of that process, if the box is persistent; 0: unknown
	Persistent *sandbox.Persistent // nil for a box that ends with its process

	expired   bool // its reattach timeout is over
	place     placeLabel
	workspace workspace
}

// detached reports whether the box waits for a process to reattach it.
func (b BoxInfo) detached() bool {
	return b.Persistent != nil && b.Running && !b.Alive && !b.expired
}

// Boxes lists the boxes of this host.
func (l *Launcher) Boxes(ctx context.Context) ([]BoxInfo, error) {
	e, err := l.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := l.listBoxes(ctx, e)
	if err != nil {
		return nil, l.connector.lost(ctx, e, err)
	}
	var list []BoxInfo
	for _, b := range all {
		if b.ID != "" {
			list = append(list, b)
		}
	}
	return list, nil
}

// listBoxes describes the containers of this host.
func (l *Launcher) listBoxes(ctx context.Context, e *engine) ([]BoxInfo, error) {
	watched, stop := e.watchdog(ctx)
	defer stop()
	found, err := l.instance.listContainers(watched, e)
	if err != nil {
		return nil, orHangs(watched, err)
	}
	var list []BoxInfo
	for _, c := range found {
		if !ours(c) || e.listsOnly(watched, c) {
			continue
		}
		b, err := l.dirs.boxInfo(e, c)
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// listContainers lists the containers on an engine that have the label of this host.
func (i *instance) listContainers(ctx context.Context, e *engine) ([]container.Summary, error) {
	host, err := i.hostID()
	if err != nil {
		return nil, err
	}
	return e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelPrefix+"host="+host))})
}

// listsOnly reports whether the engine lists a container that no longer exists. An
// engine that records a container's end after it has removed it lists it as dead until
// a restart, and cannot remove it.
func (e *engine) listsOnly(ctx context.Context, c container.Summary) bool {
	if c.State != container.StateDead {
		return false
	}
	_, err := e.ContainerInspect(ctx, c.ID)
	return errdefs.IsNotFound(err)
}

// ours reports whether warmbox created a container that has our labels. A container of
// an image that was committed from a box has them too.
func ours(c container.Summary) bool {
	id := c.Labels[labelPrefix+"box"]
	if id == "" {
		return c.Command == agentPath
	}
	// Podman lists the arguments without the program.
	serves := strings.HasPrefix(strings.TrimPrefix(c.Command, agentPath+" "), "serve")
	// An engine no longer knows the mounts of a container that it failed to remove.
	whole := mountedAt(c, agentDir) != "" || c.State == container.StateDead
	return serves && validID.MatchString(id) && whole
}

// mountedAt returns the directory of the host or the volume at a place, "" for none.
func mountedAt(c container.Summary, place string) string {
	for _, m := range c.Mounts {
		if m.Destination == place {
			return m.Source
		}
	}
	return ""
}

// boxInfo describes a container by its labels and the locks of its box.
func (d dirs) boxInfo(e *engine, c container.Summary) (BoxInfo, error) {
	b := BoxInfo{
		ID: c.Labels[labelPrefix+"box"], Container: c.ID, Image: sanitize(c.Labels[labelPrefix+"image"], maxLabel), Started: time.Unix(c.Created, 0),
		Running: c.State == container.StateRunning || c.State == container.StatePaused,
	}
	b.Persistent, b.place = parsePersistent(c.Labels)
	own, err := d.workspace(b.ID)
	if err != nil {
		return b, err
	}
	if mountedAt(c, workspaceDir) == own {
		b.workspace.own = own
	}
	if b.Persistent == nil {
		instance := c.Labels[labelPrefix+"instance"]
		dir, err := d.boxesDir("instances")
		b.Alive = validID.MatchString(instance) && held(filepath.Join(dir, instance))
		return b, err
	}
	dir, err := d.locksDir(e)
	if err != nil {
		return b, err
	}
	b.Alive, b.expired = checkLock(filepath.Join(dir, b.ID)+lockSuffix, b.Persistent.ReattachTimeout)
	if b.Alive {
		b.Holder = holder(filepath.Join(dir, b.ID) + lockSuffix)
	}
	return b, nil
}
