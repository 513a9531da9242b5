package docker

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/warmbox/warmbox/sandbox/agentbin"
)

// Swept is something that a sweep removed.
type Swept struct {
	What string // "box", "container", "directory", "volume"
	Name string
	Why  string
}

// Sweep removes what processes of this host left when they were killed: their
// containers with their volumes, unless the box is persistent and not expired,
// directories of sockets, homes of boxes that are gone, and volumes with agents of
// other versions. With all it also removes the boxes of living processes and detached
// ones. Files of commands in a workspace stay.
//
// A launch sweeps without all on an engine that is new to its launcher.
func (l *Launcher) Sweep(ctx context.Context, all bool) ([]Swept, error) {
	e, err := l.connector.connect(ctx)
	if err != nil {
		return nil, err
	}
	removed, err := l.sweep(ctx, e, all)
	if err != nil {
		err = l.connector.lost(ctx, e, err)
	}
	return removed, err
}

func (l *Launcher) sweep(ctx context.Context, e *engine, all bool) ([]Swept, error) {
	boxes, berr := l.sweepBoxes(ctx, e, all)
	sockets, serr := sweepSockets()
	alone, err := l.instance.sweepInstances()
	var homes, agents []Swept
	if berr == nil {
		homes, berr = l.sweepHomes(ctx, e)
	}
	if alone && berr == nil { // another process may be of another version
		agents, berr = l.sweepAgents(ctx, e)
	}
	return slices.Concat(boxes, sockets, homes, agents), errors.Join(berr, serr, err)
}

// sweepBoxes removes leftover boxes, and the locks of boxes that are gone.
func (l *Launcher) sweepBoxes(ctx context.Context, e *engine, all bool) (removed []Swept, err error) {
	// A box that is being created has its lock before its container: so the locks are
	// listed first.
	free, err := l.dirs.freeLocks(e)
	if err != nil {
		return nil, err
	}
	boxes, err := l.listBoxes(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, b := range boxes {
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
		swept, serr := l.sweepBox(ctx, e, b, all)
		if swept == nil {
			delete(free, b.ID)
		} else {
			removed = append(removed, *swept)
		}
		err = errors.Join(err, serr)
	}
	for _, path := range free {
		err = errors.Join(err, l.dirs.removeLock(path))
	}
	return removed, err
}

// sweepBox removes a box if it is a leftover, and returns nil if it stays.
func (l *Launcher) sweepBox(ctx context.Context, e *engine, info BoxInfo, all bool) (*Swept, error) {
	why := info.leftover(all)
	if why == "" {
		return nil, nil
	}
	b := newBox(e, l.logger, info.ID)
	b.container = info.Container
	if err := b.removeContainer(ctx); err != nil {
		return nil, err
	}
	info.workspace.removeIfEmpty()
	if info.ID == "" {
		return &Swept{"container", info.Container[:min(12, len(info.Container))], why}, nil
	}
	return &Swept{"box", info.ID, why}, nil
}

// leftover says why a sweep removes a box, "" if the box stays.
func (b BoxInfo) leftover(all bool) string {
	switch {
	case all && b.Alive:
		return "all boxes were to be removed, also those of running servers"
	case b.Alive:
		return ""
	case b.Persistent == nil:
		return "its server has ended"
	case !b.Running:
		return "it does not run any more"
	case b.expired:
		return "no server reattached this persistent box in time"
	case all:
		return "all boxes were to be removed, also persistent ones"
	}
	return ""
}

// freeLocks returns the locks of an engine's boxes that no process holds, by the box.
func (d dirs) freeLocks(e *engine) (map[string]string, error) {
	dir, err := d.locksDir(e)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+lockSuffix))
	free := make(map[string]string)
	for _, path := range paths {
		if !held(path) {
			free[strings.TrimSuffix(filepath.Base(path), lockSuffix)] = path
		}
	}
	return free, err
}

// removeLock removes the lock of a box that is gone, and the box's own workspace.
func (d dirs) removeLock(path string) error {
	dir := strings.TrimSuffix(path, lockSuffix)
	own, err := d.workspace(filepath.Base(dir))
	if err != nil {
		return err
	}
	lock, err := tryLock(path, 0)
	if err != nil {
		return nil // another sweep was faster
	}
	workspace{own}.removeIfEmpty()
	return (&boxLock{box: lock, dir: dir}).remove()
}

// sweepHomes removes the homes of boxes that are gone. An engine removes the volume of
// a home with its container, but forgets it for a container that it removes while it
// starts or stops.
func (l *Launcher) sweepHomes(ctx context.Context, e *engine) ([]Swept, error) {
	return l.sweepVolumes(ctx, e, "home", "its box is gone", func(string) bool { return true })
}

// sweepAgents removes volumes with agents of other versions.
func (l *Launcher) sweepAgents(ctx context.Context, e *engine) ([]Swept, error) {
	current := agentVolumes()
	return l.sweepVolumes(ctx, e, "agent", "it has an agent of another version", func(name string) bool {
		return !current[name] && strings.HasPrefix(name, volumePrefix)
	})
}

// sweepVolumes removes the volumes of this host that have a label and a name that
// stale accepts. The engine keeps a volume that a container uses.
func (l *Launcher) sweepVolumes(ctx context.Context, e *engine, label, why string, stale func(name string) bool) (removed []Swept, err error) {
	host, err := l.instance.hostID()
	if err != nil {
		return nil, err
	}
	mine := filters.NewArgs(filters.Arg("label", labelPrefix+"host="+host), filters.Arg("label", labelPrefix+label), filters.Arg("dangling", "true"))
	watched, stop := e.watchdog(ctx)
	defer stop()
	found, err := e.VolumeList(watched, volume.ListOptions{Filters: mine})
	if err != nil {
		return nil, orHangs(watched, err)
	}
	for _, v := range found.Volumes {
		if !stale(v.Name) {
			continue
		}
		if watched.Err() != nil {
			return removed, errors.Join(err, orHangs(watched, watched.Err()))
		}
		if rerr := e.VolumeRemove(watched, v.Name, false); rerr == nil {
			removed = append(removed, Swept{"volume", v.Name, why})
		} else if !gone(rerr) && !errdefs.IsConflict(rerr) {
			err = errors.Join(err, orHangs(watched, rerr))
		}
	}
	return removed, err
}

// agentVolumes returns the names of the volumes with agents of this version.
func agentVolumes() map[string]bool {
	names := make(map[string]bool)
	for _, arch := range agentbin.Archs() {
		if sum, _, err := agentbin.Describe(arch); err == nil {
			names[volumePrefix+sum] = true
		}
	}
	return names
}
