package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// The files that are the owner's alone: tokens and keys, what the program says of
// itself, the record of what was done, the directory of raw output. One rule holds
// for all of them. They lie outside of everything that a box is shown, are opened
// without following a link that another user may have made, belong to who runs the
// program, and are closed to everybody else.

// appending is how a file is opened that something is added to, and made where it
// is not there.
const appending = os.O_WRONLY | os.O_CREATE | os.O_APPEND

// openPrivate opens a file that is the owner's alone. A device, which keeps nothing,
// may be written to.
func (c *Config) openPrivate(name string, flags int) (*os.File, error) {
	f, info, err := c.openApart(name, flags)
	if err != nil {
		return nil, err
	}
	device := info.Mode()&os.ModeCharDevice != 0 && flags == appending
	if !device {
		err = private(f.Name(), info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openApart opens what no box is shown.
func (c *Config) openApart(name string, flags int) (*os.File, os.FileInfo, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		err = c.apart(name)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := guardedDirs(name); err != nil {
		return nil, nil, err
	}
	f, err := openUnlinked(name, flags)
	if err != nil {
		return nil, nil, unopened(name, err)
	}
	info, err := f.Stat()
	for range 20 {
		if err != nil || !severalNames(info) {
			break
		}
		// Another server that starts may just be putting the file in its place.
		time.Sleep(5 * time.Millisecond)
		info, err = f.Stat()
	}
	if err != nil {
		f.Close()
	}
	return f, info, err
}

// severalNames reports whether a file can be reached by another name too.
func severalNames(info os.FileInfo) bool {
	links, known := linkCount(info)
	return known && links > 1 && info.Mode().IsRegular()
}

// guardedDirs says of a file's place that others can put something else there: in a
// directory that they can write to, what has no sticky bit can be renamed and deleted.
func guardedDirs(name string) error {
	dir := filepath.Dir(name)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && othersWrite(info) && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("%s lies in %s, where other users can put something else in its place (mode %04o); try: chmod o-w,g-w %s", name, dir, info.Mode().Perm(), quote(dir))
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// othersWrite reports whether a mode lets users write but the owner. A user's own
// group, which on most machines has one member, is not taken for others.
func othersWrite(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	if runtime.GOOS == "windows" {
		return false
	}
	gid, known := ownerGroup(info)
	return mode&0o002 != 0 || mode&0o020 != 0 && known && gid != 0 && gid != os.Getegid()
}

// unopened says in words why a file could not be opened.
func unopened(name string, err error) error {
	dir := filepath.Dir(name)
	_, noDir := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && errors.Is(noDir, os.ErrNotExist):
		return fmt.Errorf("%s cannot be opened: the directory %s does not exist; correct the path, or try: mkdir -p %s", name, dir, quote(dir))
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist; make it, or correct the path", name)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%s is a directory; name a file in it", name)
	case errors.Is(err, syscall.ENXIO):
		return errPipe(name)
	}
	return err
}

func errPipe(name string) error {
	return fmt.Errorf("%s is a pipe or a socket, which keeps nothing; name a file", name)
}

// readPrivate reads such a file.
func (c *Config) readPrivate(name string) (string, error) {
	f, err := c.openPrivate(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readAll(f, name)
}

// privateDir makes a directory where there is none, and sees that what is made in
// it stays the owner's.
func (c *Config) privateDir(name string) error {
	if err := c.apart(name); err != nil {
		return err
	}
	if err := guardedDirs(name); err != nil {
		return err
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil // who writes there says what is wrong
	}
	f, info, err := c.openApart(name, os.O_RDONLY)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil
		}
		return err
	}
	f.Close()
	switch mode := info.Mode().Perm(); {
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", name)
	case mode&0o022 != 0 && runtime.GOOS != "windows":
		return fmt.Errorf("%s may be written to by other users (mode %04o); try: chmod go-w %s", name, mode, quote(name))
	}
	return owned(name, info)
}

// private says why a file is not its owner's alone.
func private(name string, info os.FileInfo) error {
	switch mode := info.Mode().Perm(); {
	case info.Mode()&os.ModeNamedPipe != 0:
		return errPipe(name)
	case info.IsDir():
		return fmt.Errorf("%s is a directory; name a file in it", name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", name)
	case owned(name, info) != nil:
		return owned(name, info)
	case severalNames(info):
		return fmt.Errorf("%s has another name elsewhere, a hard link, by which it may be in reach of others; name a copy of it", name)
	case mode&0o077 != 0 && runtime.GOOS != "windows": // which shows no such modes
		return fmt.Errorf("%s is open to other users (mode %04o); try: chmod 600 %s", name, mode, quote(name))
	}
	return nil
}

// owned says that something belongs to neither who runs the program nor root.
func owned(name string, info os.FileInfo) error {
	if uid, known := owner(info); known && uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and warmbox runs as user %d; give it to that user (chown), or name a file of that user's", name, uid, os.Geteuid())
	}
	return nil
}

// apart says that a box is shown what is to be the owner's alone.
func (c *Config) apart(name string) error {
	if c.Workspace != "" && within(c.Workspace, name) {
		return fmt.Errorf("%s lies in the workspace %s, where boxes could change it; choose a place outside of it", name, c.Workspace)
	}
	for _, m := range c.Mounts {
		if within(absolute(inHome(m.Source)), name) {
			return fmt.Errorf("%s lies in %s, which boxes see as %s; choose a place outside of it", name, m.Source, m.Target)
		}
	}
	if state, err := stateDir(); err == nil && within(filepath.Join(state, "workspaces"), name) {
		return fmt.Errorf("%s lies in %s, where the workspaces of boxes are; choose a place outside of it", name, filepath.Join(state, "workspaces"))
	}
	return nil
}

// refusedLink is what is said of a link in the place of what is to be opened, or on
// the way to it.
func refusedLink(name, link string) error {
	if name == link {
		return fmt.Errorf("%s is a symbolic link, which is not followed; name what it points to", name)
	}
	return fmt.Errorf("the way to %s leads over the symbolic link %s, in a directory that other users can write to; name the place without it", name, link)
}
