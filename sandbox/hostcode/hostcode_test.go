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

// A yard is a workspace in which git on this machine can be run. The file mark appears
// when git executes something of the workspace.
type yard struct {
	t         *testing.T
	dir, mark string
}

func newYard(t *testing.T) *yard {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &yard{t, dir, filepath.Join(t.TempDir(), "mark")}
}

// write writes a file of the yard, with %RUN% replaced by a command that makes the mark.
func (y *yard) write(name, text string) {
	y.t.Helper()
	file := filepath.Join(y.dir, name)
	text = strings.ReplaceAll(text, "%RUN%", "touch "+y.mark)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) append(name, text string) {
	y.t.Helper()
	old, err := os.ReadFile(filepath.Join(y.dir, name))
	if err != nil {
		y.t.Fatal(err)
	}
	y.write(name, string(old)+strings.ReplaceAll(text, "%RUN%", "touch "+y.mark))
}

// git runs git in a directory of the yard, as a user would.
func (y *yard) git(dir string, args ...string) {
	y.t.Helper()
	if out, err := y.try(dir, args...); err != nil {
		y.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func (y *yard) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(y.dir, dir)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(y.mark), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_ALLOW_PROTOCOL=file")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// runs runs git and reports whether it executed something.
func (y *yard) runs(dir string, args ...string) bool {
	y.t.Helper()
	y.try(dir, args...)
	_, err := os.Stat(y.mark)
	os.Remove(y.mark)
	return err == nil
}

// repo creates a repository with a commit.
func (y *yard) repo(dir string) {
	y.t.Helper()
	y.write(filepath.Join(dir, "file"), "text")
	y.git(dir, "init", "-q")
	y.git(dir, "add", "file")
	y.git(dir, "commit", "-qm", "one")
}

// families are the ways in which git on the host executes something of a workspace. Real
// git executes it, and a scan finds the file that decides it.
var families = []struct {
	name    string
	base    func(y *yard) // creates the workspace
	plant   func(y *yard) // what a command in a box adds
	dir     string        // the directory in which the user works
	run     []string      // the user's git command
	found   string        // the place that the scan finds
	changes string        // the changes that are reported
}{
	{
		name: "gitlink with fsmonitor", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("vendor/lib")
			y.append("vendor/lib/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			y.git(".", "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", "160000,"+y.head("vendor/lib")+",vendor/lib")
		},
		run: []string{"status"}, found: "vendor/lib/.git/config", changes: "vendor/lib/.git",
	},
	{
		name: "settings of a module", base: func(y *yard) { y.repo("."); y.submodule() },
		plant: func(y *yard) { y.append(".git/modules/a/b/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: ".git/modules/a/b/config", changes: ".git/modules/a/b/config",
	},
	{
		name: "hooks of a module", base: func(y *yard) { y.repo("."); y.submodule() },
		plant: func(y *yard) { y.write(".git/modules/a/b/hooks/post-checkout", "#!/bin/sh\n%RUN%\n") },
		dir:   "sub", run: []string{"checkout", "-q", "--detach"}, found: ".git/modules/a/b/hooks", changes: ".git/modules/a/b/hooks",
	},
	{
		name: "a directory of hooks that settings name", base: func(y *yard) {
			y.repo(".")
			y.write("tools/hooks/pre-commit", "#!/bin/sh\n")
			y.git(".", "config", "core.hooksPath", "tools/hooks")
		},
		plant: func(y *yard) { y.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", changes: "tools/hooks",
	},
	{
		name: "a directory of hooks that was not there", base: func(y *yard) { y.repo("."); y.git(".", "config", "core.hooksPath", "tools/hooks") },
		plant: func(y *yard) { y.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", changes: "tools/hooks",
	},
	{
		name: "a hook that is a link", base: func(y *yard) {
			y.repo(".")
			y.write("scripts/check", "#!/bin/sh\n")
			y.link(".git/hooks/pre-commit", "../../scripts/check")
		},
		plant: func(y *yard) { y.write("scripts/check", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "scripts/check", changes: "scripts/check",
	},
	{
		name: "hooks by a link to a directory", base: func(y *yard) {
			y.repo(".")
			y.write("githooks/pre-commit", "#!/bin/sh\n")
			os.RemoveAll(filepath.Join(y.dir, ".git/hooks"))
			y.link(".git/hooks", "../githooks")
		},
		plant: func(y *yard) { y.write("githooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "githooks", changes: "githooks",
	},
	{
		name: "hooks of a nested repository", base: func(y *yard) { y.repo("."); y.repo("pkg/inner") },
		plant: func(y *yard) { y.write("pkg/inner/.git/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		dir:   "pkg/inner", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "pkg/inner/.git/hooks", changes: "pkg/inner/.git/hooks",
	},
	{
		name: "settings of a linked work tree", base: func(y *yard) {
			y.repo(".")
			y.git(".", "config", "extensions.worktreeConfig", "true")
			y.git(".", "worktree", "add", "-q", "tree")
		},
		plant: func(y *yard) {
			y.write(".git/worktrees/tree/config.worktree", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
		},
		dir: "tree", run: []string{"status"}, found: ".git/worktrees/tree/config.worktree", changes: ".git/worktrees/tree/config.worktree",
	},
	{
		name: "commondir", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("other")
			y.append("other/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			y.write(".git/commondir", "../other/.git\n")
		},
		run: []string{"status"}, found: "other/.git/config", changes: ".git/commondir other/.git",
	},
	{
		name: "a .git that is a file", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("made")
			y.append("made/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n\tworktree = \""+y.dir+"/sub\"\n")
			os.Rename(filepath.Join(y.dir, "made/.git"), filepath.Join(y.dir, "made/data"))
			y.write("sub/.git", "gitdir: ../made/data\n")
		},
		dir: "sub", run: []string{"status"}, found: "made/data/config", changes: "made/data sub/.git",
	},
	{
		name: "a bare repository", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.write("docs/HEAD", "ref: refs/heads/main\n")
			y.write("docs/objects/x", "")
			y.write("docs/refs/x", "")
			y.write("docs/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n")
			y.write("docs/hooks/pre-commit", "#!/bin/sh\n%RUN%\n")
		},
		dir: "docs", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "docs/config", changes: "docs",
	},
	{
		name: "settings that others include", base: func(y *yard) {
			y.repo(".")
			y.write("shared.cfg", "[user]\n\tname = me\n")
			y.git(".", "config", "include.path", "../shared.cfg")
		},
		plant: func(y *yard) { y.append("shared.cfg", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "shared.cfg", changes: "shared.cfg",
	},
	{
		name: "settings included on a condition, which include others", base: func(y *yard) {
			y.repo(".")
			y.git(".", "config", "includeIf.onbranch:**.path", y.dir+"/cfg/one")
			y.write("cfg/one", "[include]\n\tpath = sub/two # there\n")
		},
		plant: func(y *yard) { y.write("cfg/sub/two", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "cfg/sub/two", changes: "cfg/sub/two",
	},
	{
		name: "the program of a filter", base: func(y *yard) {
			y.repo(".")
			y.write(".gitattributes", "* filter=x\n")
			y.write("tools/clean", "#!/bin/sh\ncat\n")
			y.git(".", "config", "filter.x.clean", "sh -e tools/clean")
		},
		plant: func(y *yard) { y.write("tools/clean", "#!/bin/sh\n%RUN%\n"); y.write("new", "text") },
		run:   []string{"add", "new"}, found: "tools/clean", changes: "tools/clean",
	},
	{
		name: "a rebase that goes on", base: func(y *yard) { y.repo("."); y.git(".", "commit", "-q", "--allow-empty", "-m", "two") },
		plant: func(y *yard) {
			y.try(".", "-c", "sequence.editor=echo 'exec %RUN%' | cat >", "rebase", "-i", "HEAD~1")
			head := y.head(".")
			for name, text := range map[string]string{"git-rebase-todo": "exec %RUN%\n", "head-name": "detached HEAD", "onto": head, "orig-head": head, "interactive": "", "end": "1", "msgnum": "1", "done": ""} {
				y.write(".git/rebase-merge/"+name, text)
			}
		},
		run: []string{"rebase", "--continue"}, found: ".git/rebase-merge/git-rebase-todo", changes: ".git/rebase-merge/git-rebase-todo",
	},
}

func (y *yard) head(dir string) string {
	out, err := y.try(dir, "rev-parse", "HEAD")
	if err != nil {
		y.t.Fatal(out)
	}
	return strings.TrimSpace(out)
}

func (y *yard) link(name, target string) {
	y.t.Helper()
	if err := os.Symlink(target, filepath.Join(y.dir, name)); err != nil {
		y.t.Fatal(err)
	}
}

// submodule adds a submodule with the name a/b in the directory sub.
func (y *yard) submodule() {
	y.t.Helper()
	y.repo("made")
	y.git(".", "-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "a/b", "./made", "sub")
	y.git(".", "commit", "-qm", "sub")
	if err := os.RemoveAll(filepath.Join(y.dir, "made")); err != nil {
		y.t.Fatal(err)
	}
}

func TestFindsWhatGitExecutes(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			y := newYard(t)
			f.base(y)
			if y.runs(f.dir, "status") {
				t.Fatal("git executes something before anything was planted")
			}
			known := NewBaseline(Scan(y.dir))
			f.plant(y)
			os.Remove(y.mark)
			after := Scan(y.dir)
			if !slices.ContainsFunc(after.Places, func(p Place) bool { return p.Path == f.found && (p.Kind == Plain || p.Kind == Todo) }) {
				t.Errorf("%s is not found: %+v", f.found, after.Places)
			}
			changes, blind := known.Changes(after)
			if got := strings.Join(changes, " "); got != f.changes || blind {
				t.Errorf("the changes are %q, blind %v; want %q", got, blind, f.changes)
			}
			if changes, _ := known.Changes(Scan(y.dir)); changes != nil {
				t.Errorf("the same changes again: %q", changes)
			}
			if !y.runs(f.dir, f.run...) {
				t.Errorf("git %q executes nothing: the test proves nothing", f.run)
			}
		})
	}
}

// A scan of a hostile workspace finds only paths in it.
func TestScanStaysInside(t *testing.T) {
	y := newYard(t)
	y.repo(".")
	outside := newYard(t)
	outside.repo(".")
	y.append(".git/config", "[core]\n\thooksPath = "+outside.dir+"/.git/hooks\n\teditor = ~/bin/edit ../../etc/passwd sh /etc/passwd\n\tpager = ./round\n"+
		"[include]\n\tpath = ../../../../../../../../etc/passwd\n")
	y.link("out", outside.dir)
	y.link("etc", "/etc")
	y.link(".git/hooks/pre-commit", "/etc/passwd")
	y.link(".git/hooks/pre-push", "../../out/file")
	y.link("round", "round")
	y.write("a/.git", "gitdir: "+outside.dir+"/.git")
	y.write("b/.git", "gitdir: ../out/.git")
	var got []string
	for _, p := range Scan(y.dir).Places {
		got = append(got, p.Path)
	}
	if want := []string{".git", ".git/config", ".git/hooks", "a/.git", "b/.git", "out", "round"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A scan ends at its limits, and names what it did not see.
func TestScansAreBounded(t *testing.T) {
	y := newYard(t)
	for i := range 300 {
		y.write(fmt.Sprintf("many/%d", i), "")
	}
	y.write("deep/.git/config", "")
	if f := Scan(y.dir); !f.Complete() || len(f.Places) != 2 {
		t.Errorf("%+v", f)
	}
	known := NewBaseline(scan(y.dir, 400, time.Minute))
	y.write("many/more/x", "")
	y.write("many/x/.git/config", "")
	f := scan(y.dir, 300, time.Minute)
	if f.Complete() || !slices.Contains(f.Unseen, "many") {
		t.Errorf("not scanned: %q", f.Unseen)
	}
	if _, blind := known.Changes(f); !blind {
		t.Error("an incomplete scan is not reported")
	}
	if _, blind := known.Changes(f); blind {
		t.Error("an incomplete scan is reported twice")
	}
	if f := scan(y.dir, MaxEntries, 0); f.Complete() || len(f.Places) > 0 {
		t.Errorf("with no time: %+v", f)
	}
	dir := y.dir
	for range 20 { // too long for a path of the system
		dir += "/" + strings.Repeat("d", 200)
		if err := os.Mkdir(dir, 0o755); err != nil {
			break
		}
	}
	if f := Scan(y.dir); f.Complete() || len(f.Unseen[0]) > maxPath {
		t.Errorf("a path without end: %d not scanned", len(f.Unseen))
	}
}

// A named pipe in place of a file does not block a scan.
func TestScanIsNotBlockedByPipes(t *testing.T) {
	y := newYard(t)
	y.repo(".")
	for _, name := range []string{".git/config.worktree", ".git/commondir", "x/.git", "docs/HEAD"} {
		os.MkdirAll(filepath.Dir(filepath.Join(y.dir, name)), 0o755)
		if out, err := exec.Command("mkfifo", filepath.Join(y.dir, name)).CombinedOutput(); err != nil {
			t.Skipf("mkfifo: %v %s", err, out)
		}
	}
	if f := Scan(y.dir); !f.Complete() {
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
				y := newYard(t)
				f.base(y)
				f.plant(y)
				os.Remove(y.mark)
				run := append([]string{"-c", setting}, f.run...)
				if ran := y.runs(f.dir, run...); ran != (name == "") {
					t.Errorf("git %q: executed it: %v", run, ran)
				}
			}
		})
	}
}
