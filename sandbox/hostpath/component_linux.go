package hostpath

import "golang.org/x/sys/unix"

// OpenComponent opens a name in the directory that dir is open on, as a descriptor
// that only names the file (O_PATH). A symbolic link is opened itself and not
// followed: stat says what was opened.
func OpenComponent(dir int, name string) (fd int, stat unix.Stat_t, err error) {
	fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, stat, err
	}
	if err := unix.Fstat(fd, &stat); err != nil {
		unix.Close(fd)
		return -1, stat, err
	}
	return fd, stat, nil
}

// OpenRoot opens the root directory in the same way.
func OpenRoot() (fd int, err error) {
	return unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
