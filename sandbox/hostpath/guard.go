package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// A Guard knows the paths of this machine that the boxes of one server may have. A path
// is admitted once, when the server starts, and opened at each launch. The Guard
// remembers its device and inode, and checks it again if another file has replaced it. It
// opens no path that was not admitted.
//
// A nil Guard remembers and checks nothing: it opens what a path leads to now.
type Guard struct {
	Home  string   // the user's home directory, "" if unknown
	Own   []string // directories with warmbox's own files
	Wrote []string // directories that boxes of this user could ever write; links in them are not followed

	mu    sync.Mutex
	known map[string]entry // by path, without links
}

// An entry is what a Guard remembers about a path.
type entry struct {
	use  use
	id   ID
	kind fs.FileMode // an inode can be reused for another kind of file
	uid  int
}

// A use is the purpose for which boxes have a path.
type use int

const (
	workspaceRead use = iota
	workspaceWrite
	mountRead
	mountWrite
)

func (u use) writes() bool { return u == workspaceWrite || u == mountWrite }

func (u use) String() string {
	if u == workspaceRead || u == workspaceWrite {
		return "a workspace"
	}
	return "a mount"
}

// A Refusal says why boxes may not have a path, and what to try instead.
type Refusal struct {
	Path string
	Why  string
	Hint string
}

func (r *Refusal) Error() string { return r.Path + " " + r.Why }

func refuse(path, hint, why string, args ...any) error {
	return &Refusal{Path: path, Why: fmt.Sprintf(why, args...), Hint: hint}
}

// Workspace admits the directory that boxes share with this machine. It returns its path
// without links. If there are roots, the directory must lie in one of them.
func (g *Guard) Workspace(path string, writable bool, roots []string) (string, error) {
	u := workspaceRead
	if writable {
		u = workspaceWrite
	}
	return g.admit(path, u, roots)
}

// Mount admits a file or directory that boxes get besides their workspace. It returns its
// path without links.
func (g *Guard) Mount(path string, writable bool) (string, error) {
	u := mountRead
	if writable {
		u = mountWrite
	}
	return g.admit(path, u, nil)
}

func (g *Guard) admit(path string, u use, roots []string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	real, err := resolve(path, slices.Concat(g.Wrote, g.writable()))
	if err != nil {
		return "", err
	}
	f, err := Open(real)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := g.check(f, u, roots); err != nil {
		return "", err
	}
	if g.known == nil {
		g.known = map[string]entry{}
	}
	if _, again := g.known[real]; !again {
		g.known[real] = entry{u, f.ID, f.Mode.Type(), f.UID}
	}
	return real, nil
}

// check decides whether boxes may have a path for a use; no other function does. The
// caller holds g.mu.
func (g *Guard) check(f *File, u use, roots []string) error {
	isMount := u == mountRead || u == mountWrite
	why := g.forbidden(f.Path)
	switch {
	case !isMount && !f.Mode.IsDir():
		why = "it is not a directory"
	case isMount && !f.Mode.IsDir() && !f.Mode.IsRegular():
		why = "it is neither a directory nor a file"
	case u == mountRead && why == systems && !inAny(kernelTrees, f.Path):
		why = ""
	}
	if why != "" {
		return refuse(f.Path, "Name the directory of a project.", "cannot be %v: %s", u, why)
	}
	if err := f.readable(); err != nil {
		return refuse(f.Path, "Name a directory that is yours.", "cannot be %v: you may not read it yourself, and boxes would", u)
	}
	if len(roots) > 0 && !inAny(roots, f.Path) {
		return refuse(f.Path, "Choose a directory in one of the workspace_roots.", "cannot be %v: it lies in none of workspace_roots, %s", u, strings.Join(roots, ", "))
	}
	return g.checkOverlap(f.Path, u)
}

// checkOverlap refuses a path that contains, or lies in, another path of the server such
// that a command could replace what a later box gets, or write past the protection of a
// workspace.
func (g *Guard) checkOverlap(path string, u use) error {
	for other, e := range g.known {
		switch {
		case path == other && u == e.use: // the same mount at a second place in the box
		case e.use.writes() && below(other, path):
			return refuse(path, fmt.Sprintf("Move it out of there, or make %s read-only for boxes.", other), "cannot be %v: it lies in %s, which boxes can write", u, other)
		case u.writes() && below(path, other):
			return refuse(path, "Mount it read-only, or move one of them.", "cannot be %v that boxes can write: %s lies in it, which boxes also have", u, other)
		}
	}
	return nil
}

// writable returns the paths that boxes of this server can write. The caller holds g.mu.
func (g *Guard) writable() (list []string) {
	for path, e := range g.known {
		if e.use.writes() {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// Writable returns the paths that boxes of this server can write.
func (g *Guard) Writable() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writable()
}

// Open opens a path for a box that is being launched. others returns the paths that boxes
// of other servers can write; it is called only if that matters.
//
// A path that still leads to the same file is opened. One that leads to another file or
// directory, such as a project that was cloned again, is checked again: it must have the
// same owner as before, and no box may have been able to put it there. A link is refused.
func (g *Guard) Open(path string, others func() ([]string, error)) (*File, error) {
	if g == nil {
		real, err := resolve(path, nil)
		if err != nil {
			return nil, err
		}
		return Open(real)
	}
	f, err := Open(path)
	if err != nil {
		return nil, refuseLink(path, err)
	}
	if err := g.verify(f, others); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// refuseLink explains that a path has become a link since it was admitted, possibly made
// by a command.
func refuseLink(path string, err error) error {
	link, is := errors.AsType[*LinkError](err)
	if !is {
		return err
	}
	return refuse(path, "Check where the link leads, remove it, and put the directory back.",
		"has changed since this server started: %s is now a symbolic link, which a command may have created", link.Path)
}

// verify checks an opened file against what the Guard remembers.
func (g *Guard) verify(f *File, others func() ([]string, error)) error {
	g.mu.Lock()
	e, admitted := g.known[f.Path]
	own := g.writable()
	g.mu.Unlock()
	if !admitted {
		return refuse(f.Path, "Add it to the configuration, and restart this server.", "was not in the configuration when this server started")
	}
	isMount := e.use == mountRead || e.use == mountWrite
	same := e.id == f.ID && e.kind == f.Mode.Type()
	if same && !isMount {
		return nil
	}
	list, err := others()
	if err != nil {
		return fmt.Errorf("list what other boxes can write: %w", err)
	}
	if i := slices.IndexFunc(list, func(dir string) bool { return e.use.replaceable(dir, f.Path) }); i >= 0 && isMount {
		return refuse(f.Path, "Stop that server and its persistent boxes, or mount a path that they cannot write.", "cannot be %v: boxes of another server can write %s", e.use, list[i])
	}
	if same {
		return nil
	}
	return g.readmit(f, e, slices.Concat(own, list))
}

// replaceable reports whether boxes that can write dir could change what a path of this
// use is. Two servers may share the same directory to be written.
func (u use) replaceable(dir, path string) bool {
	return below(dir, path) && (dir != path || u == mountRead)
}

// readmit remembers the new identity of a path, if no box can have put it there.
func (g *Guard) readmit(f *File, e entry, writable []string) error {
	if i := slices.IndexFunc(writable, func(dir string) bool { return dir != f.Path && below(dir, f.Path) }); i >= 0 {
		return refuse(f.Path, "If you replaced it, restart this server.",
			"has changed since this server started: it was replaced, and boxes can write %s, so a command may have replaced it", writable[i])
	}
	if e.uid != f.UID {
		return refuse(f.Path, "If this is intended, restart this server.",
			"has changed since this server started: it was replaced, and belongs to user %d instead of %d", f.UID, e.uid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.known
	defer func() { g.known = others }()
	g.known = nil // its name and so its overlap with the others are unchanged
	if err := g.check(f, e.use, nil); err != nil {
		return err
	}
	e.id, e.kind = f.ID, f.Mode.Type()
	others[f.Path] = e
	return nil
}
