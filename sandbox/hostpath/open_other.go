//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
)

func cleanAbs(name string) bool { return filepath.IsAbs(name) && filepath.Clean(name) == name }

// open looks at each component by its name: a descriptor that only names a
// directory, and needs no right to read it, is Linux's alone.
func open(name string) (*File, error) {
	for dir := name; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 { // Windows has several kinds of links
			return nil, &LinkError{dir}
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	f := &File{Path: name, Mode: info.Mode()}
	f.ID, f.UID, f.GID, err = identify(name, info)
	return f, err
}

// Boot is not known: boxes run on a kernel of their own.
func Boot() string { return "" }

// Numbered reports false.
func (f *File) Numbered() bool { return false }

func (f *File) mark(name string) (remove func() error, err error) {
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return nil, err
	}
	made, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		root.Close()
		return nil, err
	}
	made.Close()
	return func() error {
		defer root.Close()
		return root.Remove(name)
	}, nil
}
