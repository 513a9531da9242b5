package hostcode

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Elsewhere returns where the .git of a workspace leads if that is by an absolute
// path or out of it: a linked work tree, or a git directory of its own place. Who
// has the workspace alone, or under another path, has no repository there.
func Elsewhere(dir string) string {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	s := &scan{root: root, left: 10, unseen: map[string]bool{}}
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
