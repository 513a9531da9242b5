package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestWorkspaceMadeAgain has the user delete the workspace and make it again, as
// who clones a project anew does. A box that stood ready has the old directory
// still: what a client gets has the new one.
func TestWorkspaceMadeAgain(t *testing.T) {
	needDocker(t)
	h := newHome(t)
	workspace := filepath.Join(h.dir, "work")
	lay := func() {
		if err := errors.Join(os.RemoveAll(workspace), os.Mkdir(workspace, 0o700), h.own(workspace)); err != nil {
			t.Fatal(err)
		}
	}
	lay()
	t.Setenv("WARMBOX_WORKSPACE", workspace)
	t.Setenv("WARMBOX_POOL_WARM", "1")
	p := h.serve(t)
	first := p.call(t, "exec", map[string]any{"cmd": "true"})
	soon(t, "a box that stands ready", func() bool { return len(containersOf(t, p)) == 2 })
	for range 3 { // and has answered by then
		p.call(t, "exec", map[string]any{"containerId": first["containerId"], "cmd": "true"})
	}
	lay()
	box := p.call(t, "start", map[string]any{})["id"]
	r := p.call(t, "exec", map[string]any{"containerId": box, "cmd": "echo made >here"})
	if text, err := os.ReadFile(filepath.Join(workspace, "here")); err != nil || string(text) != "made\n" {
		t.Errorf("%v; on the host %q, %v", r, text, err)
	}
}
