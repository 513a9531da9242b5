package docker

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostcode"
)

// cover finds what of a named workspace the host may execute, and has it
// covered.
func (p *plan) cover(spec sandbox.Spec) (err error) {
	if !sandbox.Watched(spec) {
		return nil
	}
	found := sandbox.ScanWorkspace(p.request.Workspace, spec.Protect)
	p.found = &found
	list, open := protected(spec.Protect, found)
	var left []string
	if p.request.Covers, left, err = covers(p.request.Workspace, list); err != nil {
		return err
	}
	if open = append(open, left...); len(open) > 0 {
		p.notes = append(p.notes, noteOpen(open))
	}
	return nil
}

// noteElsewhere says of a workspace whose repository lies elsewhere that git does not
// work in it, unless the owner mounted that too.
func (p *plan) noteElsewhere(spec sandbox.Spec) {
	git := hostcode.OutsideGitDir(p.request.Workspace)
	has := func(m sandbox.Mount) bool { return git == m.Target || strings.HasPrefix(git, m.Target+"/") }
	if git == "" || slices.ContainsFunc(spec.Mounts, has) {
		return
	}
	note := fmt.Sprintf("Git does not work in the workspace: its .git leads to %s, which the box does not have. "+
		"The owner can make the repository's own directory the workspace", sandbox.QuotePath(clean(git, 300)))
	if path.IsAbs(git) {
		repo, _, _ := strings.Cut(git, "/worktrees/")
		note += fmt.Sprintf(`, or have git read there, and not write, with a [[mounts]] of source and target %s, mode "ro"`, sandbox.QuotePath(clean(repo, 300)))
	}
	p.notes = append(p.notes, note+".")
}

// startCovered starts a box on its own socket. What is covered can be deleted before
// the engine mounts it, by a command of another box with this workspace: then there
// is less to cover.
func (l *Launcher) startCovered(ctx context.Context, e *engine, p *plan, spec sandbox.Spec) (*box, error) {
	const tries = 3
	notes := p.notes
	for try := 1; ; try++ {
		b, err := l.start(ctx, e, p, pathSocket)
		if !unseen(err) || len(p.request.Covers) == 0 || try == tries {
			return b, err
		}
		p.notes = notes
		if err := p.cover(spec); err != nil {
			return nil, err
		}
	}
}

// protected returns the paths that are to be covered, those that the owner named
// first, then those nearest to the top, and what of the rest cannot be.
func protected(protect []string, found hostcode.Found) (list, open []string) {
	list, spared := sandbox.Protected(protect)
	places := slices.Clone(found.Places)
	slices.SortStableFunc(places, func(a, b hostcode.Place) int {
		return cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/"))
	})
	for _, place := range places {
		switch {
		case sandbox.Excluded(spared, place.Path), place.Kind == hostcode.Repo, place.Kind == hostcode.Todo:
		case place.Kind == hostcode.Link, !utf8.ValidString(place.Path): // the engine takes names as JSON
			open = append(open, place.Path)
		default:
			list = append(list, place.Path)
		}
	}
	// A link within what is covered stays as it is.
	return list, slices.DeleteFunc(open, func(name string) bool {
		return slices.ContainsFunc(list, func(dir string) bool { return strings.HasPrefix(name, path.Clean(dir)+"/") }) && utf8.ValidString(name)
	})
}

// noteOpen names what commands can change although the host may execute it.
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

// coverPaths returns the places of covers, for who is to be told of them.
func coverPaths(covers []cover) (list []string) {
	for _, c := range covers {
		list = append(list, c.Path)
	}
	return list
}
