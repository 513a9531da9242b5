package agentbin

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock takes the lock of an open file, and reports whether it was free.
func tryLock(f *os.File) (bool, error) {
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}
