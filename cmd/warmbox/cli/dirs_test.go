package cli

import (
	"path/filepath"
	"testing"
)

// Clients start servers with hardly any environment.
func TestHomeWithoutEnvironment(t *testing.T) {
	t.Setenv("HOME", "")
	if home, err := homeDir(); err != nil || !filepath.IsAbs(home) {
		t.Errorf("%q, %v", home, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative") // which its rules say to ignore
	if dir, err := stateDir(); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("%q, %v", dir, err)
	}
}
