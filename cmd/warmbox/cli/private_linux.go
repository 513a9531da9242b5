package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openUnlinked opens an absolute path. It follows no link in the place of the file,
// and on the way to it none that another user may have made. It goes from directory
// to directory, so no link can be put there after it was looked at.
func openUnlinked(name string, flags int) (*os.File, error) {
	w := way{name: filepath.Clean(name)}
	defer w.leave()
	fd, err := w.open(flags | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC)
	switch {
	case errors.Is(err, unix.ELOOP) && w.links < maxLinks:
		return nil, refusedLink(w.name, w.name)
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

// maxLinks is how many links the kernel follows, too.
const maxLinks = 40

// A way is walked to a file.
type way struct {
	name  string
	dir   int    // where it is; 0: nowhere yet
	at    string // by which path
	links int
}

func (w *way) leave() {
	if w.dir != 0 {
		unix.Close(w.dir)
	}
}

func (w *way) enter(fd int, at string) {
	w.leave()
	w.dir, w.at = fd, at
}

func (w *way) root() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		w.enter(fd, "/")
	}
	return err
}

func (w *way) open(flags int) (int, error) {
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

// step enters a directory, or returns the parts of the way that a link stands for.
func (w *way) step(part string) (more []string, err error) {
	if part == "" || part == "." {
		return nil, nil
	}
	fd, err := unix.Openat(w.dir, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	switch {
	case err != nil:
	case stat.Mode&unix.S_IFMT == unix.S_IFLNK:
		defer unix.Close(fd)
		return w.follow(fd, filepath.Join(w.at, part))
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	default:
		w.enter(fd, filepath.Join(w.at, part))
		return nil, nil
	}
	unix.Close(fd)
	return nil, err
}

// follow reads a link that no other user can have made.
func (w *way) follow(link int, at string) ([]string, error) {
	var dir unix.Stat_t
	if err := unix.Fstat(w.dir, &dir); err != nil {
		return nil, err
	}
	if dir.Mode&0o022 != 0 || dir.Uid != 0 && int(dir.Uid) != os.Geteuid() {
		return nil, refusedLink(w.name, at)
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
