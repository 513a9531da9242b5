// Package privatefile opens the files that belong to one user alone: tokens and
// keys, the program's log, the audit record, and the directory of raw output.
//
// One rule holds for all of them. A private file lies outside every directory that
// boxes see. It is opened without following a symbolic link that another user may
// have made. It belongs to the user who runs the program, or to root, and has no
// permissions for others, and nobody else can rename its directories. Errors name
// the file and say what to change.
//
// A trusted file is weaker: others may read it but not write it. The package does
// not judge which files are private: its caller does.
package privatefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/warmbox/warmbox/sandbox/hostpath"
	"github.com/warmbox/warmbox/shellquote"
)

// MaxSize bounds what is read of a file. A configuration and a token have a few
// hundred bytes.
const MaxSize = 1 << 20

// An Opener opens private files. The zero Opener knows no directories that boxes see.
type Opener struct {
	Exposed []Exposed
}

// Exposed is a directory, or a file, that boxes see. No private file may lie in it.
type Exposed struct {
	Path        string
	Description string // for errors, after "lies in"
}

// appending are the flags for a file that lines are added to, created on demand.
const appending = os.O_WRONLY | os.O_CREATE | os.O_APPEND

// Append opens a private file for appending, and creates it if it does not exist. A
// device such as /dev/null is accepted, because it stores nothing.
func (o Opener) Append(name string) (*os.File, error) { return o.open(name, appending) }

// Read returns the content of a private file.
func (o Opener) Read(name string) (string, error) {
	f, err := o.open(name, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readAll(f, name)
}

// MkdirAll creates a directory for private files, unless it exists, and checks that
// no other user can write to it. It reports nothing about a directory that cannot be
// created or opened: using it fails with a better error.
func (o Opener) MkdirAll(name string) error {
	if err := o.checkExposed(name); err != nil {
		return err
	}
	if err := checkParents(name); err != nil {
		return err
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil
	}
	f, info, err := o.openUnchecked(name, os.O_RDONLY)
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
		return fmt.Errorf("other users can write to %s (mode %04o); try: chmod go-w %s", name, mode, shellquote.Word(name))
	}
	return checkOwner(name, info)
}

// ReadTrusted returns the content of a file that decides what runs and which secrets
// are shown, such as a configuration. It refuses a file that another user can have
// written.
func ReadTrusted(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if device := info.Mode()&os.ModeCharDevice != 0; !device { // only root makes one, such as /dev/null
		if err := checkOwner(name, info); err != nil {
			return "", err
		}
		if othersWrite(info) {
			return "", fmt.Errorf("other users can write to %s (mode %04o), and it decides what runs here; try: chmod go-w %s", name, info.Mode().Perm(), shellquote.Word(name))
		}
	}
	return readAll(f, name)
}

func readAll(f io.Reader, name string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(text) > MaxSize {
		err = fmt.Errorf("%s has more than 1m bytes, the maximum for such a file", name)
	}
	return string(text), err
}

func (o Opener) open(name string, flags int) (*os.File, error) {
	f, info, err := o.openUnchecked(name, flags)
	if err != nil {
		return nil, err
	}
	if device := info.Mode()&os.ModeCharDevice != 0; device && flags == appending {
		return f, nil
	}
	if err := check(f.Name(), info); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openUnchecked checks where a file lies and opens it. The caller checks what it is.
func (o Opener) openUnchecked(name string, flags int) (*os.File, os.FileInfo, error) {
	name, err := filepath.Abs(name)
	if err == nil {
		err = o.checkExposed(name)
	}
	if err == nil {
		err = checkParents(name)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := openUnlinked(name, flags)
	if err != nil {
		return nil, nil, explain(name, err)
	}
	info, err := f.Stat()
	for range 20 {
		if err != nil || !hasHardLinks(info) {
			break
		}
		// Another server that starts may be about to rename the file into place.
		time.Sleep(5 * time.Millisecond)
		info, err = f.Stat()
	}
	if err != nil {
		f.Close()
	}
	return f, info, err
}

// checkExposed refuses a path in a directory that boxes see.
func (o Opener) checkExposed(name string) error {
	for _, e := range o.Exposed {
		if hostpath.Within(e.Path, name) {
			return fmt.Errorf("%s lies in %s; choose a place outside of it", name, e.Description)
		}
	}
	return nil
}

// checkParents refuses a path of which another user can replace a part: without the
// sticky bit, who can write to a directory can rename and delete what is in it.
func checkParents(name string) error {
	dir := filepath.Dir(name)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && othersWrite(info) && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("%s lies in %s, where other users can replace it (mode %04o); try: chmod o-w,g-w %s", name, dir, info.Mode().Perm(), shellquote.Word(dir))
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil
		}
		dir = up
	}
}

// check refuses a file that is not its owner's alone.
func check(name string, info os.FileInfo) error {
	switch mode := info.Mode().Perm(); {
	case info.Mode()&os.ModeNamedPipe != 0:
		return pipeError(name)
	case info.IsDir():
		return directoryError(name)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", name)
	case checkOwner(name, info) != nil:
		return checkOwner(name, info)
	case hasHardLinks(info):
		return fmt.Errorf("%s has a second hard link, by which others may reach it; use a copy of it", name)
	case mode&0o077 != 0 && runtime.GOOS != "windows": // which has no such modes
		return fmt.Errorf("other users can open %s (mode %04o); try: chmod 600 %s", name, mode, shellquote.Word(name))
	}
	return nil
}

// checkOwner refuses what belongs neither to the user who runs the program nor to
// root.
func checkOwner(name string, info os.FileInfo) error {
	if uid, known := owner(info); known && uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and warmbox runs as user %d; chown it to that user, or use another file", name, uid, os.Geteuid())
	}
	return nil
}

// othersWrite reports whether the mode lets users other than the owner write. The
// user's own group does not count: on most machines the user is its only member.
func othersWrite(info os.FileInfo) bool {
	mode := info.Mode().Perm()
	if runtime.GOOS == "windows" {
		return false
	}
	gid, known := ownerGroup(info)
	return mode&0o002 != 0 || mode&0o020 != 0 && known && gid != 0 && gid != os.Getegid()
}

// hasHardLinks reports whether a file has more than one name.
func hasHardLinks(info os.FileInfo) bool {
	links, known := linkCount(info)
	return known && links > 1 && info.Mode().IsRegular()
}

// explain rewords the error of an open that failed.
func explain(name string, err error) error {
	dir := filepath.Dir(name)
	_, noDir := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && errors.Is(noDir, os.ErrNotExist):
		return fmt.Errorf("cannot open %s: the directory %s does not exist; correct the path, or try: mkdir -p %s", name, dir, shellquote.Word(dir))
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s does not exist; create it, or correct the path", name)
	case errors.Is(err, syscall.EISDIR):
		return directoryError(name)
	case errors.Is(err, syscall.ENXIO):
		return pipeError(name)
	}
	return err
}

func directoryError(name string) error {
	return fmt.Errorf("%s is a directory; name a file in it", name)
}

func pipeError(name string) error {
	return fmt.Errorf("%s is a pipe or a socket, which stores nothing; name a file", name)
}

// linkError refuses a link in the place of the file, or on the way to it.
func linkError(name, link string) error {
	if name == link {
		return fmt.Errorf("%s is a symbolic link, which is not followed; name its target", name)
	}
	return fmt.Errorf("the path %s contains the symbolic link %s, in a directory that other users can write to; use the path without it", name, link)
}
