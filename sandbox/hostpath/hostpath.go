// Package hostpath decides which files and directories of this machine boxes get, and
// verifies that a box gets those and no others.
//
// A path is a name, and a command that can write a directory controls the names in it. So
// a path is resolved once, at a time when only its user can change it. Later it is opened
// without following links, and a launch is checked against the identity of what was
// opened, not against its name. The package mounts nothing: an engine that mounts
// resolves the name again, so the caller must compare identities after mounting.
//
// On Linux a File is an open descriptor, so its inode cannot be reused meanwhile. On
// other systems the components are checked one by one, and a file is identified by what
// the system offers: device and inode on macOS, volume and file index on Windows. There,
// a change between two checks is seen only by the second.
//
// The caller must admit its paths before any box can write the directories that contain
// them.
package hostpath

import (
	"fmt"
	"io/fs"
	"os"
)

// An ID identifies a file or directory independent of its name: its device and inode. The
// zero ID identifies none.
type ID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// A File is an open file or directory of this machine.
type File struct {
	Path     string // absolute and free of links
	ID       ID
	UID, GID int // the owner; 0 on systems without numeric owners
	Mode     fs.FileMode

	file *os.File // keeps the ID from being reused; nil on systems other than Linux
}

// Close closes the file. It is idempotent.
func (f *File) Close() {
	if f.file != nil {
		f.file.Close()
	}
}

// A LinkError means that a component of a path is a link, which is not followed.
type LinkError struct {
	Path string // the path of the link
}

func (e *LinkError) Error() string { return e.Path + " is a link" }

// Open opens a path without following any link.
func Open(path string) (*File, error) {
	if !cleanAbs(path) {
		return nil, fmt.Errorf("path %q must be absolute and clean", path)
	}
	return open(path)
}
