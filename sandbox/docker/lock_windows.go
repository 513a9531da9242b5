package docker

import (
	"os"

	"golang.org/x/sys/windows"
)

// noFollow has no like here.
const noFollow = 0

// lockedAt is behind all that is noted in a file: what is locked here nobody else
// can read.
const lockedAt = 1 << 20

// flock takes the lock of an open file, shared with others who want no more or
// alone, and does not wait for it. The system gives it back when the program
// ends, however it does.
func flock(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: lockedAt})
	if err == windows.ERROR_LOCK_VIOLATION {
		return errHeld
	}
	return err
}
