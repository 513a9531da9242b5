package cli

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
)

// stateDir is where warmbox keeps what is to outlive it: raw logs, workspaces.
func stateDir() (string, error) {
	return baseDir("XDG_STATE_HOME", ".local/state", os.UserCacheDir)
}

// cacheDir is where it keeps what can be made again.
func cacheDir() (string, error) {
	return baseDir("XDG_CACHE_HOME", ".cache", os.UserCacheDir)
}

// configDir is where its configuration file is looked for.
func configDir() (string, error) {
	return baseDir("XDG_CONFIG_HOME", ".config", os.UserConfigDir)
}

// baseDir finds a directory of the user's by the rules of XDG: an absolute path
// in a variable of its own, else a place in the home directory. macOS and
// Windows have places of their own.
func baseDir(variable, inHome string, native func() (string, error)) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "warmbox"), nil
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		dir, err := native()
		return filepath.Join(dir, "warmbox"), err
	}
	home, err := homeDir()
	return filepath.Join(home, inHome, "warmbox"), err
}

// homeDir asks the system's list of users where HOME is missing: clients start
// servers with an environment that they have stripped.
func homeDir() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", errors.New("HOME is not set, and this user has no home directory")
}
