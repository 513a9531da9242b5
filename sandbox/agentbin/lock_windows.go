package agentbin

import (
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file if it is free, and reports whether it was.
func tryLock(f *os.File) (bool, error) {
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, new(windows.Overlapped))
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}
