package hostpath

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

func cleanAbs(name string) bool { return path.IsAbs(name) && path.Clean(name) == name }

// open opens one component after the other. openat2 would do it in one call, but seccomp
// profiles of containers, in which a server may run, refuse it.
func open(name string) (*File, error) {
	at, err := OpenRoot()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/", Err: err}
	}
	below := "/"
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if part == "" {
			break // the root itself
		}
		below = path.Join(below, part)
		next, err := step(at, part)
		unix.Close(at)
		if link, ok := err.(*LinkError); ok {
			link.Path = below
			return nil, link
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: below, Err: err}
		}
		at = next
	}
	return newFile(name, at)
}

// step opens one component, or returns a LinkError without a path.
func step(at int, part string) (int, error) {
	fd, stat, err := OpenComponent(at, part)
	if err == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		unix.Close(fd)
		return -1, &LinkError{}
	}
	return fd, err
}

// newFile returns a File that owns a descriptor.
func newFile(name string, fd int) (*File, error) {
	f := &File{Path: name, file: os.NewFile(uintptr(fd), name)}
	info, err := f.file.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	f.Mode = info.Mode()
	f.ID, f.UID, f.GID, err = identify(name, info)
	return f, err
}

// readable returns why the user of this process may not read the file, nil if it may. The
// engine mounts as root, so it is not the one to refuse.
func (f *File) readable() error {
	mode := uint32(unix.R_OK)
	if f.Mode.IsDir() {
		mode |= unix.X_OK
	}
	err := unix.Access(fmt.Sprintf("/proc/self/fd/%d", f.file.Fd()), mode)
	if err == unix.ENOENT { // there is no /proc
		err = unix.Access(f.Path, mode)
	}
	return err
}

// Boot returns the boot id of the running kernel, "" if unknown. Another kernel numbers
// devices and inodes in its own way.
func Boot() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
}

// Numbered reports whether the file has the same ID in every mount on one kernel. A file
// system shared by a virtual machine's host has another device for each mount.
func (f *File) Numbered() bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(f.file.Fd()), &st)
	return err == nil && st.Type != unix.V9FS_MAGIC
}

// mark creates an empty file under a name that is new in the directory.
func (f *File) mark(name string) (remove func() error, err error) {
	dir := int(f.file.Fd())
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	unix.Close(fd)
	return func() error { return unix.Unlinkat(dir, name, 0) }, nil
}
