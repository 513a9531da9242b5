//go:build unix

package agentbin

import (
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks an open file if it is free, and reports whether it was.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK || err == unix.EINTR {
		return false, nil
	}
	return err == nil, err
}
