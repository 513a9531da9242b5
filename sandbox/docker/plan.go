package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostcode"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// A plan is a box before its path is chosen.
type plan struct {
	id        string
	request   request
	facts     facts
	keep      *sandbox.Persistent
	user      string // the name of the box's user, "" if it has none
	workspace workspace
	shown     []sandbox.Shown  // of the host
	files     []*hostpath.File // which these are, open while the box is started
	notes     []string
	found     *hostcode.Found // in a named workspace; nil in others
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
	name := spec.Image
	if name == "" {
		name = l.config.DefaultImage
	}
	p := &plan{id: id, keep: spec.Persistent}
	p.request = request{
		Box: id, Instance: l.instance, Host: l.hostLabel(), PID: os.Getpid(), Started: l.started,
		ImageName: name, Network: spec.Network, ReadOnly: spec.ReadOnly,
		CgroupV2: e.info.CgroupVersion == "2",
	}
	c := &p.request
	if err := errors.Join(c.network(), l.runtime(e, c), l.seccomp(e, p)); err != nil {
		return nil, err
	}
	l.limits(e, spec, p)
	img, err := l.image(ctx, e, name, spec.Progress)
	if err != nil {
		return nil, err
	}
	if p.facts, err = l.facts(ctx, e, img); err != nil {
		return nil, err
	}
	if p.facts.Bad != "" {
		return nil, sandbox.Errorf(sandbox.ImageDenied, "Build one FROM it that has a directory there, or use another image.",
			"image %s has something else than a directory at %s, which a box needs", name, p.facts.Bad)
	}
	c.Image, c.Unset, c.Unlabel = img.ID, p.facts.Env, p.facts.Labels
	if err := l.addMounts(ctx, e, p, spec); err != nil {
		return nil, p.abandon(err)
	}
	if err := l.place(ctx, e, spec, p); err != nil {
		return nil, p.abandon(err)
	}
	if err := errors.Join(l.ownIDs(e, c), l.identity(e, p)); err != nil {
		return nil, p.abandon(err)
	}
	return p, nil
}

func (c *request) network() error {
	switch c.Network {
	case "":
		c.Network = "none"
	case "none", "bridge":
	default:
		return sandbox.Errorf(sandbox.InvalidArgument, `Say "none" or "bridge".`, "%q is no network that a box can have", clean(c.Network, 100))
	}
	return nil
}

// addMounts takes mounts that leave alone what makes a box one.
func (l *Launcher) addMounts(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) error {
	mounts := spec.Mounts
	if len(mounts) > 0 && !e.local() {
		return sandbox.Errorf(sandbox.InvalidArgument, "Leave mounts out, or use an engine on this machine.",
			"The engine at %s is another machine: it has no %s of ours.", e.endpoint.Host, mounts[0].Source)
	}
	for _, m := range mounts {
		if !mountable(m.Target) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose another place, such as /skills, /etc/ssl/certs or a directory below /home/agent.",
				"Nothing can be mounted at %q: it is no absolute path without . and .., or it is, lies in or lies above a place that the box itself needs, such as /workspace.", clean(m.Target, 300))
		}
		f, err := l.open(ctx, e, spec, m.Source)
		if err != nil {
			return unusable("a mount", m.Source, err)
		}
		m.Source = f.Path
		p.request.Mounts = append(p.request.Mounts, m)
		p.show(m.Target, f, false)
	}
	return nil
}

// open opens a path of the host that the owner named for boxes.
func (l *Launcher) open(ctx context.Context, e *engine, spec sandbox.Spec, path string) (*hostpath.File, error) {
	return spec.Paths.Open(path, func() ([]string, error) { return l.writtenByOthers(ctx, e) })
}

// show notes what the box is to have at a place.
func (p *plan) show(place string, f *hostpath.File, main bool) {
	p.files = append(p.files, f)
	p.shown = append(p.shown, sandbox.Shown{Path: place, Source: f.Path, ID: f.ID, Main: main})
}

// letGo lets go of the files that the plan has open. Once a container runs its
// mounts hold what they are.
func (p *plan) letGo() {
	for _, f := range p.files {
		f.Close()
	}
	p.files = nil
}

// unusable says why a path of the host cannot be what it was named for.
func unusable(what, path string, err error) error {
	hint := "Name what exists on this machine."
	refusal, refused := errors.AsType[*hostpath.Refusal](err)
	if refused {
		hint = refusal.Hint
	}
	if _, absent := errors.AsType[*fs.PathError](err); !absent && !refused {
		return err // of an engine that was asked
	}
	return sandbox.Errorf(sandbox.InvalidArgument, hint, "Cannot use %s as %s: %w", clean(path, 300), what, err)
}

// mountable reports whether a mount may lie at a path: not over a place of ours
// or of the kernel's, nor above or in one. In the workspace the engine would
// make its mount point, on the host.
func mountable(target string) bool {
	if !path.IsAbs(target) || target == "/" || path.Clean(target) != target || target != clean(target, maxPath) {
		return false
	}
	for _, place := range []string{home, "/tmp", agentDir, socketDir, workspaceDir, "/proc", "/sys", "/dev", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} {
		if below(place, target) || below(target, place) && place != home && place != "/tmp" {
			return false
		}
	}
	return true
}

// runtime sees that the engine knows the runtime that was asked for: it would
// say so itself, but not which ones it has.
func (l *Launcher) runtime(e *engine, c *request) error {
	c.Runtime = l.config.Runtime
	if _, known := e.info.Runtimes[c.Runtime]; known || c.Runtime == "" {
		return nil
	}
	names := strings.Join(slices.Sorted(maps.Keys(e.info.Runtimes)), ", ")
	return sandbox.Errorf(sandbox.InvalidArgument, "Install it and name it in the engine's own configuration, or choose one of these.",
		"The engine has no runtime %q; it has %s.", clean(c.Runtime, 100), clean(names, 500))
}

// limits sets what the box may use, and never more than the engine has.
func (l *Launcher) limits(e *engine, spec sandbox.Spec, p *plan) {
	c := &p.request
	c.Memory = or(spec.Memory, defaultMemory)
	c.Pids = or(spec.Pids, defaultPids)
	c.Tmp = or(spec.Tmp, defaultTmp)
	if most := mostTmp(c.Memory); c.Tmp > most {
		if c.Tmp != defaultTmp {
			p.notes = l.note(p.notes, fmt.Sprintf("/tmp holds %d MB and not the %d MB asked for: it counts as memory, of which the box has %d MB.", most>>20, c.Tmp>>20, c.Memory>>20))
		}
		c.Tmp = most
	}
	c.Sysctls = l.setsSysctls(e)
	c.CPUs = or(spec.CPUs, defaultCPUs)
	if n := float64(e.info.NCPU); n > 0 && c.CPUs > n {
		p.notes = l.note(p.notes, fmt.Sprintf("The box has %g CPUs, all that the engine has, and not the %g asked for.", n, c.CPUs))
		c.CPUs = n
	}
	if !e.has("seccomp") && c.Seccomp == "" {
		p.notes = l.note(p.notes, "The engine knows no seccomp, so boxes can make every system call.")
	}
}

func or[T int64 | float64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// A workspace is a directory of the host that is the box's own.
type workspace struct{ own string }

// release takes an own workspace away if nothing is in it. What a command left
// there stays.
func (w workspace) release() {
	if w.own != "" {
		os.Remove(w.own)
	}
}

// abandon gives back what a plan took and returns the reason.
func (p *plan) abandon(err error) error {
	p.letGo()
	p.workspace.release()
	return err
}

// unseen reports whether an engine refused to mount a directory of ours because
// it sees another file system than we do, in a machine or container of its own,
// or less of it, as another user.
func unseen(err error) bool {
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

// withoutHost changes a plan so that nothing of it lies on the host but what
// somebody named, and reports whether that is another plan: what was named cannot
// lie elsewhere.
func (p *plan) withoutHost() (other bool) {
	c := &p.request
	if p.workspace.own != "" {
		p.workspace.release()
		p.workspace.own, c.Workspace, other = "", "", true
		p.shown = slices.DeleteFunc(p.shown, func(s sandbox.Shown) bool { return s.Main })
	}
	if filepath.IsAbs(c.Seccomp) {
		c.Seccomp, other = "", true
		p.notes = append(p.notes, noteProfile)
	}
	if c.Passwd != "" {
		c.Passwd, c.Group, p.user, other = "", "", "", true
	}
	return other
}

// blind makes an error of an engine that cannot see a workspace one that the
// user can act on.
func blind(err error, p *plan) error {
	if !unseen(err) || p.request.Workspace == "" {
		return err
	}
	return sandbox.Errorf(sandbox.InvalidArgument, "Share the directory with the engine (Docker Desktop: Settings, Resources, File sharing; a server in a container: mount it at the same path on both sides), or leave the workspace out.",
		"The engine does not see the workspace %s: %w", p.request.Workspace, err)
}

// place chooses the workspace and, with it, the user.
func (l *Launcher) place(ctx context.Context, e *engine, spec sandbox.Spec, p *plan) (err error) {
	c, shift := &p.request, e.shift()
	switch {
	case spec.Workspace != "":
		if err := l.nameWorkspace(ctx, e, spec, p); err != nil {
			return err
		}
		p.noteElsewhere(spec)
		if err := p.cover(spec); err != nil {
			return err
		}
	case e.local():
		if err := l.ownWorkspace(p); err != nil {
			return err
		}
	}
	if c.Workspace != "" {
		f := p.files[len(p.files)-1]
		c.UID, c.GID = shift.owner(f.UID, f.GID)
	}
	if c.UID == 0 {
		c.UID, c.GID = defaultUser, defaultUser
	}
	if c.GID == 0 {
		c.GID = c.UID // root's group owns more than commands need
	}
	switch {
	case spec.User != "":
		c.UID, c.GID, err = user(spec.User)
	case e.has("rootless"):
		c.UID, c.GID = 0, 0 // which is the user who runs the engine
	}
	if err != nil {
		return err
	}
	c.BringHome = p.facts.Home && p.facts.HomeUID == c.UID && p.facts.HomeGID == c.GID
	switch {
	case p.workspace.own == "" || e.has("rootless"):
		return nil
	case e.has("userns") && !shift.known():
		return os.Chmod(c.Workspace, 0o777) // the box's user is another one on the host, who only the engine knows
	}
	return give(c.Workspace, c.UID+shift.FirstUID, c.GID+shift.FirstGID)
}

// nameWorkspace takes the workspace that somebody named.
func (l *Launcher) nameWorkspace(ctx context.Context, e *engine, spec sandbox.Spec, p *plan) (err error) {
	c := &p.request
	f, err := l.open(ctx, e, spec, spec.Workspace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sandbox.NoWorkspace(clean(spec.Workspace, 300))
	case err != nil:
		return unusable("the workspace", spec.Workspace, err)
	}
	c.Workspace = f.Path
	p.show(workspaceDir, f, true)
	if !f.Mode.IsDir() {
		return unusable("the workspace", spec.Workspace, &fs.PathError{Op: "open", Path: f.Path, Err: errors.New("it is not a directory")})
	}
	if !e.local() {
		return sandbox.Errorf(sandbox.InvalidArgument, "Leave the workspace out, or use an engine on this machine.",
			"The engine at %s is another machine: it has no %s of ours.", e.endpoint.Host, c.Workspace)
	}
	return writable(f, e, spec)
}

// writable refuses a workspace that commands could only read, unless that is
// what was asked for: they would fail one by one.
func writable(f *hostpath.File, e *engine, spec sandbox.Spec) error {
	// Engines of other systems map owners in a way of their own.
	unsure := !canSocket || e.has("rootless") || e.has("userns") && !e.shift().known()
	uid, _ := e.shift().owner(f.UID, f.GID)
	if uid != 0 || spec.ReadOnly || spec.User != "" || unsure || f.Mode&0o002 != 0 {
		return nil
	}
	if shift := e.shift(); shift.known() {
		return shift.refuse(f.Path)
	}
	return sandbox.Errorf(sandbox.InvalidArgument,
		fmt.Sprintf(`Say workspace_mode = "ro", or user = "0:0", or give the directory another owner: chown -R 1000:1000 %s`, f.Path),
		"Commands could not write to the workspace %s: it belongs to root, and they run as another user.", f.Path)
}

// ownWorkspace makes a directory for this box alone.
func (l *Launcher) ownWorkspace(p *plan) error {
	state, err := l.stateDir()
	if err != nil {
		return err
	}
	parent := filepath.Join(state, "workspaces")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	dir := filepath.Join(parent, p.id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	p.request.Workspace, p.workspace.own = dir, dir
	f, err := (*hostpath.Guard)(nil).Open(dir, nil)
	if err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
	p.show(workspaceDir, f, true)
	return nil
}

// give makes a directory of ours writable for the box's user: by making it
// theirs, or where we may not, by opening it to all who get past its parent,
// which is nobody.
func give(dir string, uid, gid int) error {
	if u, g := owner(dir); u == uid && g == gid {
		return nil
	}
	if os.Chown(dir, uid, gid) == nil {
		return nil
	}
	return os.Chmod(dir, 0o777)
}

// user reads "uid:gid" or "uid".
func user(s string) (uid, gid int, err error) {
	u, g, both := strings.Cut(s, ":")
	if !both {
		g = u
	}
	uid64, err1 := strconv.ParseUint(u, 10, 31)
	gid64, err2 := strconv.ParseUint(g, 10, 31)
	if err1 != nil || err2 != nil {
		return 0, 0, sandbox.Errorf(sandbox.InvalidArgument, `Say it in numbers: "1000:1000".`, "%q is no user that a box can run as", clean(s, 100))
	}
	return int(uid64), int(gid64), nil
}

// identity gives the box's user a name where the image has none for it.
func (l *Launcher) identity(e *engine, p *plan) error {
	passwd, group, changed := p.facts.identity(p.request.UID, p.request.GID)
	p.user = name(passwd, p.request.UID)
	if !changed {
		return nil
	}
	if p.facts.Odd || !e.local() {
		p.user = ""
		p.notes = l.note(p.notes, fmt.Sprintf("Image %s has no name for user %d, so whoami fails in the box.", p.request.ImageName, p.request.UID))
		return nil
	}
	sum := sha256.Sum256([]byte(passwd + "\x00" + group))
	dir, err := l.cacheDir("users", hex.EncodeToString(sum[:8]))
	if err != nil {
		return fmt.Errorf("name the box's user: %w", err)
	}
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if exists(filepath.Join(dir, name)) {
			continue
		}
		if err := put(dir, name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("name the box's user: %w", err)
		}
	}
	p.request.Passwd, p.request.Group = filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	return nil
}

// defaultPath is what commands find programs in where the image does not say.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// tmp is for temporary files: on disk, where /tmp is memory. The agent makes it.
const tmp = home + "/.tmp"

// where describes the box that comes of a plan.
func (l *Launcher) where(p *plan, c request) sandbox.Place {
	notes := slices.Clip(p.notes)
	if c.Workspace == "" {
		notes = l.note(notes, "The engine does not share this machine's files: the workspace lies within the box and ends with it.")
	}
	path := cmp.Or(p.facts.Path, defaultPath)
	env := []string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + tmp, "GOTMPDIR=" + tmp}
	if p.user != "" {
		env = append(env, "USER="+p.user)
	}
	return sandbox.Place{
		Backend: "docker", Image: c.ImageName, Path: c.Path,
		Workspace: c.Workspace, Dir: c.dir(),
		Shown:     p.shown,
		Env:       env,
		Memory:    c.Memory,
		Heartbeat: c.Path == pathRelay,
		Notes:     notes,
		Covered:   coverPaths(c.Covers),
		Found:     p.found,
	}
}
