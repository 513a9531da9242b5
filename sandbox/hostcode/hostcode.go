// Package hostcode finds the files in a workspace that can make git on this machine
// execute something: the hooks of its repositories, and the settings that name programs.
//
// It finds repositories as git does: directories named .git, files of that name that
// point to one, the modules and linked work trees of a repository, and bare repositories
// in any directory. From their settings it follows core.hooksPath, includes and the
// programs that they name. It follows symbolic links.
//
// It executes nothing, does not call git, and does not read the settings of the user or
// the system. It follows nothing out of the workspace. All that it reads may be hostile:
// a scan is bounded in entries, time and memory, and names what it did not see. The names
// that it returns are untrusted.
package hostcode

import (
	"cmp"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The limits of a scan.
const (
	MaxEntries = 50_000
	MaxTime    = time.Second

	// maxNames bounds the bytes of all names that a scan keeps, and maxPath those of one:
	// nested directories can make names of any length.
	maxNames = 16 << 20
	maxPath  = 2048

	// maxSettings bounds the size of a settings file, maxPointer that of a file that
	// names a directory.
	maxSettings = 1 << 20
	maxPointer  = 8 << 10

	// maxUnseen bounds the named directories among those that were not scanned.
	maxUnseen = 5
)

// Kind is the kind of a place.
type Kind int

const (
	Repo  Kind = iota // a git directory. Commands write to it; the places in it are listed on their own
	Plain             // a file or directory that can be mounted read-only
	Link              // a symbolic link; nothing can be mounted over it
	Todo              // a file that git's own commands write while they work
)

// A Place is a file or directory in the workspace from which git takes what it executes.
type Place struct {
	Path string // relative to the workspace, with slashes; no parent is a link
	Repo string // the git directory that it belongs to
	Kind Kind

	stamp string // differs after a change
}

// Found is the result of a scan.
type Found struct {
	Places []Place  // ordered by path
	Unseen []string // some of the directories that were not scanned completely
	More   int      // number of other such directories
	Took   time.Duration
}

// Complete reports whether the whole workspace was scanned.
func (f Found) Complete() bool { return len(f.Unseen) == 0 }

// Scan scans the workspace in a directory. A missing directory has no places. named are
// further paths that are to stay unchanged. They are no places themselves; the targets of
// links at them, on the way to them and in them are.
func Scan(dir string, named ...string) Found { return scan(dir, MaxEntries, MaxTime, named...) }

func scan(dir string, entries int, limit time.Duration, named ...string) Found {
	begin := time.Now()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Found{}
	}
	defer root.Close()
	s := &scanner{
		root: root, names: rootNames(dir), left: entries, deadline: begin.Add(limit), bytes: maxNames,
		places: map[string]Place{}, seen: map[string]bool{}, unseen: map[string]bool{},
	}
	for _, name := range named {
		s.named(path.Clean(filepath.ToSlash(name)))
	}
	s.walk()
	f := Found{Took: time.Since(begin)}
	for _, p := range s.places {
		f.Places = append(f.Places, p)
	}
	slices.SortFunc(f.Places, func(a, b Place) int { return strings.Compare(a.Path, b.Path) })
	f.More = len(s.unseen)
	for name := range s.unseen {
		f.Unseen = append(f.Unseen, name)
	}
	slices.SortFunc(f.Unseen, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	f.Unseen = f.Unseen[:min(len(f.Unseen), maxUnseen)]
	f.More -= len(f.Unseen)
	return f
}

// rootNames returns the absolute paths of a workspace, with and without links.
func rootNames(dir string) (names []string) {
	if abs, err := filepath.Abs(dir); err == nil {
		names = append(names, filepath.ToSlash(abs))
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
		names = append(names, filepath.ToSlash(real))
	}
	return names
}

// A scanner is the state of one scan.
type scanner struct {
	root     *os.Root
	names    []string // absolute paths of the root
	left     int      // number of entries that may still be read
	bytes    int      // bytes of names that may still be kept
	deadline time.Time

	places map[string]Place // by path
	seen   map[string]bool  // repositories, settings files and hook directories that were scanned
	unseen map[string]bool
}

// spend counts one entry, and reports whether the limits allow it.
func (s *scanner) spend() bool {
	if s.left <= 0 || s.left%64 == 0 && time.Now().After(s.deadline) {
		s.left = 0
		return false
	}
	s.left--
	return true
}

// fits reports whether the limits allow to keep one more name.
func (s *scanner) fits(name string) bool {
	s.bytes -= len(name)
	return len(name) <= maxPath && s.bytes >= 0
}

// skip records a directory that is not scanned completely.
func (s *scanner) skip(name string) {
	if len(name) > maxPath {
		name = strings.ToValidUTF8(name[:maxPath], "") // enough to find the directory
	}
	s.unseen[name] = true
}

// walk scans the directories breadth first: people work in those near the top.
func (s *scanner) walk() {
	queue := []string{"."}
	for i := 0; i < len(queue); i++ {
		dir := queue[i]
		queue[i] = ""
		if !s.spend() {
			s.skip(dir)
			continue
		}
		head := false
		s.list(dir, func(e fs.DirEntry) {
			name := path.Join(dir, e.Name())
			head = head || e.Name() == "HEAD"
			switch {
			case strings.EqualFold(e.Name(), ".git"):
				s.dotGit(dir, name)
			case !e.IsDir():
			case s.fits(name):
				queue = append(queue, name)
			default:
				s.skip(name)
			}
		})
		if head && s.isBare(dir) {
			s.repo(dir, "")
		}
	}
}

// list calls f with the entries of a directory, within the limits.
func (s *scanner) list(dir string, f func(fs.DirEntry)) {
	d, err := s.root.OpenFile(filepath.FromSlash(dir), os.O_RDONLY|openDirectory, 0)
	if err != nil {
		if !os.IsNotExist(err) {
			s.skip(dir)
		}
		return
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if !s.spend() {
				s.skip(dir)
				return
			}
			f(e)
		}
		if err != nil {
			if err != io.EOF {
				s.skip(dir)
			}
			return
		}
	}
}

// lstat returns what is at a path, nil if nothing is.
func (s *scanner) lstat(name string) fs.FileInfo {
	if !s.spend() {
		s.skip(path.Dir(name))
		return nil
	}
	info, err := s.root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return nil
	}
	return info
}

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

// named records the targets of links at and below a path that is to stay unchanged. The
// path itself is no place: the caller knows it.
func (s *scanner) named(name string) {
	real := s.follow(".", name, "")
	if real == "" || real == "." {
		return
	}
	if real == name {
		s.links(real)
	} else {
		s.target(name, real)
	}
}

// links records the targets of the links below a directory. The links themselves are
// protected with the directory.
func (s *scanner) links(dir string) {
	if info := s.lstat(dir); info == nil || !info.IsDir() || s.seen["links "+dir] {
		return
	}
	s.seen["links "+dir] = true
	s.list(dir, func(e fs.DirEntry) {
		name := path.Join(dir, e.Name())
		switch {
		case !s.fits(name):
			s.skip(name)
		case e.IsDir():
			s.links(name)
		case e.Type() == fs.ModeSymlink:
			text, err := s.root.Readlink(filepath.FromSlash(name))
			if err != nil {
				return
			}
			if real := s.follow(dir, filepath.ToSlash(text), ""); real != "" {
				s.target(name, real)
			}
		}
	})
}

// target records the target of a link, unless that contains the link: protecting it would
// protect everything around the link.
func (s *scanner) target(link, real string) {
	info := s.lstat(real)
	if info == nil || real == "." || strings.HasPrefix(link, real+"/") {
		return
	}
	s.add(real, "", info)
	if p := s.places[real]; p.Kind == Plain && info.IsDir() && p.stamp == "directory" {
		p.stamp = stamp(info)
		s.places[real] = p
	}
	s.links(real)
}

// follow resolves a path, relative to base or absolute, and returns "" if it leads out of
// the workspace. Links on the way are places too: changing one leads git elsewhere. From
// the first component that does not exist, the path is returned as written.
func (s *scanner) follow(base, target, repo string) string {
	const maxLinks = 40
	at, rest := base, strings.Split(target, "/")
	if path.IsAbs(target) {
		inside, ok := s.inside(target)
		if !ok {
			return ""
		}
		at, rest = ".", strings.Split(inside, "/")
	}
	for links := 0; len(rest) > 0; {
		step := rest[0]
		rest = rest[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			if at != "." {
				at = path.Dir(at)
				continue
			}
			inside, ok := s.inside(path.Join(append([]string{path.Dir(s.names[0])}, rest...)...))
			if !ok {
				return ""
			}
			rest = strings.Split(inside, "/")
			continue
		}
		next := path.Join(at, step)
		if len(next) > maxPath {
			return ""
		}
		info := s.lstat(next)
		if info == nil {
			return path.Join(append([]string{next}, rest...)...)
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = next
			continue
		}
		text, err := s.root.Readlink(filepath.FromSlash(next))
		if links++; err != nil || links > maxLinks {
			return ""
		}
		if s.add(next, repo, info); s.places[next].Kind == Link {
			p := s.places[next]
			p.stamp = stamp(info) + text
			s.places[next] = p
		}
		text = filepath.ToSlash(text)
		if path.IsAbs(text) {
			inside, ok := s.inside(text)
			if !ok {
				return ""
			}
			at, text = ".", inside
		}
		rest = append(strings.Split(text, "/"), rest...)
	}
	return at
}

// inside returns an absolute path relative to the workspace.
func (s *scanner) inside(abs string) (string, bool) {
	abs = path.Clean(abs)
	for _, root := range s.names {
		if abs == root {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(abs, strings.TrimSuffix(root, "/")+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// read returns the contents of a file, "" if that is no readable regular file or has more
// than most bytes. A file that exists and cannot be opened or read, or is too large, is
// recorded as not scanned.
func (s *scanner) read(name string, most int) string {
	if !s.spend() {
		s.skip(path.Dir(name))
		return ""
	}
	f, err := s.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|openNonblock, 0)
	if err != nil {
		if !os.IsNotExist(err) {
			s.skip(name)
		}
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil || len(text) > most {
		s.skip(name)
		return ""
	}
	return string(text)
}
