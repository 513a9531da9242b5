package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostcode"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// A plan is a box before its transport is chosen.
type plan struct {
	id         string
	request    request
	facts      facts
	persistent *sandbox.Persistent
	user       string // the name of the box's user, "" if it has none
	workspace  workspace
	shown      []sandbox.Shown  // what of the host the box has
	files      []*hostpath.File // the files behind shown, open while the box is started
	notes      []string
	found      *hostcode.Found // in a named workspace; nil in others
}

// The limits of a box where the spec gives none.
const (
	defaultMemory = 2 << 30
	defaultCPUs   = 2
	defaultPids   = 512
	defaultTmp    = 512 << 20
)

// plan turns a spec into what one engine can do.
func (l *Launcher) plan(ctx context.Context, e *engine, id string, spec sandbox.Spec) (*plan, error) {
	name := cmp.Or(spec.Image, l.config.DefaultImage)
	p := &plan{id: id, persistent: spec.Persistent}
	p.request = request{
		marks:      marks{Box: id, Instance: l.instance.id, Host: l.instance.hostLabel(), PID: os.Getpid(), Started: l.instance.started, ImageName: name},
		fileSystem: fileSystem{ReadOnly: spec.ReadOnly},
		Network:    spec.Network, CgroupV2: e.info.CgroupVersion == "2",
	}
	r := &p.request
	if err := errors.Join(r.chooseNetwork(), l.chooseRuntime(e, r), l.chooseSeccomp(e, p)); err != nil {
		return nil, err
	}
	l.limit(e, spec, p)
	img, err := l.image(ctx, e, name, spec.Progress)
	if err != nil {
		return nil, err
	}
	if p.facts, err = l.facts(ctx, e, img); err != nil {
		return nil, err
	}
	if p.facts.Bad != "" {
		return nil, sandbox.Errorf(sandbox.ImageDenied, "Build an image FROM this one that has a directory at this path, or use another image.",
			"image %s must have a directory at %s, which a box needs, but has something else there", name, p.facts.Bad)
	}
	r.Image, r.Unset, r.Unlabel = img.ID, p.facts.Env, p.facts.Labels
	if err := l.addMounts(ctx, e, p, spec); err != nil {
		return nil, p.undo(err)
	}
	if err := l.chooseWorkspace(ctx, e, p, spec); err != nil {
		return nil, p.undo(err)
	}
	if err := errors.Join(l.mapIDs(e, r), l.nameUser(e, p)); err != nil {
		return nil, p.undo(err)
	}
	return p, nil
}

func (r *request) chooseNetwork() error {
	switch r.Network {
	case "":
		r.Network = "none"
	case "none", "bridge":
	default:
		return sandbox.Errorf(sandbox.InvalidArgument, `Set network to "none" or "bridge".`, "a box cannot have the network %q", sanitize(r.Network, 100))
	}
	return nil
}

// chooseRuntime refuses a runtime that the engine does not know, and names those that
// it does: the engine's own error does not.
func (l *Launcher) chooseRuntime(e *engine, r *request) error {
	r.Runtime = l.config.Runtime
	if _, known := e.info.Runtimes[r.Runtime]; known || r.Runtime == "" {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(e.info.Runtimes)), ", ")
	return sandbox.Errorf(sandbox.InvalidArgument, "Install the runtime and add it to the engine's own configuration, or choose one that the engine has.",
		"The engine has no runtime %q; it has %s.", sanitize(r.Runtime, 100), sanitize(names, 500))
}

// limit sets the limits of a box, and none above what the engine has.
func (l *Launcher) limit(e *engine, spec sandbox.Spec, p *plan) {
	r := &p.request
	r.Memory = positiveOr(spec.Memory, defaultMemory)
	r.Pids = positiveOr(spec.Pids, defaultPids)
	r.Tmp = positiveOr(spec.Tmp, defaultTmp)
	if most := maxTmp(r.Memory); r.Tmp > most {
		if r.Tmp != defaultTmp {
			p.notes = l.notes.add(p.notes, fmt.Sprintf("/tmp holds %d MB and not the %d MB asked for: it counts as memory, of which the box has %d MB.", most>>20, r.Tmp>>20, r.Memory>>20))
		}
		r.Tmp = most
	}
	_, refused := l.noSysctls.Load(e.endpoint.Host)
	r.Sysctls = !refused
	_, refused = l.noInodes.Load(e.endpoint.Host)
	r.Inodes = !refused
	r.CPUs = positiveOr(spec.CPUs, defaultCPUs)
	if n := float64(e.info.NCPU); n > 0 && r.CPUs > n {
		p.notes = l.notes.add(p.notes, fmt.Sprintf("The box has %g CPUs, all that the engine has, and not the %g asked for.", n, r.CPUs))
		r.CPUs = n
	}
	if !e.has("seccomp") && r.Seccomp == "" {
		p.notes = l.notes.add(p.notes, "The engine does not support seccomp, so boxes can make every system call.")
	}
}

func positiveOr[T int64 | float64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// show records what of the host the box is to have at a place.
func (p *plan) show(place string, f *hostpath.File, main bool) {
	p.files = append(p.files, f)
	p.shown = append(p.shown, sandbox.Shown{Path: place, Source: f.Path, ID: f.ID, Main: main})
}

// closeFiles closes the files that the plan has open. The mounts of a running
// container keep them.
func (p *plan) closeFiles() {
	for _, f := range p.files {
		f.Close()
	}
	p.files = nil
}

// undo releases what a plan holds, and returns the reason.
func (p *plan) undo(err error) error {
	p.closeFiles()
	p.workspace.removeIfEmpty()
	return err
}

// notVisible reports whether an engine refused to mount a directory of ours because
// it sees another file system, in a machine or container of its own, or may see less
// of ours, as another user.
func notVisible(err error) bool {
	if err == nil {
		return false
	}
	for _, words := range []string{"bind source path does not exist", `invalid mount config for type "bind": stat `, "mounts denied", "is not shared from", "not a shared", "opening seccomp profile"} {
		if strings.Contains(strings.ToLower(err.Error()), words) {
			return true
		}
	}
	return false
}

// withoutHost removes from a plan what lies on the host, and reports whether that
// changed it. A directory that the user named stays: it cannot lie elsewhere.
func (p *plan) withoutHost() (changed bool) {
	r := &p.request
	if p.workspace.own != "" {
		p.workspace.removeIfEmpty()
		p.workspace.own, r.Workspace, changed = "", "", true
		p.shown = slices.DeleteFunc(p.shown, func(s sandbox.Shown) bool { return s.Main })
	}
	if filepath.IsAbs(r.Seccomp) {
		r.Seccomp, changed = "", true
		p.notes = append(p.notes, noteProfile)
	}
	if r.Passwd != "" {
		r.Passwd, r.Group, p.user, changed = "", "", "", true
	}
	return changed
}

// explainNotVisible tells the user what to do about a named workspace that the engine
// does not see.
func explainNotVisible(err error, p *plan) error {
	if !notVisible(err) || p.request.Workspace == "" {
		return err
	}
	return sandbox.Errorf(sandbox.InvalidArgument, "Share the directory with the engine (Docker Desktop: Settings, Resources, File sharing; a server in a container: mount it at the same path on both sides), or leave the workspace out.",
		"The engine does not see the workspace %s: %w", p.request.Workspace, err)
}

// defaultPath is the PATH of commands where the image has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// tmpDir holds temporary files on disk: /tmp is in memory. The agent creates it.
const tmpDir = home + "/.tmp"

// describe returns the place of the box that a plan becomes.
func (l *Launcher) describe(p *plan, r request) sandbox.Place {
	notes := slices.Clip(p.notes)
	if r.Workspace == "" {
		notes = l.notes.add(notes, "The engine does not share this machine's files: the workspace lies within the box and ends with it.")
	}
	path := cmp.Or(p.facts.Path, defaultPath)
	env := []string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + tmpDir, "GOTMPDIR=" + tmpDir}
	if p.user != "" {
		env = append(env, "USER="+p.user)
	}
	return sandbox.Place{
		Backend: "docker", Image: r.ImageName, Path: r.Transport,
		Workspace: r.Workspace, Dir: r.dir(),
		Shown:     p.shown,
		Env:       env,
		Memory:    r.Memory,
		Room:      &sandbox.Room{Network: r.Network, CPUs: r.CPUs, Pids: r.Pids, Tmp: r.Tmp, Home: home, ReadOnly: r.ReadOnly},
		Heartbeat: r.Transport == relayTransport,
		Notes:     notes,
		Covered:   coverPaths(r.Covers),
		Found:     p.found,
	}
}
