package hostcode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A workspace is a directory in which git on this machine can be run. The file mark appears
// when git executes something of the workspace.
type workspace struct {
	t         *testing.T
	dir, mark string
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &workspace{t, dir, filepath.Join(t.TempDir(), "mark")}
}

// write writes a file of the workspace, with %RUN% replaced by a command that makes the mark.
func (ws *workspace) write(name, text string) {
	ws.t.Helper()
	file := filepath.Join(ws.dir, name)
	text = strings.ReplaceAll(text, "%RUN%", "touch "+ws.mark)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
		ws.t.Fatal(err)
	}
}

func (ws *workspace) append(name, text string) {
	ws.t.Helper()
	old, err := os.ReadFile(filepath.Join(ws.dir, name))
	if err != nil {
		ws.t.Fatal(err)
	}
	ws.write(name, string(old)+strings.ReplaceAll(text, "%RUN%", "touch "+ws.mark))
}

// git runs git in a directory of the workspace, as a user would.
func (ws *workspace) git(dir string, args ...string) {
	ws.t.Helper()
	if out, err := ws.try(dir, args...); err != nil {
		ws.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func (ws *workspace) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(ws.dir, dir)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(ws.mark), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_ALLOW_PROTOCOL=file")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runs runs git and reports whether it executed something.
func (ws *workspace) runs(dir string, args ...string) bool {
	ws.t.Helper()
	ws.try(dir, args...)
	_, err := os.Stat(ws.mark)
	os.Remove(ws.mark)
	return err == nil
}

// repo creates a repository with a commit.
func (ws *workspace) repo(dir string) {
	ws.t.Helper()
	ws.write(filepath.Join(dir, "file"), "text")
	ws.git(dir, "init", "-q")
	ws.git(dir, "add", "file")
	ws.git(dir, "commit", "-qm", "one")
}

// families are the ways in which git on the host executes something of a workspace. Real
// git executes it, and a scan finds the file that decides it.
var families = []struct {
	name    string
	base    func(ws *workspace) // creates the workspace
	plant   func(ws *workspace) // what a command in a box adds
	dir     string              // the directory in which the user works
	run     []string            // the user's git command
	found   string              // the place that the scan finds
	changes string              // the changes that are reported
}{
	{
		name: "gitlink with fsmonitor", base: func(ws *workspace) { ws.repo(".") },
		plant: func(ws *workspace) {
			ws.repo("vendor/lib")
			ws.append("vendor/lib/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			ws.git(".", "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", "160000,"+ws.head("vendor/lib")+",vendor/lib")
		},
		run: []string{"status"}, found: "vendor/lib/.git/config", changes: "vendor/lib/.git",
	},
	{
		name: "settings of a module", base: func(ws *workspace) { ws.repo("."); ws.submodule() },
		plant: func(ws *workspace) { ws.append(".git/modules/a/b/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: ".git/modules/a/b/config", changes: ".git/modules/a/b/config",
	},
	{
		name: "hooks of a module", base: func(ws *workspace) { ws.repo("."); ws.submodule() },
		plant: func(ws *workspace) { ws.write(".git/modules/a/b/hooks/post-checkout", "#!/bin/sh\n%RUN%\n") },
		dir:   "sub", run: []string{"checkout", "-q", "--detach"}, found: ".git/modules/a/b/hooks", changes: ".git/modules/a/b/hooks",
	},
	{
		name: "a directory of hooks that settings name", base: func(ws *workspace) {
			ws.repo(".")
			ws.write("tools/hooks/pre-commit", "#!/bin/sh\n")
			ws.git(".", "config", "core.hooksPath", "tools/hooks")
		},
		plant: func(ws *workspace) { ws.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", changes: "tools/hooks",
	},
	{
		name: "a directory of hooks that was not there", base: func(ws *workspace) { ws.repo("."); ws.git(".", "config", "core.hooksPath", "tools/hooks") },
		plant: func(ws *workspace) { ws.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", changes: "tools/hooks",
	},
	{
		name: "a hook that is a link", base: func(ws *workspace) {
			ws.repo(".")
			ws.write("scripts/check", "#!/bin/sh\n")
			ws.link(".git/hooks/pre-commit", "../../scripts/check")
		},
		plant: func(ws *workspace) { ws.write("scripts/check", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "scripts/check", changes: "scripts/check",
	},
	{
		name: "hooks by a link to a directory", base: func(ws *workspace) {
			ws.repo(".")
			ws.write("githooks/pre-commit", "#!/bin/sh\n")
			os.RemoveAll(filepath.Join(ws.dir, ".git/hooks"))
			ws.link(".git/hooks", "../githooks")
		},
		plant: func(ws *workspace) { ws.write("githooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "githooks", changes: "githooks",
	},
	{
		name: "hooks of a nested repository", base: func(ws *workspace) { ws.repo("."); ws.repo("pkg/inner") },
		plant: func(ws *workspace) { ws.write("pkg/inner/.git/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		dir:   "pkg/inner", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "pkg/inner/.git/hooks", changes: "pkg/inner/.git/hooks",
	},
	{
		name: "settings of a linked work tree", base: func(ws *workspace) {
			ws.repo(".")
			ws.git(".", "config", "extensions.worktreeConfig", "true")
			ws.git(".", "worktree", "add", "-q", "tree")
		},
		plant: func(ws *workspace) {
			ws.write(".git/worktrees/tree/config.worktree", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
		},
		dir: "tree", run: []string{"status"}, found: ".git/worktrees/tree/config.worktree", changes: ".git/worktrees/tree/config.worktree",
	},
	{
		name: "commondir", base: func(ws *workspace) { ws.repo(".") },
		plant: func(ws *workspace) {
			ws.repo("other")
			ws.append("other/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			ws.write(".git/commondir", "../other/.git\n")
		},
		run: []string{"status"}, found: "other/.git/config", changes: ".git/commondir other/.git",
	},
	{
		name: "a .git that is a file", base: func(ws *workspace) { ws.repo(".") },
		plant: func(ws *workspace) {
			ws.repo("made")
			ws.append("made/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n\tworktree = \""+ws.dir+"/sub\"\n")
			os.Rename(filepath.Join(ws.dir, "made/.git"), filepath.Join(ws.dir, "made/data"))
			ws.write("sub/.git", "gitdir: ../made/data\n")
		},
		dir: "sub", run: []string{"status"}, found: "made/data/config", changes: "made/data sub/.git",
	},
	{
		name: "a bare repository", base: func(ws *workspace) { ws.repo(".") },
		plant: func(ws *workspace) {
			ws.write("docs/HEAD", "ref: refs/heads/main\n")
			ws.write("docs/objects/x", "")
			ws.write("docs/refs/x", "")
			ws.write("docs/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n")
			ws.write("docs/hooks/pre-commit", "#!/bin/sh\n%RUN%\n")
		},
		dir: "docs", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "docs/config", changes: "docs",
	},
	{
		name: "settings that others include", base: func(ws *workspace) {
			ws.repo(".")
			ws.write("shared.cfg", "[user]\n\tname = me\n")
			ws.git(".", "config", "include.path", "../shared.cfg")
		},
		plant: func(ws *workspace) { ws.append("shared.cfg", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "shared.cfg", changes: "shared.cfg",
	},
	{
		name: "settings included on a condition, which include others", base: func(ws *workspace) {
			ws.repo(".")
			ws.git(".", "config", "includeIf.onbranch:**.path", ws.dir+"/cfg/one")
			ws.write("cfg/one", "[include]\n\tpath = sub/two # there\n")
		},
		plant: func(ws *workspace) { ws.write("cfg/sub/two", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "cfg/sub/two", changes: "cfg/sub/two",
	},
	{
		name: "the program of a filter", base: func(ws *workspace) {
			ws.repo(".")
			ws.write(".gitattributes", "* filter=x\n")
			ws.write("tools/clean", "#!/bin/sh\ncat\n")
			ws.git(".", "config", "filter.x.clean", "sh -e tools/clean")
		},
		plant: func(ws *workspace) { ws.write("tools/clean", "#!/bin/sh\n%RUN%\n"); ws.write("new", "text") },
		run:   []string{"add", "new"}, found: "tools/clean", changes: "tools/clean",
	},
	{
		name: "a rebase that goes on", base: func(ws *workspace) { ws.repo("."); ws.git(".", "commit", "-q", "--allow-empty", "-m", "two") },
		plant: func(ws *workspace) {
			ws.try(".", "-c", "sequence.editor=echo 'exec %RUN%' | cat >", "rebase", "-i", "HEAD~1")
			head := ws.head(".")
			for name, text := range map[string]string{"git-rebase-todo": "exec %RUN%\n", "head-name": "detached HEAD", "onto": head, "orig-head": head, "interactive": "", "end": "1", "msgnum": "1", "done": ""} {
				ws.write(".git/rebase-merge/"+name, text)
			}
		},
		run: []string{"rebase", "--continue"}, found: ".git/rebase-merge/git-rebase-todo", changes: ".git/rebase-merge/git-rebase-todo",
	},
}

func (ws *workspace) head(dir string) string {
	out, err := ws.try(dir, "rev-parse", "HEAD")
	if err != nil {
		ws.t.Fatal(out)
	}
	return strings.TrimSpace(out)
}

func (ws *workspace) link(name, target string) {
	ws.t.Helper()
	if err := os.Symlink(target, filepath.Join(ws.dir, name)); err != nil {
		ws.t.Fatal(err)
	}
}

// submodule adds a submodule with the name a/b in the directory sub.
func (ws *workspace) submodule() {
	ws.t.Helper()
	ws.repo("made")
	ws.git(".", "-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "a/b", "./made", "sub")
	ws.git(".", "commit", "-qm", "sub")
	if err := os.RemoveAll(filepath.Join(ws.dir, "made")); err != nil {
		ws.t.Fatal(err)
	}
}

func TestFindsWhatGitExecutes(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			ws := newWorkspace(t)
			f.base(ws)
			if ws.runs(f.dir, "status") {
				t.Fatal("git executes something before anything was planted")
			}
			known := NewBaseline(Scan(ws.dir))
			f.plant(ws)
			os.Remove(ws.mark)
			after := Scan(ws.dir)
			if !slices.ContainsFunc(after.Places, func(p Place) bool { return p.Path == f.found && (p.Kind == Plain || p.Kind == Todo) }) {
				t.Errorf("%s is not found: %+v", f.found, after.Places)
			}
			changes, blind := known.Changes(after)
			if got := strings.Join(changes, " "); got != f.changes || blind {
				t.Errorf("the changes are %q, blind %v; want %q", got, blind, f.changes)
			}
			if changes, _ := known.Changes(Scan(ws.dir)); changes != nil {
				t.Errorf("the same changes again: %q", changes)
			}
			if !ws.runs(f.dir, f.run...) {
				t.Errorf("git %q executes nothing: the test proves nothing", f.run)
			}
		})
	}
}

// A scan of a hostile workspace finds only paths in it.
func TestScanStaysInside(t *testing.T) {
	ws := newWorkspace(t)
	ws.repo(".")
	outside := newWorkspace(t)
	outside.repo(".")
	ws.append(".git/config", "[core]\n\thooksPath = "+outside.dir+"/.git/hooks\n\teditor = ~/bin/edit ../../etc/passwd sh /etc/passwd\n\tpager = ./round\n"+
		"[include]\n\tpath = ../../../../../../../../etc/passwd\n")
	ws.link("out", outside.dir)
	ws.link("etc", "/etc")
	ws.link(".git/hooks/pre-commit", "/etc/passwd")
	ws.link(".git/hooks/pre-push", "../../out/file")
	ws.link("round", "round")
	ws.write("a/.git", "gitdir: "+outside.dir+"/.git")
	ws.write("b/.git", "gitdir: ../out/.git")
	var got []string
	for _, p := range Scan(ws.dir).Places {
		got = append(got, p.Path)
	}
	if want := []string{".git", ".git/config", ".git/hooks", "a/.git", "b/.git", "out", "round"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A scan ends at its limits, and names what it did not see.
func TestScansAreBounded(t *testing.T) {
	ws := newWorkspace(t)
	for i := range 300 {
		ws.write(fmt.Sprintf("many/%d", i), "")
	}
	ws.write("deep/.git/config", "")
	if f := Scan(ws.dir); !f.Complete() || len(f.Places) != 2 {
		t.Errorf("%+v", f)
	}
	known := NewBaseline(scan(ws.dir, 400, time.Minute))
	ws.write("many/more/x", "")
	ws.write("many/x/.git/config", "")
	f := scan(ws.dir, 300, time.Minute)
	if f.Complete() || !slices.Contains(f.Unseen, "many") {
		t.Errorf("not scanned: %q", f.Unseen)
	}
	if _, blind := known.Changes(f); !blind {
		t.Error("an incomplete scan is not reported")
	}
	if _, blind := known.Changes(f); blind {
		t.Error("an incomplete scan is reported twice")
	}
	if f := scan(ws.dir, MaxEntries, 0); f.Complete() || len(f.Places) > 0 {
		t.Errorf("with no time: %+v", f)
	}
	dir := ws.dir
	for range 20 { // too long for a path of the system
		dir += "/" + strings.Repeat("d", 200)
		if err := os.Mkdir(dir, 0o755); err != nil {
			break
		}
	}
	if f := Scan(ws.dir); f.Complete() || len(f.Unseen[0]) > maxPath {
		t.Errorf("a path without end: %d not scanned", len(f.Unseen))
	}
}

// A named pipe in place of a file does not block a scan.
func TestScanIsNotBlockedByPipes(t *testing.T) {
	ws := newWorkspace(t)
	ws.repo(".")
	for _, name := range []string{".git/config.worktree", ".git/commondir", "x/.git", "docs/HEAD"} {
		os.MkdirAll(filepath.Dir(filepath.Join(ws.dir, name)), 0o755)
		if out, err := exec.Command("mkfifo", filepath.Join(ws.dir, name)).CombinedOutput(); err != nil {
			t.Skipf("mkfifo: %v %s", err, out)
		}
	}
	if f := Scan(ws.dir); !f.Complete() {
		t.Errorf("%+v", f)
	}
}

// BenchmarkScan scans a source tree of usual size.
func BenchmarkScan(b *testing.B) {
	for b.Loop() {
		Scan("../..")
	}
}

// The settings that doc/security.md recommends prevent the execution of what appears
// after a box has started.
func TestRecommendedSettingsPreventExecution(t *testing.T) {
	for setting, name := range map[string]string{
		"core.fsmonitor=false":          "gitlink with fsmonitor",
		"core.hooksPath=/dev/null":      "hooks of a nested repository",
		"safe.bareRepository=explicit":  "a bare repository",
		"status.submoduleSummary=false": "", // prevents nothing: the control
		"diff.ignoreSubmodules=all":     "gitlink with fsmonitor",
		"submodule.recurse=false":       "",
	} {
		t.Run(setting, func(t *testing.T) {
			for _, f := range families {
				if f.name != name && (name != "" || f.name != "gitlink with fsmonitor") {
					continue
				}
				ws := newWorkspace(t)
				f.base(ws)
				f.plant(ws)
				os.Remove(ws.mark)
				run := append([]string{"-c", setting}, f.run...)
				if ran := ws.runs(f.dir, run...); ran != (name == "") {
					t.Errorf("git %q: executed it: %v", run, ran)
				}
			}
		})
	}
}
