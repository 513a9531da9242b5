package cli

import (
	"fmt"
	"path/filepath"

	"github.com/warmbox/warmbox/privatefile"
	"github.com/warmbox/warmbox/userdir"
)

// private opens the files that are the user's alone. They must lie outside of the
// workspace, the mounts, and the workspaces that boxes get of their own.
func (c *Config) private() privatefile.Opener {
	var o privatefile.Opener
	expose := func(path, description string, args ...any) {
		o.Exposed = append(o.Exposed, privatefile.Exposed{Path: path, Description: fmt.Sprintf(description, args...)})
	}
	if c.Workspace != "" {
		expose(c.Workspace, "the workspace %s, where boxes could change it", c.Workspace)
	}
	for _, m := range c.Mounts {
		expose(absolute(userdir.Expand(m.Source)), "%s, which boxes see as %s", m.Source, m.Target)
	}
	if state, err := userdir.State(); err == nil {
		dir := workspaces(state)
		expose(dir, "%s, the directory of the boxes' workspaces", dir)
	}
	return o
}

// workspaces is where boxes without a workspace of this machine get their own.
func workspaces(state string) string { return filepath.Join(state, "workspaces") }
