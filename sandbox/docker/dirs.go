package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/warmbox/warmbox/userdir"
)

// dirs are the directories of a launcher on the host. A directory is created when
// it is first needed, with access for its user alone.
type dirs struct {
	state  string // "" is warmbox in the user's state directory
	cache  string // "" is warmbox in the user's cache directory
	logger *slog.Logger
}

// stateDir returns the directory that holds workspaces and records of boxes.
func (d dirs) stateDir() (string, error) {
	if d.state != "" {
		return filepath.Abs(d.state)
	}
	dir, err := userdir.State()
	if err != nil {
		return "", fmt.Errorf("find a directory for workspaces: %w", err)
	}
	return dir, nil
}

// workspace returns the directory that is the workspace of a box without a named
// one.
func (d dirs) workspace(id string) (string, error) {
	state, err := d.stateDir()
	return filepath.Join(state, "workspaces", id), err
}

// boxesDir returns a directory below boxes in the state directory.
func (d dirs) boxesDir(elem ...string) (string, error) {
	state, err := d.stateDir()
	if err != nil {
		return "", err
	}
	return privateDir(filepath.Join(append([]string{state, "boxes"}, elem...)...))
}

// cacheDir returns a directory of the cache.
func (d dirs) cacheDir(elem ...string) (string, error) {
	dir := d.cache
	if dir == "" {
		var err error
		if dir, err = userdir.Cache(); err != nil {
			return "", fmt.Errorf("find a cache directory: %w", err)
		}
	}
	dir, err := filepath.Abs(filepath.Join(append([]string{dir}, elem...)...))
	if err != nil {
		return "", err
	}
	return privateDir(dir)
}

func privateDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700)
}

// load reads what store has written to the cache under a name, and reports whether
// it could. The caller learns again what is missing or unreadable.
func (d dirs) load(kind, name string, v any) bool {
	dir, err := d.cacheDir(kind)
	return err == nil && readJSON(filepath.Join(dir, name+".json"), v) == nil
}

// store writes a value to the cache. A failure costs only the time to learn the
// value again, so it is logged and not returned.
func (d dirs) store(kind, name string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		var dir string
		if dir, err = d.cacheDir(kind); err == nil {
			err = writeFile(dir, name+".json", data, 0o600)
		}
	}
	if err != nil {
		d.logger.Debug("cannot write to the cache", "kind", kind, "err", err)
	}
}

// writeFile writes a file atomically: it has all of the data or does not exist.
func writeFile(dir, name string, data []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// maxJSON bounds the files that are read into memory.
const maxJSON = 1 << 20

func readJSON(file string, v any) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxJSON))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
