package sandbox

import (
	"errors"

	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A backend mounts by name, and a program that can write above a name decides what it
// means when the engine resolves it. So a Box asks its agent, before anything runs,
// which files it has, and compares them with those that the backend opened.

// Shown is a file or directory of the host that a box has.
type Shown struct {
	Path   string      // in the box
	Source string      // on the host
	ID     hostpath.ID // of what was meant
	Main   bool        // it is the workspace
}

// errNotMeant says that a box has something else of the host than it was to have.
var errNotMeant = errors.New("a box has a file or directory that is not the configured one")

// sameSides is what to try where a server and its engine mean different directories
// by one path.
const sameSides = "If this server runs in a container, mount the path at the same place in it and on the engine's machine. " +
	"Otherwise something on that path was replaced while the box started: look for a symbolic link there, then try again."

// lookFrame is the frame that asks for what checkFiles checks, nil where there is
// nothing to check. It is sent with the Hello, and costs no round trip of its own.
func (b *Box) lookFrame() ([]byte, error) {
	if len(b.Place.Shown) == 0 {
		return nil, nil
	}
	var paths []string
	for _, s := range b.Place.Shown {
		paths = append(paths, s.Path)
	}
	return wire.AppendJSON(nil, wire.Look, wire.ID{}, wire.LookBody{Paths: paths})
}

// checkFiles compares what the box has of the host with what it is to have.
func (b *Box) checkFiles(r *wire.Reader) error {
	shown := b.Place.Shown
	if len(shown) == 0 {
		return nil
	}
	seen, err := readSeen(r, len(shown))
	if err != nil {
		return err
	}
	boot := hostpath.Boot()
	for i, s := range shown {
		if has := seen.Files[i]; (hostpath.ID{Dev: has.Dev, Ino: has.Ino}) == s.ID && has.Errno == 0 {
			continue
		}
		if err := b.differs(r, s, seen.Files[i], boot != "" && boot == seen.Boot); err != nil {
			return err
		}
	}
	return nil
}

func readSeen(r *wire.Reader, n int) (seen wire.SeenBody, err error) {
	f, err := r.Read()
	if err != nil {
		return seen, err
	}
	if f.Kind != wire.Seen {
		return seen, wire.Violation("%v instead of %v", f.Kind, wire.Seen)
	}
	if err := wire.Decode(f, &seen); err != nil {
		return seen, err
	}
	if len(seen.Files) != n {
		return seen, wire.Violation("%v of %d files instead of %d", f.Kind, len(seen.Files), n)
	}
	return seen, nil
}

// differs judges a file whose numbers are not those that this host sees. On the same
// kernel it is another file. Another kernel numbers files in its own way: a workspace is
// then recognised by a file that the host puts into it, and of another mount it is only
// known that its path still leads where it led.
func (b *Box) differs(r *wire.Reader, s Shown, has wire.SeenFile, sameKernel bool) error {
	if has.Errno != 0 {
		return s.notMeant("the box cannot look at it: %v", errnoText(has.Errno))
	}
	f, err := hostpath.Open(s.Source)
	if err != nil {
		return s.notMeant("%w", err)
	}
	defer f.Close()
	switch {
	case f.ID != s.ID:
		return s.notMeant("it was replaced")
	case sameKernel && f.Numbered():
		return s.notMeant("the box has device %d inode %d there, and this server sees device %d inode %d", has.Dev, has.Ino, s.ID.Dev, s.ID.Ino)
	case !s.Main:
		return nil
	}
	return b.findMark(r, s, f)
}

// findMark has the agent look for a file that the host puts into the workspace.
func (b *Box) findMark(r *wire.Reader, s Shown, f *hostpath.File) error {
	name, remove, err := f.Mark()
	if err != nil {
		return s.notMeant("%w", err)
	}
	defer remove() // if that fails an empty file remains
	if err := b.conn.SendJSON(wire.Look, wire.ID{}, wire.LookBody{Paths: []string{s.Path + "/" + name}}); err != nil {
		return err
	}
	seen, err := readSeen(r, 1)
	if err == nil && seen.Files[0].Errno != 0 {
		err = s.notMeant("a file that this server creates in the directory does not appear in the box")
	}
	return err
}

// notMeant says that a box does not have what it is to have.
func (s Shown) notMeant(why string, args ...any) error {
	args = append([]any{s.Path, s.Source}, args...)
	err := Errorf(InvalidArgument, sameSides, "the box was stopped before its first command: its %s is not the %s that this server sees: "+why, args...)
	err.Err = errors.Join(errNotMeant, err.Err)
	return err
}
