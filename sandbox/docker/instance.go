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
	"sync"
	"sync/atomic"
	"time"
)

// An instance identifies a launcher to the other processes of its user on this
// host. It holds a lock for as long as the launcher lives, and its labels mark the
// launcher's containers: so a later process knows whose are left over.
type instance struct {
	id       string // on a label of each container
	started  time.Time
	dirs     dirs
	writable []string

	host atomic.Value // the label of this host, a string; unset before register

	mu       sync.Mutex // guards what follows
	alive    *lock      // nil before register
	sweptFor *engine    // the last engine that a sweep was started for
	cancel   context.CancelFunc
	sweeps   sync.WaitGroup
}

// sweepTime bounds a sweep in the background.
const sweepTime = time.Minute

func newInstance(d dirs, writable []string) *instance {
	return &instance{id: rand.Text(), started: time.Now(), dirs: d, writable: writable}
}

// register is called before something is created on an engine. On an engine that is
// new to this launcher, or has come back, it makes the launcher known to other
// processes and starts a sweep in the background.
func (l *Launcher) register(e *engine) {
	err := l.instance.register(e, func(ctx context.Context) {
		removed, err := l.sweep(ctx, e, false)
		for _, r := range removed {
			l.logger.Info("removed a leftover", "what", r.What, "name", r.Name, "why", r.Why)
		}
		if err != nil && ctx.Err() == nil {
			l.logger.Warn("could not remove all leftovers", "err", err)
		}
	})
	if err != nil {
		// No process takes its boxes for leftovers, and none sweeps them. They end by
		// themselves all the same.
		l.logger.Warn("cannot register this process, so no other process removes its leftovers", "err", err)
	}
}

// register locks the file of this instance, and runs sweep in the background, once
// for each engine in a row.
func (i *instance) register(e *engine, sweep func(context.Context)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sweptFor == e {
		return nil
	}
	i.sweptFor = e
	if err := i.lockFile(); err != nil {
		return err
	}
	if i.cancel != nil {
		i.cancel()
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTime)
	i.cancel = cancel
	i.sweeps.Go(func() {
		defer cancel()
		sweep(ctx)
	})
	return nil
}

// lockFile takes the lock that shows that this launcher lives. The caller holds mu.
func (i *instance) lockFile() error {
	host, err := i.hostID()
	if err != nil || i.alive != nil {
		return err
	}
	dir, err := i.dirs.boxesDir("instances")
	if err != nil {
		return err
	}
	alive, err := waitLock(context.Background(), filepath.Join(dir, i.id))
	if err != nil {
		return err
	}
	if err := i.publishWritable(alive); err != nil {
		return errors.Join(err, alive.remove())
	}
	i.alive = alive
	i.host.Store(host)
	return nil
}

// stopSweep ends the sweep in the background.
func (i *instance) stopSweep() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cancel != nil {
		i.cancel()
	}
	i.sweeps.Wait()
	i.sweptFor = nil
}

// unregister removes the file of this instance.
func (i *instance) unregister() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.alive == nil {
		return nil
	}
	err := i.alive.remove()
	i.alive = nil
	return err
}

// hostLabel marks the containers of this host, "" before register.
func (i *instance) hostLabel() string {
	host, _ := i.host.Load().(string)
	return host
}

// hostID identifies the processes that can see each other's locks: of one machine,
// one user and one state directory. One engine may serve several of them, and none
// can judge another's containers.
func (i *instance) hostID() (string, error) {
	if host := i.hostLabel(); host != "" {
		return host, nil
	}
	dir, err := i.dirs.boxesDir()
	if err != nil {
		return "", err
	}
	seed, err := readSeed(filepath.Join(dir, "seed"))
	if err != nil {
		return "", err
	}
	// Machines share home directories, and disks are cloned: neither seed nor machine
	// id is enough.
	machine, _ := os.ReadFile("/etc/machine-id")
	sum := sha256.Sum256([]byte(seed + "\x00" + strings.TrimSpace(string(machine)) + "\x00" + strconv.Itoa(os.Getuid())))
	return hex.EncodeToString(sum[:8]), nil
}

// readSeed returns the random text of a state directory, which the first process
// draws.
func readSeed(path string) (string, error) {
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

// sweepInstances removes the files of processes that were killed, and reports
// whether no other process lives.
func (i *instance) sweepInstances() (alone bool, err error) {
	dir, err := i.dirs.boxesDir("instances")
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
		case entry.Name() != i.id:
			alone = false
		}
	}
	return alone, err
}
