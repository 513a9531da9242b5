package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// A workspace is a directory of the host that was created for one box. It is zero for
// a box with a named workspace.
type workspace struct{ own string }

// removeIfEmpty removes the directory unless a command left a file in it.
func (w workspace) removeIfEmpty() {
	if w.own != "" {
		os.Remove(w.own)
	}
}

// chooseWorkspace chooses the workspace of a box and, with it, the user.
func (l *Launcher) chooseWorkspace(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) error {
	switch {
	case spec.Workspace != "":
		if err := l.nameWorkspace(ctx, e, p, spec); err != nil {
			return err
		}
		p.noteElsewhere(spec)
		if err := p.cover(spec); err != nil {
			return err
		}
	case e.local():
		if err := l.createWorkspace(p); err != nil {
			return err
		}
	}
	if err := p.chooseUser(e, spec); err != nil {
		return err
	}
	r, mapping := &p.request, e.idMapping()
	switch {
	case p.workspace.own == "" || e.has("rootless"):
		return nil
	case e.has("userns") && !mapping.known():
		return os.Chmod(r.Workspace, 0o777) // only the engine knows the user of the box on the host
	}
	return makeWritable(r.Workspace, r.UID+mapping.FirstUID, r.GID+mapping.FirstGID)
}

// chooseUser chooses the user of commands: the one in the spec, or the owner of the
// workspace, or defaultUser. On a rootless engine user 0 is the user who runs it.
func (p *plan) chooseUser(e *engine, spec sandbox.Spec) (err error) {
	r := &p.request
	if r.Workspace != "" {
		f := p.files[len(p.files)-1]
		r.UID, r.GID = e.idMapping().toBox(f.UID, f.GID)
	}
	if r.UID == 0 {
		r.UID, r.GID = defaultUser, defaultUser
	}
	if r.GID == 0 {
		r.GID = r.UID // root's group owns more than commands need
	}
	switch {
	case spec.User != "":
		r.UID, r.GID, err = parseUser(spec.User)
	case e.has("rootless"):
		r.UID, r.GID = 0, 0
	}
	r.BringHome = p.facts.Home && p.facts.HomeUID == r.UID && p.facts.HomeGID == r.GID
	return err
}

// nameWorkspace sets the workspace that the spec names.
func (l *Launcher) nameWorkspace(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) error {
	r := &p.request
	f, err := l.openPath(ctx, e, spec, spec.Workspace)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sandbox.NoWorkspace(sanitize(spec.Workspace, 300))
	case err != nil:
		return unusable("the workspace", spec.Workspace, err)
	}
	r.Workspace = f.Path
	p.show(workspaceDir, f, true)
	if !f.Mode.IsDir() {
		return unusable("the workspace", spec.Workspace, &fs.PathError{Op: "open", Path: f.Path, Err: errors.New("it is not a directory")})
	}
	if !e.local() {
		return sandbox.Errorf(sandbox.InvalidArgument, "Leave the workspace out, or use an engine on this machine.",
			"The engine at %s is on another machine, which does not have %s of this machine.", e.endpoint.Host, r.Workspace)
	}
	return checkWritable(f, e, spec)
}

// checkWritable refuses a workspace that commands could only read, unless the spec
// asks for that: commands would fail one by one.
func checkWritable(f *hostpath.File, e *engine, spec sandbox.Spec) error {
	// Engines of other systems map owners in their own ways.
	unsure := !canSocket || e.has("rootless") || e.has("userns") && !e.idMapping().known()
	uid, _ := e.idMapping().toBox(f.UID, f.GID)
	if uid != 0 || spec.ReadOnly || spec.User != "" || unsure || f.Mode&0o002 != 0 {
		return nil
	}
	if m := e.idMapping(); m.known() {
		return m.refuse(f.Path)
	}
	return sandbox.Errorf(sandbox.InvalidArgument,
		fmt.Sprintf(`Set workspace_mode = "ro", or user = "0:0", or give the directory another owner: chown -R 1000:1000 %s`, f.Path),
		"Commands could not write to the workspace %s: it belongs to root, and commands run as another user.", f.Path)
}

// createWorkspace creates a directory for this box alone.
func (l *Launcher) createWorkspace(p *plan) error {
	dir, err := l.dirs.workspace(p.id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make a workspace: %w", err)
	}
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

// makeWritable makes a directory of ours writable for the box's user. It gives it to
// that user, or, without the right to do so, opens it to all users: only we can enter
// its parent.
func makeWritable(dir string, uid, gid int) error {
	if u, g := fileOwner(dir); u == uid && g == gid {
		return nil
	}
	if os.Chown(dir, uid, gid) == nil {
		return nil
	}
	return os.Chmod(dir, 0o777)
}

// parseUser reads "uid:gid" or "uid".
func parseUser(s string) (uid, gid int, err error) {
	u, g, both := strings.Cut(s, ":")
	if !both {
		g = u
	}
	uid64, err1 := strconv.ParseUint(u, 10, 31)
	gid64, err2 := strconv.ParseUint(g, 10, 31)
	if err1 != nil || err2 != nil {
		return 0, 0, sandbox.Errorf(sandbox.InvalidArgument, `Use numbers: "1000:1000".`, "a box cannot run as user %q: it must be uid:gid", sanitize(s, 100))
	}
	return int(uid64), int(gid64), nil
}
