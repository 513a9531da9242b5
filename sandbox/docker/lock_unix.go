//go:build unix

package docker

import (
	"os"

	"golang.org/x/sys/unix"
)

// noFollow keeps a link from standing where a file of ours should.
const noFollow = unix.O_NOFOLLOW

// flock takes the lock of an open file or directory, shared with others who want
// no more or alone, and does not wait for it. The kernel gives it back when the
// program ends, however it does.
func flock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errHeld
		default:
			return err
		}
	}
}
