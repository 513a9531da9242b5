// Package hostpath decides which files and directories of this machine boxes
// have, and sees that each box gets those and no others.
//
// A path is a name, and commands that can write a directory decide what the
// names below it mean. So a path is resolved once, where only its user speaks; it
// is opened without following a link; and what was opened, not what it is called,
// is what a launch is held against. The package does not mount anything: whoever
// does gives a name to somebody else, who resolves it once more, and must compare
// afterwards.
//
// On Linux a File is an open descriptor, so its inode cannot be used again
// meanwhile. On other systems its parts are looked at one by one, and it is known
// by what the system calls it: device and inode on macOS, volume and file index on
// Windows. There a change between two looks is seen only by the second.
//
// The caller must admit its paths before any box can write what they lie in.
package hostpath

import (
	"fmt"
	"io/fs"
	"os"
)

// An ID is what a file or directory is, whatever it is called: its device and
// inode. The zero ID is none.
type ID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// A File is an open file or directory of this machine.
type File struct {
	Path     string // absolute, without links
	ID       ID
	UID, GID int // whose it is; 0 where files have no numbered owners
	Mode     fs.FileMode

	file *os.File // keeps the ID from being used again; nil where the system has nothing like it
}

// Close lets go of it. It is idempotent.
func (f *File) Close() {
	if f.file != nil {
		f.file.Close()
	}
}

// A LinkError says that a path has a link where none may be.
type LinkError struct {
	Path string // of the link
}

func (e *LinkError) Error() string { return e.Path + " is a link" }

// Open opens a path without following any link.
func Open(path string) (*File, error) {
	if !cleanAbs(path) {
		return nil, fmt.Errorf("%q is no absolute, clean path", path)
	}
	return open(path)
}
