package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/warmbox/warmbox/filelock"
)

// A lock is a locked file. It shows the other processes of this user that its holder
// lives: the kernel releases the lock when the process ends, also by a crash.
type lock struct {
	file *os.File
	path string
}

// lockTimeout bounds the wait for a lock that should be free: processes that check
// whether it is hold it for an instant.
const lockTimeout = 500 * time.Millisecond

// waitLock creates a file and takes its lock.
func waitLock(ctx context.Context, path string) (*lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
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

// shareLock takes a shared lock of a file, to check it beside others. No process holds
// the lock then, and one that wants it waits.
func shareLock(path string) (*lock, error) { return openLock(path, 0, filelock.TryShared) }

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
		if sameFile(f, path) {
			return l, nil
		}
		l.release() // another process removed it before we had the lock
	}
}

// sameFile reports whether an open file is the one at a path.
func sameFile(f *os.File, path string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// held reports whether a process holds the lock, also if that is unknown.
func held(path string) bool {
	l, err := shareLock(path)
	if err == nil {
		l.release()
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}

// maxLockText bounds the text in a lock's file.
const maxLockText = 100

// read returns the text in the file.
func (l *lock) read() string {
	text := make([]byte, maxLockText)
	n, _ := l.file.ReadAt(text, 0)
	return string(text[:n])
}

// write replaces the text in the file.
func (l *lock) write(text string) error {
	_, err := l.file.WriteAt([]byte(text), 0)
	return errors.Join(err, l.file.Truncate(int64(len(text))))
}

// release releases the lock and leaves its file.
func (l *lock) release() error { return l.file.Close() }

// remove removes the file, and with it the lock.
func (l *lock) remove() error {
	err := os.Remove(l.path)
	l.release()
	if err != nil { // some systems do not remove an open file
		err = os.Remove(l.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
