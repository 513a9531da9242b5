package cli

import (
	"fmt"
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
		{out, "~/src", "none of workspace_roots, " + filepath.Join(home, "src")},
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
		{"/no/such/place", "", "does not exist, and must be a directory"},
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
	for list, bad := range map[string]string{".git/hooks,Makefile,!lib/.git": "", "": "", "!": "not a path", "!../x": `"../x"`, "../x": `"../x"`, "/etc": `"/etc"`, ".": `"."`, strings.Repeat("x,", 65): "65 paths"} {
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

func TestMounts(t *testing.T) {
	clean(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.MkdirAll(filepath.Join(home, "skills"), 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(lines string) (*Config, error) {
		return load(map[string]string{"config": writeConfig(t, "[[mounts]]\n"+lines)})
	}
	c, err := mount("source = \"~/skills\"\ntarget = \"/skills\"\n[[mounts]]\nsource = \"/usr/share\"\ntarget = \"/s\"\nmode = \"ro\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := boxSpec(c).Mounts; len(got) != 2 || filepath.Base(got[0].Source) != "skills" || got[0].Target != "/skills" || got[0].Writable || got[1].Source != "/usr/share" {
		t.Errorf("got %+v", got)
	}
	for lines, want := range map[string]string{
		`source = "~/absent"`:                  "does not exist",
		`target = "/x"`:                        "has no source",
		`source = "~"`:                         "does not exist",
		"source = \"~/skills\"\nmode = \"rx\"": `"rx" is not one of ro, rw`,
		"source = \"/etc\"\nmode = \"rw\"":     "belongs to the system",
		`source = "/proc"`:                     "belongs to the system",
		`source = "/run"`:                      "belongs to the system",
		`source = "/"`:                         "much more",
		`source = "~/"`:                        "your home directory",
		`source = "/dev/null"`:                 "neither a directory nor a file",
		`from = "/x"`:                          "unknown setting mounts.from",
	} {
		if _, err := mount(lines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", lines, err, want)
		}
	}
	if _, err := load(map[string]string{"mounts": "x"}); err == nil || !strings.Contains(err.Error(), "set it in the configuration file") {
		t.Errorf("got %v", err)
	}
}

// TestMountInTheWorkspace: a configuration whose boxes could replace the source of
// one of its mounts is none.
func TestMountInTheWorkspace(t *testing.T) {
	clean(t)
	work := t.TempDir()
	if err := os.MkdirAll(filepath.Join(work, ".cache", "mod"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"ro", "rw"} {
		file := writeConfig(t, fmt.Sprintf("workspace = %q\n[[mounts]]\nsource = %q\ntarget = \"/home/agent/go/pkg/mod\"\nmode = %q\n", work, filepath.Join(work, ".cache", "mod"), mode))
		if _, err := load(map[string]string{"config": file}); err == nil || !strings.Contains(err.Error(), "it lies in "+work+", which boxes can write") {
			t.Errorf("%s: got %v", mode, err)
		}
		if _, err := load(map[string]string{"config": file, "workspace-mode": "ro"}); err != nil {
			t.Errorf("%s, in a workspace that is only read: %v", mode, err)
		}
	}
}
