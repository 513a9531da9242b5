package hostcode

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// OutsideGitDir returns where the .git of a workspace leads if that is an absolute path
// or a path out of the workspace: a linked work tree, or a separate git directory. A box
// that has only the workspace, or has it under another path, has no repository there.
func OutsideGitDir(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	s := &scanner{root: root, left: 10, unseen: map[string]bool{}}
	text, err := root.Readlink(".git")
	if err != nil {
		var pointer bool
		if text, pointer = strings.CutPrefix(s.read(".git", maxPointer), "gitdir:"); !pointer {
			return ""
		}
		text = strings.TrimSpace(text)
	}
	text = filepath.ToSlash(text)
	if clean := path.Clean(text); path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return clean
	}
	return ""
}
