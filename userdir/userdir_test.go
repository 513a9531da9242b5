package userdir

import (
	"path/filepath"
	"runtime"
	"testing"
)

func TestDirectories(t *testing.T) {
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		t.Skip("the defaults are those of the system")
	}
	for name, c := range map[string]struct {
		find     func() (string, error)
		variable string
		inHome   string
	}{
		"state":  {State, "XDG_STATE_HOME", ".local/state/warmbox"},
		"cache":  {Cache, "XDG_CACHE_HOME", ".cache/warmbox"},
		"config": {Config, "XDG_CONFIG_HOME", ".config/warmbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", "/home/me")
			for value, want := range map[string]string{
				"":         filepath.Join("/home/me", c.inHome),
				"relative": filepath.Join("/home/me", c.inHome), // XDG says to ignore it
				"/xdg":     "/xdg/warmbox",
			} {
				t.Setenv(c.variable, value)
				if got, err := c.find(); err != nil || got != want {
					t.Errorf("%s=%q: %q, %v, want %q", c.variable, value, got, err, want)
				}
			}
		})
	}
}

// MCP clients start servers with a minimal environment.
func TestHomeWithoutEnvironment(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_STATE_HOME", "relative")
	for name, find := range map[string]func() (string, error){"home": Home, "state": State} {
		if dir, err := find(); err != nil || !filepath.IsAbs(dir) {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for path, want := range map[string]string{
		"~/src": filepath.Join("/home/me", "src"), "~/": filepath.Clean("/home/me"), "~": "~", "~other/x": "~other/x", "a/~/b": "a/~/b", "": "",
	} {
		if got := Expand(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
