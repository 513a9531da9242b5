// Package filelock locks open files and directories between processes. A lock
// belongs to the open file: the system releases it when the file is closed, also by
// a crash. The package neither waits for a lock nor removes files.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld says that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Try acquires the exclusive lock of an open file, or returns ErrHeld.
func Try(f *os.File) error { return try(f, false) }

// TryShared acquires a lock that others may share but not hold exclusively, or
// returns ErrHeld.
func TryShared(f *os.File) error { return try(f, true) }
