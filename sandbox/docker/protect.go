package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/docker/docker/api/types/mount"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostcode"
)

// A cover is a bind mount of a part of the workspace over itself. A read-only cover
// protects what would run code on the host later, such as a hook or the settings of
// an editor. A writable one covers a directory above such a part: a mount point
// cannot be renamed, or else a command could move .git away and create another.
type cover struct {
	Path     string // in the workspace, with slashes
	ReadOnly bool
}

// maxCovers bounds the mounts of a box: each costs time at its start.
const maxCovers = 200

// cover scans a named workspace for what the host may execute, and covers it.
func (p *plan) cover(spec sandbox.Spec) (err error) {
	if !sandbox.Watched(spec) {
		return nil
	}
	found := sandbox.ScanWorkspace(p.request.Workspace, spec.Protect)
	p.found = &found
	list, open := protected(spec.Protect, found)
	var omitted []string
	if p.request.Covers, omitted, err = covers(p.request.Workspace, list); err != nil {
		return err
	}
	if open = append(open, omitted...); len(open) > 0 {
		p.notes = append(p.notes, noteOpen(open))
	}
	return nil
}

// startCovered starts a box on its own socket. A command of another box with this
// workspace can delete a covered path before the engine mounts it: then the scan is
// repeated.
func (l *Launcher) startCovered(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) (*box, error) {
	const tries = 3
	notes := p.notes
	for try := 1; ; try++ {
		b, err := l.start(ctx, e, p, socketTransport)
		if !notVisible(err) || len(p.request.Covers) == 0 || try == tries {
			return b, err
		}
		p.notes = notes
		if err := p.cover(spec); err != nil {
			return nil, err
		}
	}
}

// protected returns the paths to cover, those that the owner named first and then
// those nearest to the top, and the found paths that cannot be covered.
func protected(protect []string, found hostcode.Found) (list, open []string) {
	list, excluded := sandbox.Protected(protect)
	places := slices.Clone(found.Places)
	slices.SortStableFunc(places, func(a, b hostcode.Place) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	for _, place := range places {
		switch {
		case sandbox.Excluded(excluded, place.Path), place.Kind == hostcode.Repo, place.Kind == hostcode.Todo:
		case place.Kind == hostcode.Link, !utf8.ValidString(place.Path): // the engine accepts names as JSON
			open = append(open, place.Path)
		default:
			list = append(list, place.Path)
		}
	}
	// Commands cannot change a link in a covered directory.
	return list, slices.DeleteFunc(open, func(name string) bool {
		return slices.ContainsFunc(list, func(dir string) bool { return strings.HasPrefix(name, path.Clean(dir)+"/") }) && utf8.ValidString(name)
	})
}

// covers returns the covers for those paths that exist, from the top down, and the
// paths for which there is no room. A missing path gets none: the engine would create
// it on the host. Nor does a path behind a symbolic link, which a command of an
// earlier box may have made to lead anywhere.
func covers(workspace string, protect []string) (list []cover, omitted []string, err error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, nil, fmt.Errorf("open the workspace: %w", err)
	}
	defer root.Close()
	readOnly := make(map[string]bool)
	for _, name := range protect {
		steps := existingSteps(root, name)
		more := 0
		for _, step := range steps {
			if _, known := readOnly[step]; !known {
				more++
			}
		}
		if len(readOnly)+more > maxCovers {
			omitted = append(omitted, name)
			continue
		}
		for i, step := range steps {
			readOnly[step] = readOnly[step] || i == len(steps)-1
		}
	}
	for name, ro := range readOnly {
		// A writable cover must not lie within one that is read-only.
		if !slices.ContainsFunc(parents(name), func(dir string) bool { return readOnly[dir] }) {
			list = append(list, cover{name, ro})
		}
	}
	slices.SortFunc(list, func(a, b cover) int { return cmp.Compare(a.Path, b.Path) })
	return list, omitted, nil
}

// existingSteps returns the directories on the way to a path and the path itself, or
// nothing if one of them is missing. It ends at a file in the place of a directory:
// the .git of a work tree names the real one, and is as powerful as its settings.
func existingSteps(root *os.Root, name string) (steps []string) {
	parts := strings.Split(path.Clean(name), "/")
	for i := range parts {
		step := path.Join(parts[:i+1]...)
		info, err := root.Lstat(filepath.FromSlash(step))
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return nil
		}
		steps = append(steps, step)
		if !info.IsDir() {
			break
		}
	}
	return steps
}

// parents returns the directories of the workspace that a path is in.
func parents(name string) (dirs []string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

func (f fileSystem) coverMounts() (mounts []mount.Mount) {
	for _, c := range f.Covers {
		mounts = append(mounts, bindMount(filepath.Join(f.Workspace, filepath.FromSlash(c.Path)), workspaceDir+"/"+c.Path, c.ReadOnly))
	}
	return mounts
}

// coverPaths returns the paths of covers.
func coverPaths(covers []cover) (list []string) {
	for _, c := range covers {
		list = append(list, c.Path)
	}
	return list
}

// noteOpen names the paths that commands can change although the host may execute
// them.
func noteOpen(names []string) string {
	const most = 5
	var list []string
	for _, name := range names[:min(len(names), most)] {
		list = append(list, sandbox.QuotePath(name))
	}
	s := strings.Join(list, ", ")
	if more := len(names) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("Commands can change %s, from which programs of the user's machine take what they execute: "+
		"these are symbolic links, names that are not UTF-8, or more than the %d mounts that a container gets for this.", s, maxCovers)
}

// noteElsewhere notes that git does not work in a workspace whose repository lies
// elsewhere, unless the owner mounted the repository too.
func (p *plan) noteElsewhere(spec sandbox.Spec) {
	git := hostcode.OutsideGitDir(p.request.Workspace)
	has := func(m sandbox.Mount) bool { return git == m.Target || strings.HasPrefix(git, m.Target+"/") }
	if git == "" || slices.ContainsFunc(spec.Mounts, has) {
		return
	}
	note := fmt.Sprintf("Git does not work in the workspace: its .git leads to %s, which the box does not have. "+
		"The owner can make the repository's own directory the workspace", sandbox.QuotePath(sanitize(git, 300)))
	if path.IsAbs(git) {
		repo, _, _ := strings.Cut(git, "/worktrees/")
		note += fmt.Sprintf(`, or have git read there, and not write, with a [[mounts]] of source and target %s, mode "ro"`, sandbox.QuotePath(sanitize(repo, 300)))
	}
	p.notes = append(p.notes, note+".")
}
