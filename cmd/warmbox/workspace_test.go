package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWorkspaces(t *testing.T) {
	clean(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(top, "home", "me")
	for _, dir := range []string{"src/project", ".ssh/keys", ".docker/run", ".config/warmbox", ".cache/warmbox/agents", ".local/state/warmbox/logs", "other"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	for _, base := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(base, "")
	}
	link := filepath.Join(home, "src", "link")
	out := filepath.Join(home, "src", "out")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "other"), out); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, roots, want string }{
		{filepath.Join(home, "src/project"), "", ""},
		{filepath.Join(home, "src"), "", ""},
		{filepath.Join(home, "src/project"), "~/src", ""},
		{filepath.Join(home, "src/project"), filepath.Join(home, "src/project"), ""},
		{out, "", ""},
		{out, "~/src", "none of workspace_roots, ~/src"},
		{filepath.Join(home, "src/project"), "~/sr,/srv", "none of workspace_roots"},
		{filepath.Join(home, "src/project/.."), "~/src/project", "none of workspace_roots"},
		{home, "", "your home directory"},
		{home, "~/", "your home directory"},
		{top, "", "your home directory"},
		{filepath.Join(home, ".ssh"), "", "keys"},
		{filepath.Join(home, ".ssh/keys"), home, "keys"},
		{filepath.Join(home, ".docker/run"), "", "sockets"},
		{filepath.Join(home, ".config"), "", "its own files"},
		{filepath.Join(home, ".config/warmbox"), "", "its own files"},
		{filepath.Join(home, ".cache/warmbox/agents"), "", "its own files"},
		{filepath.Join(home, ".local/state/warmbox/logs"), "", "its own files"},
		{filepath.Join(home, ".local"), "", "its own files"},
		{link, "", "belongs to the system"},
		{"/", "", "much more"},
		{"/etc", "", "belongs to the system"},
		{"/usr/bin", "/usr", "belongs to the system"},
		{"/proc/self", "", "belongs to the system"},
		{"/dev", "", "belongs to the system"},
		{"/run", "", "belongs to the system"},
		{"/var/run", "", "belongs to the system"},
		{"/tmp", "", "much more"},
		{"/home", "", "much more"},
		{"/no/such/place", "", "no such file"},
		{"/etc/passwd", "", "not a directory"},
	} {
		_, err := load(map[string]string{"workspace": c.dir, "workspace-roots": c.roots})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "--workspace: ")) {
			t.Errorf("%s in %q: got %v, want %q", c.dir, c.roots, err, c.want)
		}
	}
	c := mustLoad(t, map[string]string{"workspace": out})
	if c.Workspace != filepath.Join(home, "other") {
		t.Errorf("the workspace is %s, where a link still leads", c.Workspace)
	}
}

func TestProtect(t *testing.T) {
	clean(t)
	for list, bad := range map[string]string{".git/hooks,Makefile": "", "": "", "../x": `"../x"`, "/etc": `"/etc"`, ".": `"."`, strings.Repeat("x,", 65): "65 paths"} {
		if _, err := load(map[string]string{"protect": list}); bad == "" && err != nil || bad != "" && (err == nil || !strings.Contains(err.Error(), bad)) {
			t.Errorf("%.50q: got %v, want %q", list, err, bad)
		}
	}
	// A configuration in the workspace is what a command would like to write.
	file := writeConfig(t, `protect = ["x"]`)
	c := mustLoad(t, map[string]string{"config": file, "workspace": filepath.Dir(file)})
	if want := []string{"x", "config.toml"}; !slices.Equal(c.Protect, want) || !slices.Equal(boxSpec(c).Protect, want) {
		t.Errorf("protected: %v", c.Protect)
	}
}
