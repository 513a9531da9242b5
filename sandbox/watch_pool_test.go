package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// A spare box is handed over only if a new one would have no more protected.
func TestSpareBoxProtectsWhatANewOneWould(t *testing.T) {
	for _, c := range []struct {
		name, run, host string
		hit             bool
	}{
		{"nothing happened", "", "", true},
		{"a command made files", "touch README", "", true},
		{"a command made a repository", "mkdir -p lib/.git; touch lib/.git/config", "", false},
		{"one that is excluded", "mkdir -p spared/.git; touch spared/.git/config", "", true},
		{"a command made a protected path", "touch .envrc", "", false},
		{"a command that goes on", "mkdir -p lib/.git; touch lib/.git/config; sleep 1000", "", false},
		{"a person on the host made a protected path", "", ".envrc", false},
		{"a person on the host replaced one", "", ".bashrc", false},
		{"a person on the host wrote into a protected directory", "", ".vscode/tasks.json", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(dir, ".vscode"), 0o755), os.WriteFile(filepath.Join(dir, ".bashrc"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			m, _ := pooled(t, sandbox.Pool{Warm: 2})
			m.Defaults.Workspace, m.Defaults.Protect = dir, []string{".envrc", ".bashrc", ".vscode", "!spared"}
			m.Warm(sandbox.Owner{})
			await(t, "two spare boxes", func() bool { return m.Stats().Ready == 2 })
			before := time.Now()
			first := start(t, m, sandbox.Request{})
			if c.run != "" {
				run := begin(t, first, "{ "+c.run+"; } && echo done || echo done")
				await(t, "what the command does", func() bool {
					_, err := os.Stat(filepath.Join(dir, "lib/.git/config"))
					select {
					case <-run.Done():
						return true
					default:
						return err == nil
					}
				})
			}
			if c.host != "" {
				if err := os.WriteFile(filepath.Join(dir, c.host), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			// There may be another spare box by now, which was started later.
			if box := start(t, m, sandbox.Request{}); box.Started.Before(before) != c.hit {
				t.Errorf("a spare box of before is handed over: %v", !c.hit)
			}
		})
	}
}
