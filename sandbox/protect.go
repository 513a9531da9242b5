package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A lookout watches the protected paths of a workspace, which a program on the
// host may run later. A backend keeps commands from those that were there when
// their box started, where it can; what comes later nobody keeps them from, so
// that it is told. A nil lookout has nothing to watch. One goroutine uses it.
type lookout struct {
	dir   string
	paths []string
	looks map[string]look // at those that were there
}

// A look is what of a file a change shows in. What it holds is not read: it is
// as hostile as what a command prints, and may be large.
type look struct {
	mode fs.FileMode
	size int64
	time time.Time
}

// newLookout watches what commands of a box could change and people use: a
// workspace that somebody named.
func newLookout(spec Spec, dir string) *lookout {
	if spec.Workspace == "" || spec.ReadOnly || dir == "" || len(spec.Protect) == 0 {
		return nil
	}
	l := &lookout{dir: dir, paths: spec.Protect}
	l.looks = l.look()
	return l
}

// look costs a few system calls for each path, and follows no link out of the
// workspace.
func (l *lookout) look() map[string]look {
	looks := make(map[string]look, len(l.looks))
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return looks // a workspace that is gone has nothing to protect
	}
	defer root.Close()
	for _, path := range l.paths {
		if info, err := root.Lstat(filepath.FromSlash(path)); err == nil {
			looks[path] = look{info.Mode(), info.Size(), info.ModTime()}
		}
	}
	return looks
}

// news returns the paths that have appeared or become others since it was last
// asked, in the order of the list. One that is gone does no harm. Whoever works
// in the workspace on the host changes them too: it is no proof of what a
// command did.
func (l *lookout) news() (changed []string) {
	if l == nil {
		return nil
	}
	before := l.looks
	l.looks = l.look()
	for _, path := range l.paths {
		if is, there := l.looks[path]; there && is != before[path] {
			changed = append(changed, path)
		}
	}
	return changed
}
