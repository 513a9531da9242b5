//go:build unix

package docker

import (
	"os"

	"golang.org/x/sys/unix"
)

// noFollow keeps a link from standing where a file of ours should.
const noFollow = unix.O_NOFOLLOW

// flock takes the lock of an open file or directory, and does not wait for it.
// The kernel gives it back when the program ends, however it does.
func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return errHeld
		default:
			return err
		}
	}
}
