//go:build linux || darwin

package rawlog

import (
	"errors"
	"os"
	"syscall"
)

// Room returns what a directory's file system has left for us, and what it has in
// all. Where that cannot be told, there is no end to it.
func Room(dir string) (Space, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Space{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(s.Bsize)
	return Space{Free: int64(s.Bavail) * block, All: int64(s.Blocks) * block, FreeFiles: int64(s.Ffree), AllFiles: int64(s.Files)}, nil
}

// claim marks a file as being written, for other processes and until it is
// closed, also by the end of this process.
func claim(f *os.File) { _ = flock(f, syscall.LOCK_EX) } // without it, only this process knows

// claimed reports whether somebody writes a file. Two may ask at once, and
// neither must be taken for the writer.
func claimed(f *os.File) bool { return errors.Is(flock(f, syscall.LOCK_SH), syscall.EWOULDBLOCK) }

func flock(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) }
