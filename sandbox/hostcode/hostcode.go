// Package hostcode finds the files in a workspace that can make git on this machine
// execute something: the hooks of its repositories, and the settings that name programs.
//
// It finds repositories as git does: directories named .git, files of that name that
// point to one, the modules and linked work trees of a repository, and bare repositories
// in any directory. From their settings it follows core.hooksPath, includes and the
// programs that they name. It follows symbolic links.
//
// It executes nothing, does not call git, and does not read git's configuration of the user
// or the system. It follows nothing out of the workspace. All that it reads may be hostile:
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

// A Place is a file or directory in the workspace from which git reads what it executes.
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
	bytes    int      // bytes of names that may still be recorded
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
