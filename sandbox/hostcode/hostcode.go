// Package hostcode finds what git on this machine can be made to execute by what
// is in a workspace: the hooks of its repositories, and the settings that name
// programs.
//
// It finds repositories as git does: directories named .git, files of that name
// that point to one, the modules and linked work trees of a repository, and bare
// repositories in any directory. From their settings it follows core.hooksPath,
// includes and the programs that they name, and it follows links.
//
// It executes nothing, asks no git, and knows nothing of the settings of the user
// or the system. It follows nothing out of the workspace. All that it reads may
// have been written to mislead it: a look is bounded in entries, time and memory,
// and what it did not see it names. The names that it returns are a stranger's
// words.
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

// What a look costs at most.
const (
	MaxEntries = 50_000
	MaxTime    = time.Second

	// maxNames bounds the bytes of all names that a look keeps, and maxPath those
	// of one: directories within directories make names that grow without end.
	maxNames = 16 << 20
	maxPath  = 2048

	// maxSettings bounds a file of settings, maxPointer one that names a directory.
	maxSettings = 1 << 20
	maxPointer  = 8 << 10

	// maxUnseen is how many of the directories that were not looked at are named.
	maxUnseen = 5
)

// Kind says what a place is.
type Kind int

const (
	Repo  Kind = iota // a git directory. Commands write to it; what is in it is listed for itself
	Plain             // a file or directory that can be mounted read-only
	Link              // a symbolic link, over which nothing can be mounted
	Todo              // written by git's own commands as they work
)

// A Place is something in the workspace from which git takes what it executes.
type Place struct {
	Path string // in the workspace, with slashes and without links on the way
	Repo string // the git directory that it belongs to
	Kind Kind

	stamp string // another one where it has changed
}

// Found is what a look found.
type Found struct {
	Places []Place  // in the order of their paths
	Unseen []string // some of the directories that were not looked at, or not to their end
	More   int      // how many others
	Took   time.Duration
}

// Complete reports whether all was looked at.
func (f Found) Complete() bool { return len(f.Unseen) == 0 }

// Look looks through the workspace in a directory. One that is not there has
// nothing in it. Of the paths that are named besides, which are to stay as they are,
// it finds what links in the place of them, on the way to them and in them lead to.
func Look(dir string, named ...string) Found { return look(dir, MaxEntries, MaxTime, named...) }

func look(dir string, entries int, limit time.Duration, named ...string) Found {
	begin := time.Now()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Found{}
	}
	defer root.Close()
	s := &scan{
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

// rootNames returns what a workspace is called in absolute paths.
func rootNames(dir string) (names []string) {
	if abs, err := filepath.Abs(dir); err == nil {
		names = append(names, filepath.ToSlash(abs))
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) {
		names = append(names, filepath.ToSlash(real))
	}
	return names
}

// A scan is one look under way.
type scan struct {
	root     *os.Root
	names    []string // of the root
	left     int      // entries
	bytes    int      // of names
	deadline time.Time

	places map[string]Place // by path
	seen   map[string]bool  // repositories, settings, directories of hooks
	unseen map[string]bool
}

// spend takes an entry from what may be looked at.
func (s *scan) spend() bool {
	if s.left <= 0 || s.left%64 == 0 && time.Now().After(s.deadline) {
		s.left = 0
		return false
	}
	s.left--
	return true
}

// fits reports whether one more name can be kept.
func (s *scan) fits(name string) bool {
	s.bytes -= len(name)
	return len(name) <= maxPath && s.bytes >= 0
}

// skip notes a directory that is not looked at.
func (s *scan) skip(name string) {
	if len(name) > maxPath {
		name = strings.ToValidUTF8(name[:maxPath], "") // its beginning tells where
	}
	s.unseen[name] = true
}

// walk goes through the directories, those near the top first: there people work.
func (s *scan) walk() {
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

// list calls f with what is in a directory, as far as that may be looked at.
func (s *scan) list(dir string, f func(fs.DirEntry)) {
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

// lstat tells of a path, nil where there is nothing.
func (s *scan) lstat(name string) fs.FileInfo {
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

// isBare reports whether git takes a directory with a HEAD for a repository when
// somebody works in it. Where commondir leads elsewhere, so are its objects and refs.
func (s *scan) isBare(dir string) bool {
	there := func(name string) bool { return s.lstat(path.Join(dir, name)) != nil }
	return there("commondir") || there("objects") && there("refs")
}

// dotGit takes what is named .git in a directory.
func (s *scan) dotGit(dir, name string) {
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

// repo takes a git directory. Its work tree is "" where it has none or that is not
// known.
func (s *scan) repo(git, tree string) {
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

// each calls f with the directories in one that may be there.
func (s *scan) each(dir string, f func(name string)) {
	if info := s.lstat(dir); info == nil || !info.IsDir() {
		return
	}
	s.list(dir, func(e fs.DirEntry) {
		if e.IsDir() {
			f(path.Join(dir, e.Name()))
		}
	})
}

// modules takes the repositories of submodules, whose names may have slashes.
func (s *scan) modules(dir string) {
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

// workTree is where the .git of a linked work tree's repository lies.
func (s *scan) workTree(git string) string {
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

// Passing reports whether a path is one of what git's own commands put into a
// repository and take away when they are done.
func Passing(name string) bool { return strings.HasSuffix(name, "/"+todoList) }

// todo takes the list of a rebase under way, whose "exec" lines run when somebody
// has it go on. Commands that rebase write it: it is not one to protect.
func (s *scan) todo(git string) {
	name := path.Join(git, todoList)
	if info := s.lstat(name); info != nil {
		s.places[name] = Place{Path: name, Repo: git, Kind: Todo, stamp: stamp(info)}
	}
}

// hooks takes a directory of hooks and what links in it lead to.
func (s *scan) hooks(base, name, repo string) {
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

// part takes a path that is written somewhere, relative to base, with the links
// on the way to it. It returns where it is, "" if that is not in the workspace.
func (s *scan) part(base, name, repo string) string {
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

// add takes a place as it is found.
func (s *scan) add(name, repo string, info fs.FileInfo) {
	kind := Plain
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		kind = Link
	case !info.IsDir() && !info.Mode().IsRegular():
		return // a socket or a device executes nothing
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
		mark = "directory" // what is in it counts, and that is not always looked at
	}
	s.places[name] = Place{Path: name, Repo: repo, Kind: kind, stamp: mark}
}

// named takes what a path that is to stay as it is leads to by links. Itself it is
// no place: who named it knows it.
func (s *scan) named(name string) {
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

// links takes what the links below a directory lead to. They themselves stay as they
// are with the directory.
func (s *scan) links(dir string) {
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

// target takes what a link leads to, unless the link is in it: a mount of that would
// hold all that is around the link.
func (s *scan) target(link, real string) {
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

// follow returns where a path leads that is relative to a directory or absolute,
// "" if that is out of the workspace. Links on the way are places too: who changes
// one leads git elsewhere. What need not exist is returned as far as it was written.
func (s *scan) follow(base, target, repo string) string {
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

// inside returns what an absolute path is in the workspace.
func (s *scan) inside(abs string) (string, bool) {
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

// read returns what is in a file, "" if that cannot be read or is too much: then
// it is named among what was not looked at.
func (s *scan) read(name string, most int) string {
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
