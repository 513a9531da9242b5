package docker

import (
	"os"

	"golang.org/x/sys/windows"
)

// noFollow has no like here.
const noFollow = 0

// flock takes the lock of an open file, and does not wait for it. The system
// gives it back when the program ends, however it does.
func flock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return errHeld
	}
	return err
}
