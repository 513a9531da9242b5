package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// repoFiles is the number of files that git status examines.
const repoFiles = 200

// makeRepo creates a repository with files, one of them changed, as work for git
// status. Without git it does nothing: the command fails and is skipped.
func makeRepo(ctx context.Context, dir string) error {
	if _, err := exec.LookPath("git"); err != nil {
		return nil
	}
	for i := range repoFiles {
		name := filepath.Join(dir, fmt.Sprintf("dir%d", i%10), fmt.Sprintf("file%d.txt", i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."},
		{"-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "files"},
	} {
		if err := program("git", append([]string{"-C", dir}, args...)...)(ctx); err != nil {
			return fmt.Errorf("git %s: %w", args[0], err)
		}
	}
	return os.WriteFile(filepath.Join(dir, "dir0", "file0.txt"), []byte("changed\n"), 0o644)
}
