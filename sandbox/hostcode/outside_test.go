package hostcode

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOutsideGitDirFindsPathsOutOfTheWorkspace(t *testing.T) {
	for _, c := range []struct{ file, link, want string }{
		{"", "", ""},
		{"gitdir: store\n", "", ""},
		{"gitdir: a/../../store\n", "", "../store"},
		{"gitdir: /r/.git/worktrees/x\n", "", "/r/.git/worktrees/x"},
		{"", "../r/.git", "../r/.git"},
		{"", "inner/.git", ""},
		{"/r/.git", "", ""},
	} {
		dir := t.TempDir()
		if c.file != "" {
			os.WriteFile(filepath.Join(dir, ".git"), []byte(c.file), 0o644)
		} else if c.link != "" {
			os.Symlink(c.link, filepath.Join(dir, ".git"))
		}
		if got := OutsideGitDir(dir); got != c.want {
			t.Errorf("%q, link %q: %q, want %q", c.file, c.link, got, c.want)
		}
	}
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, ".git"), 0o755)
	if got := OutsideGitDir(dir); got != "" {
		t.Errorf("of a directory: %q", got)
	}
}
