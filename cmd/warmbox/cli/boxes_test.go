package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Logs that boxes can write to would not be evidence of anything.
func TestLogsStayOutOfTheWorkspace(t *testing.T) {
	workspace := filepath.Join(t.TempDir(), "work")
	link := filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(workspace, 0o700), os.Symlink(workspace, link)); err != nil {
		t.Skip(err)
	}
	for dir, inside := range map[string]bool{
		workspace:                         true,
		filepath.Join(workspace, "logs"):  true,
		filepath.Join(link, "not", "yet"): true,
		workspace + "-logs":               false,
		filepath.Dir(workspace):           false,
	} {
		var c Config
		c.Workspace, c.Log.Dir = workspace, dir
		_, err := newLogs(&c, nil)
		if refused := err != nil && strings.Contains(err.Error(), "lies in the workspace"); refused != inside || err != nil && !inside {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
