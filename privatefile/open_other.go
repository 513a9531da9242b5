//go:build !linux

package privatefile

import (
	"errors"
	"os"
	"path/filepath"
)

// openUnlinked opens an absolute path. It follows no link in the place of the file,
// and on the way to it none that another user may have made.
func openUnlinked(name string, flags int) (*os.File, error) {
	name = filepath.Clean(name)
	for at := filepath.Dir(name); at != filepath.Dir(at); at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: errors.Unwrap(err)}
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		dir, err := os.Stat(filepath.Dir(at))
		if err != nil {
			return nil, err
		}
		if uid, known := owner(dir); known && (dir.Mode().Perm()&0o022 != 0 || uid != 0 && uid != os.Geteuid()) {
			return nil, linkError(name, at)
		}
	}
	before, err := os.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist) && flags&os.O_CREATE != 0:
		return os.OpenFile(name, flags|os.O_EXCL, 0o600)
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: errors.Unwrap(err)}
	case before.Mode()&os.ModeSymlink != 0:
		return nil, linkError(name, name)
	}
	f, err := os.OpenFile(name, flags&^os.O_CREATE, 0)
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, errors.Join(linkError(name, name), err)
	}
	return f, nil
}
