package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where a secret is taken from can be written as places of mounts are, and what is
// missing is named.
func TestPlacesOfSecrets(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, "x"), []byte("value of x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Config{}
	if value, err := c.secret("file:~/x"); err != nil || value != "value of x" {
		t.Errorf("%q, %v", value, err)
	}
	for from, want := range map[string]string{
		"file:": `"file:" needs a path after it`, "env:": `"env:" needs the name of a variable after it`,
		"file:~/y": filepath.Join(home, "y") + " does not exist",
	} {
		if _, err := c.secret(from); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", from, err, want)
		}
	}
}
