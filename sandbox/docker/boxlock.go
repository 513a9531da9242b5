package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warmbox/warmbox/filelock"
	"github.com/warmbox/warmbox/sandbox"
)

// A boxLock is the exclusive hold of a process on a persistent box. It is two locks,
// on the box's name and on its id, and beside the latter the directory of the box's
// socket, which exists for as long as the box.
//
// The lock of the name keeps the living processes of a user from having two boxes of
// one name: a later process could not tell which to reattach. No process holds the
// lock of a detached box. The file of its lock says until when the box waits for a
// process to reattach it.
type boxLock struct {
	name *lock // nil where only the box's own lock is held
	box  *lock
	dir  string
}

const lockSuffix = ".lock"

// lockBox locks a persistent box, also one that is about to be created. It locks the
// name first: the process that has the name is the one that may want the box.
func (l *Launcher) lockBox(ctx context.Context, e *engine, id string, p sandbox.Persistent) (*boxLock, error) {
	name, err := l.dirs.lockName(ctx, e, id, p)
	if err != nil {
		return nil, err
	}
	b, err := l.dirs.lockID(ctx, e, id)
	if err != nil {
		return nil, errors.Join(err, name.remove())
	}
	b.name = name
	return b, nil
}

// lockID locks a persistent box by its id.
func (d dirs) lockID(ctx context.Context, e *engine, id string) (*boxLock, error) {
	dir, err := d.locksDir(e)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, id)
	lock, err := waitLock(ctx, path+lockSuffix)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, sandbox.Errorf(sandbox.BoxNotFound, "", "box %s belongs to another running warmbox: %w", id, err)
	}
	if err != nil {
		return nil, err
	}
	if err := lock.write(""); err != nil {
		lock.release()
		return nil, err
	}
	return &boxLock{box: lock, dir: path}, nil
}

// locksDir returns the directory of the locks of an engine's boxes.
func (d dirs) locksDir(e *engine) (string, error) {
	return d.boxesDir("kept", e.identity())
}

// lockName locks the name of a persistent box.
func (d dirs) lockName(ctx context.Context, e *engine, id string, p sandbox.Persistent) (*lock, error) {
	dir, err := d.boxesDir("names")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{e.identity(), p.Principal, p.Name}, "\x00")))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16]))
	name, err := waitLock(ctx, path)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, sandbox.Errorf(sandbox.InvalidArgument, "Choose another name, or end that process: the box is then detached, and the next process that asks for the name reattaches it.",
			"the name %q is taken: %s has a persistent box of that name", sanitize(p.Name, maxLabel), nameHolder(path))
	}
	if err != nil {
		return nil, err
	}
	if err := name.write(fmt.Sprintf("%d %s", os.Getpid(), id)); err != nil {
		return nil, errors.Join(err, name.remove())
	}
	removeStaleNames(dir)
	return name, nil
}

// nameHolder describes the process that has a name.
func nameHolder(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "another warmbox"
	}
	defer f.Close()
	var pid int
	var box string
	if _, err := fmt.Fscan(io.LimitReader(f, maxLockText), &pid, &box); err != nil {
		return "another warmbox"
	}
	return fmt.Sprintf("another warmbox (process %d, box %s)", pid, sanitize(box, maxLabel))
}

// removeStaleNames removes the files of processes that were killed. One that stays
// does no harm.
func removeStaleNames(dir string) {
	names, _ := os.ReadDir(dir)
	for _, n := range names {
		if name, err := tryLock(filepath.Join(dir, n.Name()), 0); err == nil {
			name.remove()
		}
	}
}

// release releases the locks and leaves the box to a later process.
func (b *boxLock) release() error { return errors.Join(b.box.release(), b.removeName()) }

// forfeit releases the locks for good: no process reattaches the box, and a sweep
// removes it.
func (b *boxLock) forfeit() error {
	return errors.Join(b.box.write(time.Unix(0, 0).Format(time.RFC3339)), b.box.release(), b.removeName())
}

// remove removes the files of the locks and the directory.
func (b *boxLock) remove() error {
	return errors.Join(os.RemoveAll(b.dir), b.box.remove(), b.removeName())
}

func (b *boxLock) removeName() error {
	if b.name == nil {
		return nil
	}
	return b.name.remove()
}

// reattachMargin is added to the reattach timeout of a box, since its agent may start
// to count later than we do.
const reattachMargin = time.Minute

// checkLock reports whether a process holds the lock of a box and, if none does,
// whether the box's reattach timeout is over. The first process that finds the lock
// free writes the end of the timeout to its file: processes that are killed write
// nothing.
func checkLock(path string, timeout time.Duration) (held, expired bool) {
	lock, err := shareLock(path)
	if err != nil {
		return errors.Is(err, filelock.ErrHeld), errors.Is(err, fs.ErrNotExist)
	}
	defer lock.release()
	return false, lock.expired(bootClock(), timeout)
}

// expired reports whether the time in the file is over. It writes a time where there
// is none, or one from before the machine was booted: a box that outlived that runs on
// another machine, and its agent ends it in time.
func (l *lock) expired(now bootTime, timeout time.Duration) bool {
	text := l.read()
	until, ok := parseBootTime(text)
	switch {
	case text != "" && !ok:
		return true // the lock is forfeited
	case !ok || until.boot != now.boot:
		l.write(now.add(timeout + reattachMargin).String())
		return false
	}
	return now.at > until.at
}
