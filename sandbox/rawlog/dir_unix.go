//go:build unix

package rawlog

import (
	"io/fs"
	"syscall"
)

// noFollow refuses a symbolic link. O_EXCL also does, but not on every network
// file system.
const noFollow = syscall.O_NOFOLLOW

// exposed reports whether every user may make and remove files in a directory.
func exposed(dir fs.FileInfo) bool { return dir.Mode().Perm()&0o002 != 0 }
