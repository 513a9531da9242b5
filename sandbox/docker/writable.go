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
)

// The processes of one user tell each other which directories their boxes can write:
// a command can replace what lies in one, and a later box of another process would
// get the replacement. Each process lists its own in the file that its instance
// locks. A directory of records remembers all of them, since a symbolic link outlives
// the process whose box made it.

const (
	// maxRecords bounds how many directories are remembered.
	maxRecords = 10_000

	// recordLife is how long a directory is remembered that no longer exists.
	recordLife = 90 * 24 * time.Hour
)

// publishWritable writes the writable directories to the file of this instance and
// to the records.
func (i *instance) publishWritable(alive *lock) error {
	if len(i.writable) == 0 {
		return nil
	}
	text, err := json.Marshal(i.writable)
	if err != nil {
		return err
	}
	dir, err := i.dirs.boxesDir("written")
	if err != nil {
		return err
	}
	for _, path := range i.writable {
		text, err := json.Marshal(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(path))
		if err := writeFile(dir, hex.EncodeToString(sum[:16])+".json", text, 0o600); err != nil {
			return err
		}
	}
	return alive.write(string(text))
}

// Written lists the directories that boxes of this user could write at any time, by
// the records of a state directory. It deletes records that are older than
// recordLife and whose directory no longer exists.
func Written(stateDir string) (list []string, err error) {
	dir := filepath.Join(stateDir, "boxes", "written")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries[:min(len(entries), maxRecords)] {
		var path string
		name := filepath.Join(dir, entry.Name())
		if readJSON(name, &path) != nil {
			continue // another process is writing it, or it is no record
		}
		info, ierr := entry.Info()
		if _, serr := os.Lstat(path); errors.Is(serr, os.ErrNotExist) && ierr == nil && time.Since(info.ModTime()) > recordLife {
			os.Remove(name)
			continue
		}
		list = append(list, path)
	}
	return list, err
}

// writtenByOthers lists what boxes of this user's other processes can write: of
// processes that live, and of persistent boxes whose process has ended.
func (l *Launcher) writtenByOthers(ctx context.Context, e *engine) ([]string, error) {
	list, err := l.instance.writtenByLiving()
	if err != nil {
		return nil, err
	}
	found, err := l.instance.listContainers(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		if c.Labels[labelPrefix+"instance"] == l.instance.id {
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

// writtenByLiving lists what other processes that live have published.
func (i *instance) writtenByLiving() (list []string, err error) {
	dir, err := i.dirs.boxesDir("instances")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if entry.Name() == i.id || !held(name) {
			continue
		}
		var paths []string
		if readJSON(name, &paths) == nil {
			list = append(list, paths...)
		}
	}
	return list, err
}
