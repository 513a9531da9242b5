package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/warmbox/warmbox/userdir"
)

// cacheDir returns a directory of the cache that only we can enter, making it.
func (l *Launcher) cacheDir(elem ...string) (string, error) {
	dir := l.config.CacheDir
	if dir == "" {
		var err error
		if dir, err = userdir.Cache(); err != nil {
			return "", fmt.Errorf("no place for a cache: %w", err)
		}
	}
	dir, err := filepath.Abs(filepath.Join(append([]string{dir}, elem...)...))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o700)
}

// load reads what store wrote under a name, and reports whether it could. What
// is not there, or not to be read, is learnt again.
func (l *Launcher) load(kind, name string, v any) bool {
	dir, err := l.cacheDir(kind)
	return err == nil && readJSON(filepath.Join(dir, name+".json"), v) == nil
}

func (l *Launcher) store(kind, name string, v any) {
	data, err := json.Marshal(v)
	if err == nil {
		var dir string
		if dir, err = l.cacheDir(kind); err == nil {
			err = put(dir, name+".json", data, 0o600)
		}
	}
	if err != nil {
		l.logger.Debug("cannot remember, will learn again", "what", kind, "err", err)
	}
}

// put writes a file that is there whole or not at all.
func put(dir, name string, data []byte, mode os.FileMode) error {
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
