package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Snapshot is what the protected paths of a workspace looked like at a moment.
// A backend keeps commands from those that were there when their box started,
// where it can; what came later nobody keeps them from, so that it is told. The
// zero Snapshot is of nothing, and nothing of it changes.
type Snapshot struct {
	dir   string
	paths []string
	looks map[string]look
}

// A look is what of a file a change shows in. What it holds is not read: it is
// as hostile as what a command prints, and may be large.
type look struct {
	mode fs.FileMode
	size int64
	time time.Time
}

// TakeSnapshot looks at the paths in a workspace. It costs a few system calls
// for each, and follows no link out of the workspace.
func TakeSnapshot(dir string, paths []string) Snapshot {
	s := Snapshot{dir: dir, paths: paths, looks: make(map[string]look)}
	if dir == "" || len(paths) == 0 {
		return s
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s // a workspace that is gone has nothing to protect
	}
	defer root.Close()
	for _, path := range paths {
		if info, err := root.Lstat(filepath.FromSlash(path)); err == nil {
			s.looks[path] = look{info.Mode(), info.Size(), info.ModTime()}
		}
	}
	return s
}

// Changed looks again and returns the paths that have appeared since, and those
// that are others than they were, in the order of the list. One that is gone
// does no harm. Whoever works in the workspace on the host changes them too: it
// is no proof of what a command did.
func (s Snapshot) Changed() (appeared, changed []string) {
	now := TakeSnapshot(s.dir, s.paths)
	for _, path := range s.paths {
		is, there := now.looks[path]
		was, before := s.looks[path]
		switch {
		case there && !before:
			appeared = append(appeared, path)
		case there && is != was:
			changed = append(changed, path)
		}
	}
	return appeared, changed
}
