package privatefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/hostpath"
)

// openUnlinked opens an absolute path. It follows no link in the place of the file,
// and on the way to it none that another user may have made. It opens one directory
// in the other, so a link cannot be put there after the check.
func openUnlinked(name string, flags int) (*os.File, error) {
	w := walk{name: filepath.Clean(name)}
	defer w.close()
	fd, err := w.open(flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC)
	switch {
	case errors.Is(err, unix.ELOOP) && w.links < maxLinks:
		return nil, linkError(w.name, w.name)
	case err != nil:
		if _, bare := errors.AsType[unix.Errno](err); bare {
			err = &os.PathError{Op: "open", Path: name, Err: err}
		}
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), w.name), nil
}

// maxLinks is the kernel's own limit of links in a path.
const maxLinks = 40

// A walk is on its way from the root to a file.
type walk struct {
	name  string
	dir   int    // descriptor of the current directory; 0: none yet
	at    string // path of it
	links int
}

func (w *walk) close() {
	if w.dir != 0 {
		unix.Close(w.dir)
	}
}

func (w *walk) enter(fd int, at string) {
	w.close()
	w.dir, w.at = fd, at
}

func (w *walk) root() error {
	fd, err := hostpath.OpenRoot()
	if err == nil {
		w.enter(fd, "/")
	}
	return err
}

func (w *walk) open(flags int) (int, error) {
	if err := w.root(); err != nil {
		return -1, err
	}
	parts := strings.Split(w.name[1:], "/")
	last := parts[len(parts)-1]
	if last == "" {
		last = "."
	}
	for parts = parts[:len(parts)-1]; len(parts) > 0; {
		more, err := w.step(parts[0])
		if err != nil {
			return -1, err
		}
		parts = append(more, parts[1:]...)
	}
	return unix.Openat(w.dir, last, flags, 0o600)
}

// step enters a directory. For a link it returns the components of its target.
func (w *walk) step(part string) (more []string, err error) {
	if part == "" || part == "." {
		return nil, nil
	}
	fd, stat, err := hostpath.OpenComponent(w.dir, part)
	if err != nil {
		return nil, err
	}
	at := filepath.Join(w.at, part)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		w.enter(fd, at)
		return nil, nil
	case unix.S_IFLNK:
		defer unix.Close(fd)
		return w.follow(fd, at)
	}
	unix.Close(fd)
	return nil, unix.ENOTDIR
}

// follow reads a link that no other user can have made.
func (w *walk) follow(link int, at string) ([]string, error) {
	var dir unix.Stat_t
	if err := unix.Fstat(w.dir, &dir); err != nil {
		return nil, err
	}
	if dir.Mode&0o022 != 0 || dir.Uid != 0 && int(dir.Uid) != os.Geteuid() {
		return nil, linkError(w.name, at)
	}
	if w.links++; w.links >= maxLinks {
		return nil, unix.ELOOP
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(link, "", buf[:])
	if err != nil {
		return nil, err
	}
	target := string(buf[:n])
	if strings.HasPrefix(target, "/") {
		if err := w.root(); err != nil {
			return nil, err
		}
	}
	return strings.Split(target, "/"), nil
}
