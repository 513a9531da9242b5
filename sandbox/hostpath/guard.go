package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// A Guard knows the paths of this machine that the boxes of one server have. A
// path is admitted once, at the server's start, and opened at each launch: the
// Guard remembers what it was by device and inode, and judges it anew when it
// has become something else. What was not admitted it does not open.
//
// A nil Guard remembers and judges nothing: it opens what a path leads to now.
type Guard struct {
	Home  string   // of the user, "" if unknown
	Own   []string // where warmbox keeps its own files
	Wrote []string // what boxes of this user could write at any time: no link in it is followed

	mu    sync.Mutex
	known map[string]entry // by path, without links
}

// An entry is what a Guard remembers of a path.
type entry struct {
	use  use
	id   ID
	kind fs.FileMode // an inode is used again for another kind of file
	uid  int
}

// A use is what boxes have a path for.
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

// A Refusal says why boxes may not have a path, and what to try.
type Refusal struct {
	Path string
	Why  string
	Hint string
}

func (r *Refusal) Error() string { return r.Path + " " + r.Why }

func refuse(path, hint, why string, args ...any) error {
	return &Refusal{Path: path, Why: fmt.Sprintf(why, args...), Hint: hint}
}

// Workspace admits the directory that boxes share with this machine, and returns
// its path without links. Where roots are given, it must lie in one of them.
func (g *Guard) Workspace(path string, writable bool, roots []string) (string, error) {
	u := workspaceRead
	if writable {
		u = workspaceWrite
	}
	return g.admit(path, u, roots)
}

// Mount admits a file or directory that boxes see besides their workspace, and
// returns its path without links.
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
	if err := g.judge(f, u, roots); err != nil {
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

// judge is the one function that says whether boxes may have a path for a use.
// The caller holds g.mu.
func (g *Guard) judge(f *File, u use, roots []string) error {
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
	if len(roots) > 0 && !inAny(roots, f.Path) {
		return refuse(f.Path, "Choose a directory in one of them.", "cannot be %v: it lies in none of workspace_roots, %s", u, strings.Join(roots, ", "))
	}
	return g.apart(f.Path, u)
}

// apart sees that the paths of one server do not lie in each other in a way that
// lets a command change what a later box gets, or write past what protects a
// workspace.
func (g *Guard) apart(path string, u use) error {
	for other, e := range g.known {
		switch {
		case path == other && u == e.use: // once more, at another place
		case e.use.writes() && below(other, path):
			return refuse(path, fmt.Sprintf("Move it out of there, or let boxes only read %s.", other), "cannot be %v: it lies in %s, which boxes can write", u, other)
		case u.writes() && below(path, other):
			return refuse(path, "Mount it to be read only, or move one of them.", "cannot be %v that boxes can write: %s lies in it, which they have too", u, other)
		}
	}
	return nil
}

// writable lists what the boxes of this server can write. The caller holds g.mu.
func (g *Guard) writable() (list []string) {
	for path, e := range g.known {
		if e.use.writes() {
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// Writable lists what the boxes of this server can write.
func (g *Guard) Writable() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writable()
}

// Open opens a path for a box that is just launched. others lists what boxes of
// other servers can write; it is asked only where that counts.
//
// A path that leads where it led is opened. One that is another directory or file
// by now, such as a project that was cloned anew, is judged again: it must have the
// owner that it had, and no box can have put it there. A link is refused.
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
		return nil, linked(path, err)
	}
	if err := g.hold(f, others); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// linked says of a path that has become a link since it was admitted who may have
// done it.
func linked(path string, err error) error {
	link, is := errors.AsType[*LinkError](err)
	if !is {
		return err
	}
	return refuse(path, "Look at what it leads to, remove it, and put the directory back.",
		"is not what it was when this server started: %s is a link now, which a command may have made", link.Path)
}

// hold holds what was opened against what the Guard remembers.
func (g *Guard) hold(f *File, others func() ([]string, error)) error {
	g.mu.Lock()
	e, admitted := g.known[f.Path]
	own := g.writable()
	g.mu.Unlock()
	if !admitted {
		return refuse(f.Path, "Name it in the configuration.", "was not admitted when this server started")
	}
	isMount := e.use == mountRead || e.use == mountWrite
	same := e.id == f.ID && e.kind == f.Mode.Type()
	if same && !isMount {
		return nil
	}
	list, err := others()
	if err != nil {
		return fmt.Errorf("learn what other boxes can write: %w", err)
	}
	if i := slices.IndexFunc(list, func(dir string) bool { return e.use.meddled(dir, f.Path) }); i >= 0 && isMount {
		return refuse(f.Path, "Stop that server and the boxes it keeps, or mount what they cannot write.", "cannot be %v: boxes of another server can write %s", e.use, list[i])
	}
	if same {
		return nil
	}
	return g.renew(f, e, slices.Concat(own, list))
}

// meddled reports whether boxes that can write a directory could change what a
// path of this use is. What is shared to be written is no secret to who writes it.
func (u use) meddled(dir, path string) bool {
	return below(dir, path) && (dir != path || u == mountRead)
}

// renew takes a path for what it is now, if no box can have put that there.
func (g *Guard) renew(f *File, e entry, writable []string) error {
	if i := slices.IndexFunc(writable, func(dir string) bool { return dir != f.Path && below(dir, f.Path) }); i >= 0 {
		return refuse(f.Path, "If that was you, start this server again.",
			"is not what it was when this server started: it was replaced, and boxes can write %s, so that a command may have done it", writable[i])
	}
	if e.uid != f.UID {
		return refuse(f.Path, "If that is meant, start this server again.",
			"is not what it was when this server started: it was replaced, and belongs to user %d instead of %d", f.UID, e.uid)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	others := g.known
	defer func() { g.known = others }()
	g.known = nil // it lies where it lay, apart from them
	if err := g.judge(f, e.use, nil); err != nil {
		return err
	}
	e.id, e.kind = f.ID, f.Mode.Type()
	others[f.Path] = e
	return nil
}
