//go:build linux

package agent

import (
	"os"
	"slices"
	"testing"
)

// TestFindPrograms: the PATH of commands counts, which the last variable of that name is, and only
// files that can be executed.
func TestFindPrograms(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for name, mode := range map[string]os.FileMode{one + "/git": 0o755, one + "/make": 0o644, two + "/make": 0o755} {
		if err := os.WriteFile(name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(two+"/go", 0o755); err != nil {
		t.Fatal(err)
	}
	got := findPrograms([]string{"make", "go", "git", "none"}, []string{"PATH=/no/such", "PATH=" + one + ":relative::" + two})
	if !slices.Equal(got, []string{"make", "git"}) {
		t.Errorf("%q", got)
	}
	if got := findPrograms(make([]string, 100), nil); got != nil {
		t.Errorf("%q", got)
	}
}
