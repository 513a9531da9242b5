package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/warmbox/warmbox/filelock"
)

// A lock is a file by which other programs of this user see that somebody
// lives: it is locked for as long as that is so, and no crash can leave it so.
type lock struct {
	file *os.File
	path string
}

// lockPatience is how long a lock is waited for that ought to be free: those who
// look whether it is hold it for an instant.
const lockPatience = 500 * time.Millisecond

// waitLock makes a file and takes its lock.
func waitLock(ctx context.Context, path string) (*lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := tryLock(path, os.O_CREATE)
		if !errors.Is(err, filelock.ErrHeld) {
			return l, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// tryLock takes the lock of a file if it is free.
func tryLock(path string, flags int) (*lock, error) { return openLock(path, flags, filelock.Try) }

// lookAt takes the lock of a file together with others who only look. Nobody has
// it then, and whoever wants it waits.
func lookAt(path string) (*lock, error) { return openLock(path, 0, filelock.TryShared) }

func openLock(path string, flags int, try func(*os.File) error) (*lock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|filelock.NoFollow|flags, 0o600)
		if err != nil {
			return nil, err
		}
		l := &lock{f, path}
		if err := try(f); err != nil {
			f.Close()
			return nil, err
		}
		if still(f, path) {
			return l, nil
		}
		l.release() // somebody removed it before we had it
	}
}

// still reports whether an open file is the one of that name.
func still(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// held reports whether somebody has the lock. In doubt somebody does.
func held(path string) bool {
	l, err := lookAt(path)
	if err == nil {
		l.release()
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// maxNoted bounds what is noted in a lock's file.
const maxNoted = 100

// read returns what is noted in the file.
func (l *lock) read() string {
	text := make([]byte, maxNoted)
	n, _ := l.file.ReadAt(text, 0)
	return string(text[:n])
}

// write notes something in the file, in place of what was there.
func (l *lock) write(text string) error {
	_, err := l.file.WriteAt([]byte(text), 0)
	return errors.Join(err, l.file.Truncate(int64(len(text))))
}

// release gives the lock back and leaves its file.
func (l *lock) release() error { return l.file.Close() }

// remove takes the file away, and with it the lock.
func (l *lock) remove() error {
	err := os.Remove(l.path)
	l.release()
	if err != nil { // some systems remove no file that is open
		err = os.Remove(l.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
