//go:build linux || darwin

package rawlog

import (
	"errors"
	"os"
	"syscall"
)

// Room returns how many bytes a directory's file system has left for us, and
// how many it has in all. Where that cannot be told, there is no end to them.
func Room(dir string) (free, all int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	block := int64(s.Bsize)
	return int64(s.Bavail) * block, int64(s.Blocks) * block, nil
}

// claim marks a file as being written, for other processes and until it is
// closed, also by the end of this process.
func claim(f *os.File) { _ = flock(f, syscall.LOCK_EX) } // without it, only this process knows

// claimed reports whether somebody writes a file. Two may ask at once, and
// neither must be taken for the writer.
func claimed(f *os.File) bool { return errors.Is(flock(f, syscall.LOCK_SH), syscall.EWOULDBLOCK) }

func flock(f *os.File, how int) error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) }
