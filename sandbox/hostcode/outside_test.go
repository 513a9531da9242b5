package hostcode

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOutsideGitDirFindsPathsOutOfTheWorkspace(t *testing.T) {
	file := func(text string) func(string) error {
		return func(name string) error { return os.WriteFile(name, []byte(text), 0o644) }
	}
	link := func(target string) func(string) error {
		return func(name string) error { return os.Symlink(target, name) }
	}
	for name, c := range map[string]struct {
		create func(name string) error // creates .git
		want   string
	}{
		"no .git":               {func(string) error { return nil }, ""},
		"directory":             {func(name string) error { return os.Mkdir(name, 0o755) }, ""},
		"file, inside":          {file("gitdir: store\n"), ""},
		"file, outside":         {file("gitdir: a/../../store\n"), "../store"},
		"file, absolute":        {file("gitdir: /r/.git/worktrees/x\n"), "/r/.git/worktrees/x"},
		"file without a gitdir": {file("/r/.git"), ""},
		"link, inside":          {link("inner/.git"), ""},
		"link, outside":         {link("../r/.git"), "../r/.git"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.create(filepath.Join(dir, ".git")); err != nil {
				t.Fatal(err)
			}
			if got := OutsideGitDir(dir); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
