//go:build linux || darwin

package rawlog

import (
	"errors"
	"os"
	"syscall"

	"github.com/warmbox/warmbox/filelock"
)

// Room returns the free and the total capacity of a directory's file system.
func Room(dir string) (Space, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(s.Bsize)
	return Space{Free: int64(s.Bavail) * block, All: int64(s.Blocks) * block, FreeFiles: int64(s.Ffree), AllFiles: int64(s.Files)}, nil
}

// lock marks a file as being written, for other processes. The lock ends when the
// file is closed, also by the end of this process. If it fails, only this process
// knows that it writes the file.
func lock(f *os.File) { _ = filelock.Try(f) }

// locked reports whether a process writes a file. It asks for a shared lock, so
// that two processes which ask at once do not take each other for the writer.
func locked(f *os.File) bool { return errors.Is(filelock.TryShared(f), filelock.ErrHeld) }
