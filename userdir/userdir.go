// Package userdir returns the directories for warmbox's own files of this user. It
// creates none of them.
//
// The rules are those of XDG: an absolute path in the variable, else a place in the
// home directory. On macOS and Windows the system's own place is the default.
package userdir

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
)

// State is for data that outlives the program: raw logs, workspaces, tokens.
func State() (string, error) {
	return find("XDG_STATE_HOME", ".local/state", os.UserCacheDir)
}

// Cache is for data that the program can make again.
func Cache() (string, error) {
	return find("XDG_CACHE_HOME", ".cache", os.UserCacheDir)
}

// Config is for the configuration file.
func Config() (string, error) {
	return find("XDG_CONFIG_HOME", ".config", os.UserConfigDir)
}

func find(variable, inHome string, native func() (string, error)) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "warmbox"), nil
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		dir, err := native()
		return filepath.Join(dir, "warmbox"), err
	}
	home, err := Home()
	return filepath.Join(home, inHome, "warmbox"), err
}

// Home is the user's home directory. If HOME is not set it comes from the system's
// user database: MCP clients start servers with a minimal environment.
func Home() (string, error) {
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", errors.New("HOME is not set, and this user has no home directory")
}

// Expand replaces ~ at the beginning of a path ~/… with the home directory. In a
// configuration file no shell does so.
func Expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := Home(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
