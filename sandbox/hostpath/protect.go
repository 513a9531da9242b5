package hostpath

import (
	"fmt"
	"path/filepath"
	"strings"
)

// MaxProtected is the maximum of protected paths: for each box every path is examined
// and mounted.
const MaxProtected = 64

// CheckProtected refuses a list of protected paths that is too long, or has a path that
// does not lie in the workspace. A path after "!" is excluded from protection.
func CheckProtected(list []string) error {
	if len(list) > MaxProtected {
		return fmt.Errorf("%d paths, but at most %d can be protected", len(list), MaxProtected)
	}
	for _, path := range list {
		path = strings.TrimPrefix(path, "!")
		if !filepath.IsLocal(path) || filepath.Clean(path) == "." {
			return fmt.Errorf("%q is not a path in the workspace; write it like .git/hooks", path)
		}
	}
	return nil
}
