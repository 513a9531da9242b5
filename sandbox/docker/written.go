package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Programs of one user tell each other which directories their boxes can write:
// what lies in one a command can replace by something else, and a later box of
// another program would get that. Each notes its own in the file by which it shows
// that it lives, and all are noted for good in a directory of their own: a link that a
// box made outlives its program.

const (
	// maxWritten bounds how many directories are remembered, and writtenLife for how
	// long those that are gone.
	maxWritten  = 10_000
	writtenLife = 90 * 24 * time.Hour
)

// noteWritable tells the other programs, in the file by which this one lives.
func (l *Launcher) noteWritable(alive *lock) error {
	if len(l.config.Writable) == 0 {
		return nil
	}
	text, err := json.Marshal(l.config.Writable)
	if err != nil {
		return err
	}
	dir, err := l.ownDir("written")
	if err != nil {
		return err
	}
	for _, path := range l.config.Writable {
		text, err := json.Marshal(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(path))
		if err := put(dir, hex.EncodeToString(sum[:16])+".json", text, 0o600); err != nil {
			return err
		}
	}
	return alive.write(string(text))
}

// Written lists the directories that boxes of this user could write at any time, as
// far as the programs of a state directory tell. What is gone for long it forgets.
func Written(stateDir string) (list []string, err error) {
	dir := filepath.Join(stateDir, "boxes", "written")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries[:min(len(entries), maxWritten)] {
		var path string
		name := filepath.Join(dir, entry.Name())
		if readJSON(name, &path) != nil {
			continue // just being written, or none of ours
		}
		info, ierr := entry.Info()
		if _, serr := os.Lstat(path); errors.Is(serr, os.ErrNotExist) && ierr == nil && time.Since(info.ModTime()) > writtenLife {
			os.Remove(name)
			continue
		}
		list = append(list, path)
	}
	return list, err
}

// writtenByOthers lists what boxes of this user's other programs can write: of
// those that live, and of kept boxes whose program has ended.
func (l *Launcher) writtenByOthers(ctx context.Context, e *engine) ([]string, error) {
	list, err := l.writtenByLiving()
	if err != nil {
		return nil, err
	}
	host, err := l.hostID()
	if err != nil {
		return nil, err
	}
	found, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelPrefix+"host="+host))})
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if c.Labels[labelPrefix+"instance"] == l.instance {
			continue
		}
		for _, m := range c.Mounts {
			inWorkspace := m.Destination != workspaceDir && below(m.Destination, workspaceDir)
			if m.RW && m.Type == "bind" && !inWorkspace {
				list = append(list, m.Source)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func (l *Launcher) writtenByLiving() (list []string, err error) {
	dir, err := l.ownDir("instances")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if entry.Name() == l.instance || !held(name) {
			continue
		}
		var paths []string
		if readJSON(name, &paths) == nil {
			list = append(list, paths...)
		}
	}
	return list, err
}
