//go:build !linux

package hostpath

import (
	"io/fs"
	"os"
	"path/filepath"
)

func cleanAbs(name string) bool { return filepath.IsAbs(name) && filepath.Clean(name) == name }

// open checks each component by its name. Only Linux has descriptors that name a
// directory and need no permission to read it.
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

// readable returns why the user of this process may not read the file, nil if it may.
func (f *File) readable() error {
	opened, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	return opened.Close()
}

// Boot returns "": boxes run on another kernel.
func Boot() string { return "" }

// Numbered reports false: boxes run on another kernel.
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
