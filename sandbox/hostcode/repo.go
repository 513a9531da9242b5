package hostcode

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// isBare reports whether git treats a directory with a HEAD as a repository. With a
// commondir, its objects and refs are in another directory.
func (s *scanner) isBare(dir string) bool {
	there := func(name string) bool { return s.lstat(path.Join(dir, name)) != nil }
	return there("commondir") || there("objects") && there("refs")
}

// dotGit scans the entry named .git of a directory.
func (s *scanner) dotGit(dir, name string) {
	info := s.lstat(name)
	if info == nil {
		return
	}
	if info.Mode().Type() == fs.ModeSymlink {
		if name = s.follow(dir, path.Base(name), ""); name == "" {
			return
		}
		if info = s.lstat(name); info == nil {
			return
		}
	}
	if info.IsDir() {
		s.repo(name, dir)
		return
	}
	s.add(name, "", info)
	if target, ok := strings.CutPrefix(s.read(name, maxPointer), "gitdir:"); ok {
		if git := s.follow(dir, strings.TrimSpace(target), ""); git != "" {
			s.repo(git, dir)
		}
	}
}

// repo scans a git directory. tree is its work tree, "" if it has none or it is unknown.
func (s *scanner) repo(git, tree string) {
	if !s.fits(git) {
		s.skip(git)
		return
	}
	if s.seen["repo "+git+"\x00"+tree] {
		return
	}
	s.seen["repo "+git+"\x00"+tree] = true
	if info := s.lstat(git); info == nil || !info.IsDir() {
		return
	}
	if _, known := s.places[git]; !known && git != "." {
		s.places[git] = Place{Path: git, Repo: git, Kind: Repo}
	}
	if s.todo(git); tree == "" {
		tree = s.workTree(git)
	}
	for _, name := range []string{"config", "config.worktree"} {
		s.settings(path.Join(git, name), git, &tree, 0)
	}
	s.hooks(git, "hooks", git)
	if common := path.Join(git, "commondir"); s.lstat(common) != nil {
		s.part(git, "commondir", git)
		if real := s.follow(git, strings.TrimSpace(s.read(common, maxPointer)), git); real != "" && real != git {
			s.repo(real, tree)
		}
	}
	s.modules(path.Join(git, "modules"))
	s.each(path.Join(git, "worktrees"), func(name string) { s.repo(name, "") })
}

// each calls f with the subdirectories of a directory that may not exist.
func (s *scanner) each(dir string, f func(name string)) {
	if info := s.lstat(dir); info == nil || !info.IsDir() {
		return
	}
	s.list(dir, func(e fs.DirEntry) {
		if e.IsDir() {
			f(path.Join(dir, e.Name()))
		}
	})
}

// modules scans the repositories of submodules, whose names may contain slashes.
func (s *scanner) modules(dir string) {
	s.each(dir, func(name string) {
		switch {
		case !s.fits(name):
			s.skip(name)
		case s.lstat(path.Join(name, "HEAD")) != nil || s.lstat(path.Join(name, "config")) != nil || s.lstat(path.Join(name, "commondir")) != nil:
			s.repo(name, "")
		default:
			s.modules(name)
		}
	})
}

// workTree returns the linked work tree that belongs to a git directory.
func (s *scanner) workTree(git string) string {
	text := strings.TrimSpace(s.read(path.Join(git, "gitdir"), maxPointer))
	if text == "" {
		return ""
	}
	if dotGit := s.follow(git, text, git); dotGit != "" {
		return path.Dir(dotGit)
	}
	return ""
}

const todoList = "rebase-merge/git-rebase-todo"

// Transient reports whether a path is a file that git's own commands create in a
// repository and remove when they are done.
func Transient(name string) bool { return strings.HasSuffix(name, "/"+todoList) }

// todo records the list of a rebase under way: its "exec" lines run when the user
// continues the rebase. Commands that rebase write it, so it is not to be protected.
func (s *scanner) todo(git string) {
	name := path.Join(git, todoList)
	if info := s.lstat(name); info != nil {
		s.places[name] = Place{Path: name, Repo: git, Kind: Todo, stamp: stamp(info)}
	}
}

// hooks scans a directory of hooks and records the targets of links in it.
func (s *scanner) hooks(base, name, repo string) {
	dir := s.part(base, name, repo)
	if dir == "" || s.seen["hooks "+dir] {
		return
	}
	s.seen["hooks "+dir] = true
	if info := s.lstat(dir); info == nil || !info.IsDir() {
		return
	}
	var all []string
	s.list(dir, func(e fs.DirEntry) {
		hook := path.Join(dir, e.Name())
		info := s.lstat(hook)
		if info == nil {
			return
		}
		all = append(all, e.Name()+"\x00"+stamp(info))
		if info.Mode().Type() != fs.ModeSymlink {
			return
		}
		text, _ := s.root.Readlink(filepath.FromSlash(hook))
		all = append(all, text)
		s.part(dir, filepath.ToSlash(text), repo)
	})
	slices.Sort(all)
	p := s.places[dir]
	p.stamp += digest(all)
	s.places[dir] = p
}

// part records the place at a path, relative to base, and the links on the way to it. It
// returns the path without links, "" if that is not in the workspace.
func (s *scanner) part(base, name, repo string) string {
	if name = s.follow(base, name, repo); name == "" || name == "." {
		return ""
	}
	info := s.lstat(name)
	if info == nil {
		return ""
	}
	s.add(name, repo, info)
	return name
}

// add records a place.
func (s *scanner) add(name, repo string, info fs.FileInfo) {
	kind := Plain
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		kind = Link
	case !info.IsDir() && !info.Mode().IsRegular():
		return // git executes no sockets or devices
	}
	if p, known := s.places[name]; known && p.Kind != Repo {
		return
	}
	if !s.fits(name) {
		s.skip(name)
		return
	}
	mark := stamp(info)
	if info.IsDir() {
		mark = "directory" // its contents count, and they are not always scanned
	}
	s.places[name] = Place{Path: name, Repo: repo, Kind: kind, stamp: mark}
}
