package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is 0: Windows has no such flag.
const NoFollow = 0

// offset is the byte that is locked. It lies behind the content of every lock file,
// because others cannot read a locked byte.
const offset = 1 << 20

func try(f *os.File, shared bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{Offset: offset})
	if err == windows.ERROR_LOCK_VIOLATION {
		return ErrHeld
	}
	return err
}
