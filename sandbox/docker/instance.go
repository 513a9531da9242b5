package docker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sweepTime bounds a sweep that nobody waits for.
const sweepTime = time.Minute

// arrive is called before something is made on an engine. On one that is new to
// this launcher, or has come back, it makes known that the launcher lives, and
// sweeps behind its back.
func (l *Launcher) arrive(e *engine) {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	if l.arrived == e {
		return
	}
	l.arrived = e
	if err := l.enlist(); err != nil {
		// Nobody will take its boxes for left over, nor sweep them: they end by
		// themselves all the same.
		l.logger.Warn("cannot say that this program lives, so nobody sweeps after it", "err", err)
		return
	}
	if l.stopSweep != nil {
		l.stopSweep()
	}
	ctx, stop := context.WithTimeout(context.Background(), sweepTime)
	l.stopSweep = stop
	l.sweeps.Go(func() {
		defer stop()
		took, err := l.sweep(ctx, e, false)
		for _, t := range took {
			l.logger.Info("swept what was left behind", "what", t.What, "name", t.Name, "why", t.Why)
		}
		if err != nil && ctx.Err() == nil {
			l.logger.Warn("not everything that was left behind could be swept", "err", err)
		}
	})
}

// Close ends what goes on behind the launcher's back and takes back the sign
// that it lives. Its streams must have been closed before.
func (l *Launcher) Close() error {
	l.arriving.Lock()
	defer l.arriving.Unlock()
	if l.stopSweep != nil {
		l.stopSweep()
	}
	l.sweeps.Wait()
	l.errands.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.engine != nil {
		l.engine.Close()
	}
	l.engine, l.arrived = nil, nil
	if l.alive == nil {
		return nil
	}
	err := l.alive.remove()
	l.alive = nil
	return err
}

// enlist takes the lock that says that this launcher lives.
func (l *Launcher) enlist() error {
	host, err := l.hostID()
	if err != nil || l.alive != nil {
		return err
	}
	dir, err := l.ownDir("instances")
	if err != nil {
		return err
	}
	alive, err := waitLock(context.Background(), filepath.Join(dir, l.instance))
	if err != nil {
		return err
	}
	if err := l.noteWritable(alive); err != nil {
		return errors.Join(err, alive.remove())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive, l.host = alive, host
	return nil
}

// hostLabel is what marks the containers of this host, "" if the launcher is
// not enlisted.
func (l *Launcher) hostLabel() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.host
}

// hostID names those programs that can see each other's locks: of one machine,
// one user and one state directory. An engine serves several, and what is not of
// ours is not ours to judge.
func (l *Launcher) hostID() (string, error) {
	if host := l.hostLabel(); host != "" {
		return host, nil
	}
	dir, err := l.ownDir()
	if err != nil {
		return "", err
	}
	seed, err := l.seed(filepath.Join(dir, "seed"))
	if err != nil {
		return "", err
	}
	// Homes are shared by machines, and disks are cloned: each alone is not
	// enough.
	machine, _ := os.ReadFile("/etc/machine-id")
	sum := sha256.Sum256([]byte(seed + "\x00" + strings.TrimSpace(string(machine)) + "\x00" + strconv.Itoa(os.Getuid())))
	return hex.EncodeToString(sum[:8]), nil
}

// seed returns what was drawn for a state directory when it was new.
func (l *Launcher) seed(path string) (string, error) {
	lock, err := waitLock(context.Background(), path)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	defer lock.release()
	if old := lock.read(); old != "" {
		return old, nil
	}
	fresh := rand.Text()
	return fresh, lock.write(fresh)
}

// ownDir returns a directory of the state that only we can enter, making it.
func (l *Launcher) ownDir(elem ...string) (string, error) {
	state, err := l.stateDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(append([]string{state, "boxes"}, elem...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700)
}

// sweepInstances takes away the signs of programs that ended without doing so,
// and reports whether none but ours lives.
func (l *Launcher) sweepInstances() (alone bool, err error) {
	dir, err := l.ownDir("instances")
	if err != nil {
		return false, err
	}
	entries, err := os.ReadDir(dir)
	alone = err == nil
	for _, entry := range entries {
		lock, lerr := tryLock(filepath.Join(dir, entry.Name()), 0)
		switch {
		case lerr == nil:
			err = errors.Join(err, lock.remove())
		case entry.Name() != l.instance:
			alone = false
		}
	}
	return alone, err
}
