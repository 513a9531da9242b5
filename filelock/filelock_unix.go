//go:build unix

package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is a flag for os.OpenFile: it refuses a symbolic link in the place of a
// lock file.
const NoFollow = unix.O_NOFOLLOW

func try(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return ErrHeld
		default:
			return err
		}
	}
}
