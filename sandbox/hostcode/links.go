package hostcode

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

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
