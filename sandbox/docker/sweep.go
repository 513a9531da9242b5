package docker

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/agentbin"
)

// A BoxInfo box is one of this host's that an engine has: of this machine, this
// user and this state directory, whichever program started it.
type BoxInfo struct {
	ID         string // "" for a container that was made to look into an image
	Container  string // the engine's id
	Image      string
	Started    time.Time
	Running    bool
	Alive      bool                // the program that has it runs
	Persistent *sandbox.Persistent // nil for a box that ends with its program

	over      bool // it is kept, and nobody came for it in time
	note      note
	workspace workspace
}

// Swept is something that a sweep took away.
type Swept struct {
	What string // "box", "container", "directory", "volume"
	Name string
	Why  string
}

// Boxes lists the boxes of this host.
func (l *Launcher) Boxes(ctx context.Context) ([]BoxInfo, error) {
	e, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := l.boxes(ctx, e)
	if err != nil {
		return nil, l.lost(ctx, e, err)
	}
	var list []BoxInfo
	for _, s := range all {
		if s.ID != "" {
			list = append(list, s)
		}
	}
	return list, nil
}

// Sweep takes away what programs of this host left that ended without doing so:
// their containers with what hangs on them, unless they are kept, directories of
// sockets, homes of boxes that are gone, volumes with agents of other versions.
// With all it takes the boxes of living programs and kept ones too. What somebody
// works with in a workspace stays.
//
// A launch does the same, without all, on an engine that is new to its launcher.
func (l *Launcher) Sweep(ctx context.Context, all bool) ([]Swept, error) {
	e, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	took, err := l.sweep(ctx, e, all)
	if err != nil {
		err = l.lost(ctx, e, err)
	}
	return took, err
}

func (l *Launcher) sweep(ctx context.Context, e *engine, all bool) ([]Swept, error) {
	boxes, berr := l.sweepBoxes(ctx, e, all)
	sockets, serr := sweepSockets()
	alone, err := l.sweepInstances()
	var homes, agents []Swept
	if berr == nil {
		homes, berr = l.sweepHomes(ctx, e)
	}
	if alone && berr == nil { // another program may have another version
		agents, berr = l.sweepAgents(ctx, e)
	}
	return slices.Concat(boxes, sockets, homes, agents), errors.Join(berr, serr, err)
}

// sweepBoxes removes the boxes that are to go, and the claims of those that are
// gone.
func (l *Launcher) sweepBoxes(ctx context.Context, e *engine, all bool) (took []Swept, err error) {
	// Before the boxes are listed: one that is being made has its claim first.
	loose, err := l.looseClaims(e)
	if err != nil {
		return nil, err
	}
	boxes, err := l.boxes(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, s := range boxes {
		if ctx.Err() != nil {
			return took, ctx.Err()
		}
		swept, serr := l.sweepBox(ctx, e, s, all)
		if swept == nil {
			delete(loose, s.ID)
		} else {
			took = append(took, *swept)
		}
		err = errors.Join(err, serr)
	}
	for _, path := range loose {
		err = errors.Join(err, l.removeClaim(path))
	}
	return took, err
}

// boxes lists the containers of this host.
func (l *Launcher) boxes(ctx context.Context, e *engine) ([]BoxInfo, error) {
	host, err := l.hostID()
	if err != nil {
		return nil, err
	}
	attended, done := e.attend(ctx)
	defer done()
	found, err := e.ContainerList(attended, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelPrefix+"host="+host))})
	if err != nil {
		return nil, orSilence(attended, err)
	}
	var list []BoxInfo
	for _, c := range found {
		if !ours(c) || e.ghost(attended, c) {
			continue
		}
		s, err := l.stand(e, c)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// ghost reports whether a container is listed that is no more. An engine that notes
// a container's end after it has removed it lists it as dead until it is restarted,
// and knows nothing of it when asked to remove it.
func (e *engine) ghost(ctx context.Context, c container.Summary) bool {
	if c.State != container.StateDead {
		return false
	}
	_, err := e.ContainerInspect(ctx, c.ID)
	return errdefs.IsNotFound(err)
}

// ours reports whether we made a container that has our labels. Somebody may
// have made an image of a box, and those of that image have them too.
func ours(c container.Summary) bool {
	id := c.Labels[labelPrefix+"box"]
	if id == "" {
		return c.Command == agentPath
	}
	// Podman names the arguments alone.
	serves := strings.HasPrefix(strings.TrimPrefix(c.Command, agentPath+" "), "serve")
	// Of one that it failed to remove an engine does not know any more what it had.
	whole := mountedAt(c, agentDir) != "" || c.State == container.StateDead
	return serves && validID.MatchString(id) && whole
}

// mountedAt returns what of the host or which volume lies at a place, "" for
// nothing.
func mountedAt(c container.Summary, place string) string {
	for _, m := range c.Mounts {
		if m.Destination == place {
			return m.Source
		}
	}
	return ""
}

// stand says how a container stands.
func (l *Launcher) stand(e *engine, c container.Summary) (BoxInfo, error) {
	s := BoxInfo{
		ID: c.Labels[labelPrefix+"box"], Container: c.ID, Image: clean(c.Labels[labelPrefix+"image"], maxLabel), Started: time.Unix(c.Created, 0),
		Running: c.State == container.StateRunning || c.State == container.StatePaused,
	}
	s.Persistent, s.note = readKeep(c.Labels)
	state, err := l.stateDir()
	if err != nil {
		return s, err
	}
	if own := mountedAt(c, workspaceDir); own == filepath.Join(state, "workspaces", s.ID) {
		s.workspace.own = own
	}
	if s.Persistent == nil {
		instance := c.Labels[labelPrefix+"instance"]
		dir, err := l.ownDir("instances")
		s.Alive = validID.MatchString(instance) && held(filepath.Join(dir, instance))
		return s, err
	}
	dir, err := l.keptDir(e)
	if err != nil {
		return s, err
	}
	s.Alive, s.over = waiting(filepath.Join(dir, s.ID)+lockSuffix, s.Persistent.ReattachTimeout)
	return s, nil
}

// waits reports whether a box is there for whoever comes.
func (s BoxInfo) waits() bool { return s.Persistent != nil && s.Running && !s.Alive && !s.over }

// Since its host is gone, an agent may wait for a while longer than we count.
const waitMargin = time.Minute

// waiting reports whether somebody has a claim and, if nobody does, whether its
// box waited long enough. The first who finds it free notes until when that is:
// programs that are killed note nothing.
func waiting(path string, most time.Duration) (alive, over bool) {
	lock, err := lookAt(path)
	if err != nil {
		return errors.Is(err, filelock.ErrHeld), errors.Is(err, fs.ErrNotExist)
	}
	defer lock.release()
	return false, lock.waited(sinceBoot(), most)
}

// waited reports whether the time is over that is noted in a claim, and notes it
// where none is, or one of before the machine was booted: a box that outlived that
// runs on another machine, and its agent ends it in time.
func (l *lock) waited(now moment, most time.Duration) (over bool) {
	noted := l.read()
	until, ok := parseMoment(noted)
	switch {
	case noted != "" && !ok:
		return true // the claim is forfeit
	case !ok || until.boot != now.boot:
		l.write(now.add(most + waitMargin).String())
		return false
	}
	return now.at > until.at
}

// why says why a box goes, "" if it stays.
func (s BoxInfo) why(all bool) string {
	switch {
	case all && s.Alive:
		return "all were to go, though its program runs"
	case s.Alive:
		return ""
	case s.Persistent == nil:
		return "its program has ended"
	case !s.Running:
		return "it does not run any more"
	case s.over:
		return "it was kept, and nobody came back for it"
	case all:
		return "all were to go, though it was kept"
	}
	return ""
}

// sweepBox removes a box that is to go, nil if it stays.
func (l *Launcher) sweepBox(ctx context.Context, e *engine, s BoxInfo, all bool) (*Swept, error) {
	why := s.why(all)
	if why == "" {
		return nil, nil
	}
	b := l.newBox(e, s.ID)
	b.container = s.Container
	if err := b.removeContainer(ctx); err != nil {
		return nil, err
	}
	s.workspace.release()
	if s.ID == "" {
		return &Swept{"container", s.Container[:min(12, len(s.Container))], why}, nil
	}
	return &Swept{"box", s.ID, why}, nil
}

// looseClaims returns the claims to an engine's boxes that nobody holds, by the
// box.
func (l *Launcher) looseClaims(e *engine) (map[string]string, error) {
	dir, err := l.keptDir(e)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+lockSuffix))
	loose := make(map[string]string)
	for _, path := range paths {
		if !held(path) {
			loose[strings.TrimSuffix(filepath.Base(path), lockSuffix)] = path
		}
	}
	return loose, err
}

// removeClaim takes away what is left of a claim whose box is gone.
func (l *Launcher) removeClaim(path string) error {
	state, err := l.stateDir()
	if err != nil {
		return err
	}
	lock, err := tryLock(path, 0)
	if err != nil {
		return nil // another sweep was quicker
	}
	dir := strings.TrimSuffix(path, lockSuffix)
	workspace{filepath.Join(state, "workspaces", filepath.Base(dir))}.release()
	return (&claim{lock, dir}).remove()
}

// sweepHomes removes the homes of boxes that are gone. An engine removes one with
// its container, but it forgets those of the containers that it removes while it
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

// sweepVolumes removes those volumes of this host with a label whose names are to
// go. One that a container has the engine does not let go.
func (l *Launcher) sweepVolumes(ctx context.Context, e *engine, label, why string, goes func(name string) bool) (took []Swept, err error) {
	host, err := l.hostID()
	if err != nil {
		return nil, err
	}
	mine := filters.NewArgs(filters.Arg("label", labelPrefix+"host="+host), filters.Arg("label", labelPrefix+label), filters.Arg("dangling", "true"))
	attended, done := e.attend(ctx)
	defer done()
	found, err := e.VolumeList(attended, volume.ListOptions{Filters: mine})
	if err != nil {
		return nil, orSilence(attended, err)
	}
	for _, v := range found.Volumes {
		if !goes(v.Name) {
			continue
		}
		if attended.Err() != nil {
			return took, errors.Join(err, orSilence(attended, attended.Err()))
		}
		if rerr := e.VolumeRemove(attended, v.Name, false); rerr == nil {
			took = append(took, Swept{"volume", v.Name, why})
		} else if !gone(rerr) && !errdefs.IsConflict(rerr) {
			err = errors.Join(err, orSilence(attended, rerr))
		}
	}
	return took, err
}

// agentVolumes names those of this version.
func agentVolumes() map[string]bool {
	names := make(map[string]bool)
	for _, arch := range agentbin.Archs() {
		if sum, _, err := agentbin.Describe(arch); err == nil {
			names[volumePrefix+sum] = true
		}
	}
	return names
}
