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

// A yard is a workspace with what git on this machine would run if it were asked
// there. The file mark appears when it runs anything.
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

// write writes a file of the yard, where a program stands as %RUN%.
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

// runs reports whether git ran what it found.
func (y *yard) runs(dir string, args ...string) bool {
	y.t.Helper()
	y.try(dir, args...)
	_, err := os.Stat(y.mark)
	os.Remove(y.mark)
	return err == nil
}

// repo makes a repository with a commit.
func (y *yard) repo(dir string) {
	y.t.Helper()
	y.write(filepath.Join(dir, "file"), "text")
	y.git(dir, "init", "-q")
	y.git(dir, "add", "file")
	y.git(dir, "commit", "-qm", "one")
}

// Each family of ways by which git on the host comes to run what a workspace says:
// real git runs it, and a look finds what decides that.
var families = []struct {
	name  string
	base  func(y *yard) // what is there before
	plant func(y *yard) // what a command adds
	dir   string        // where somebody works
	run   []string      // what they do
	found string        // where git takes it from, which the look finds
	news  string        // what is told of it
}{
	{
		name: "gitlink with fsmonitor", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("vendor/lib")
			y.append("vendor/lib/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			y.git(".", "-c", "core.fsmonitor=false", "update-index", "--add", "--cacheinfo", "160000,"+y.head("vendor/lib")+",vendor/lib")
		},
		run: []string{"status"}, found: "vendor/lib/.git/config", news: "vendor/lib/.git",
	},
	{
		name: "settings of a module", base: func(y *yard) { y.repo("."); y.submodule() },
		plant: func(y *yard) { y.append(".git/modules/a/b/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: ".git/modules/a/b/config", news: ".git/modules/a/b/config",
	},
	{
		name: "hooks of a module", base: func(y *yard) { y.repo("."); y.submodule() },
		plant: func(y *yard) { y.write(".git/modules/a/b/hooks/post-checkout", "#!/bin/sh\n%RUN%\n") },
		dir:   "sub", run: []string{"checkout", "-q", "--detach"}, found: ".git/modules/a/b/hooks", news: ".git/modules/a/b/hooks",
	},
	{
		name: "a directory of hooks that settings name", base: func(y *yard) {
			y.repo(".")
			y.write("tools/hooks/pre-commit", "#!/bin/sh\n")
			y.git(".", "config", "core.hooksPath", "tools/hooks")
		},
		plant: func(y *yard) { y.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", news: "tools/hooks",
	},
	{
		name: "a directory of hooks that was not there", base: func(y *yard) { y.repo("."); y.git(".", "config", "core.hooksPath", "tools/hooks") },
		plant: func(y *yard) { y.write("tools/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "tools/hooks", news: "tools/hooks",
	},
	{
		name: "a hook that is a link", base: func(y *yard) {
			y.repo(".")
			y.write("scripts/check", "#!/bin/sh\n")
			y.link(".git/hooks/pre-commit", "../../scripts/check")
		},
		plant: func(y *yard) { y.write("scripts/check", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "scripts/check", news: "scripts/check",
	},
	{
		name: "hooks by a link to a directory", base: func(y *yard) {
			y.repo(".")
			y.write("githooks/pre-commit", "#!/bin/sh\n")
			os.RemoveAll(filepath.Join(y.dir, ".git/hooks"))
			y.link(".git/hooks", "../githooks")
		},
		plant: func(y *yard) { y.write("githooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		run:   []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "githooks", news: "githooks",
	},
	{
		name: "hooks of a nested repository", base: func(y *yard) { y.repo("."); y.repo("pkg/inner") },
		plant: func(y *yard) { y.write("pkg/inner/.git/hooks/pre-commit", "#!/bin/sh\n%RUN%\n") },
		dir:   "pkg/inner", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "pkg/inner/.git/hooks", news: "pkg/inner/.git/hooks",
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
		dir: "tree", run: []string{"status"}, found: ".git/worktrees/tree/config.worktree", news: ".git/worktrees/tree/config.worktree",
	},
	{
		name: "commondir", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("other")
			y.append("other/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n")
			y.write(".git/commondir", "../other/.git\n")
		},
		run: []string{"status"}, found: "other/.git/config", news: ".git/commondir other/.git",
	},
	{
		name: "a .git that is a file", base: func(y *yard) { y.repo(".") },
		plant: func(y *yard) {
			y.repo("made")
			y.append("made/.git/config", "[core]\n\tfsmonitor = \"%RUN%; false\"\n\tworktree = \""+y.dir+"/sub\"\n")
			os.Rename(filepath.Join(y.dir, "made/.git"), filepath.Join(y.dir, "made/data"))
			y.write("sub/.git", "gitdir: ../made/data\n")
		},
		dir: "sub", run: []string{"status"}, found: "made/data/config", news: "made/data sub/.git",
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
		dir: "docs", run: []string{"commit", "-q", "--allow-empty", "-m", "x"}, found: "docs/config", news: "docs",
	},
	{
		name: "settings that others include", base: func(y *yard) {
			y.repo(".")
			y.write("shared.cfg", "[user]\n\tname = me\n")
			y.git(".", "config", "include.path", "../shared.cfg")
		},
		plant: func(y *yard) { y.append("shared.cfg", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "shared.cfg", news: "shared.cfg",
	},
	{
		name: "settings included on a condition, which include others", base: func(y *yard) {
			y.repo(".")
			y.git(".", "config", "includeIf.onbranch:**.path", y.dir+"/cfg/one")
			y.write("cfg/one", "[include]\n\tpath = sub/two # there\n")
		},
		plant: func(y *yard) { y.write("cfg/sub/two", "[core]\n\tfsmonitor = \"%RUN%; false\"\n") },
		run:   []string{"status"}, found: "cfg/sub/two", news: "cfg/sub/two",
	},
	{
		name: "the program of a filter", base: func(y *yard) {
			y.repo(".")
			y.write(".gitattributes", "* filter=x\n")
			y.write("tools/clean", "#!/bin/sh\ncat\n")
			y.git(".", "config", "filter.x.clean", "sh -e tools/clean")
		},
		plant: func(y *yard) { y.write("tools/clean", "#!/bin/sh\n%RUN%\n"); y.write("new", "text") },
		run:   []string{"add", "new"}, found: "tools/clean", news: "tools/clean",
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
		run: []string{"rebase", "--continue"}, found: ".git/rebase-merge/git-rebase-todo", news: ".git/rebase-merge/git-rebase-todo",
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

// submodule adds one that is called a/b and lies in sub.
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
				t.Fatal("git runs something before anything was planted")
			}
			known := Learn(Look(y.dir))
			f.plant(y)
			os.Remove(y.mark)
			after := Look(y.dir)
			if !slices.ContainsFunc(after.Places, func(p Place) bool { return p.Path == f.found && (p.Kind == Plain || p.Kind == Todo) }) {
				t.Errorf("%s is not found: %+v", f.found, after.Places)
			}
			news, blind := known.News(after)
			if got := strings.Join(news, " "); got != f.news || blind {
				t.Errorf("the news are %q, blind %v; want %q", got, blind, f.news)
			}
			if news, _ := known.News(Look(y.dir)); news != nil {
				t.Errorf("the same news again: %q", news)
			}
			if !y.runs(f.dir, f.run...) {
				t.Errorf("git %q runs nothing: the test shows nothing", f.run)
			}
		})
	}
}

// What a look finds of a hostile workspace lies in it.
func TestLookStaysInside(t *testing.T) {
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
	for _, p := range Look(y.dir).Places {
		got = append(got, p.Path)
	}
	if want := []string{".git", ".git/config", ".git/hooks", "a/.git", "b/.git", "out", "round"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// A look ends where a stranger would have it go on, and says what it left out.
func TestLooksAreBounded(t *testing.T) {
	y := newYard(t)
	for i := range 300 {
		y.write(fmt.Sprintf("many/%d", i), "")
	}
	y.write("deep/.git/config", "")
	if f := Look(y.dir); !f.Complete() || len(f.Places) != 2 {
		t.Errorf("%+v", f)
	}
	known := Learn(look(y.dir, 400, time.Minute))
	y.write("many/more/x", "")
	y.write("many/x/.git/config", "")
	f := look(y.dir, 300, time.Minute)
	if f.Complete() || !slices.Contains(f.Unseen, "many") {
		t.Errorf("not looked at: %q", f.Unseen)
	}
	if _, blind := known.News(f); !blind {
		t.Error("nobody is told that not all was looked at")
	}
	if _, blind := known.News(f); blind {
		t.Error("it is told twice")
	}
	if f := look(y.dir, MaxEntries, 0); f.Complete() || len(f.Places) > 0 {
		t.Errorf("in no time: %+v", f)
	}
	dir := y.dir
	for range 20 { // too long for a path of the system's
		dir += "/" + strings.Repeat("d", 200)
		if err := os.Mkdir(dir, 0o755); err != nil {
			break
		}
	}
	if f := Look(y.dir); f.Complete() || len(f.Unseen[0]) > maxPath {
		t.Errorf("a path that never ends: %d not looked at", len(f.Unseen))
	}
}

// What stands in the place of a file holds no look up.
func TestLookMeetsPipes(t *testing.T) {
	y := newYard(t)
	y.repo(".")
	for _, name := range []string{".git/config.worktree", ".git/commondir", "x/.git", "docs/HEAD"} {
		os.MkdirAll(filepath.Dir(filepath.Join(y.dir, name)), 0o755)
		if out, err := exec.Command("mkfifo", filepath.Join(y.dir, name)).CombinedOutput(); err != nil {
			t.Skipf("mkfifo: %v %s", err, out)
		}
	}
	if f := Look(y.dir); !f.Complete() {
		t.Errorf("%+v", f)
	}
}

// The reader of settings agrees with git's.
func TestParseReadsAsGitDoes(t *testing.T) {
	y := newYard(t)
	for _, text := range []string{
		"[core]\n\thooksPath = a b  # c\n", "[core] hooksPath=x\n[Core]\nHOOKSPATH = y", "[core]\nhooksPath = \"a # b\" ; c\n", "[core]\nhooksPath = a\\\nb\n",
		"[core]\r\nhooksPath = a\r\n", "[core]\nhooksPath = \"a\\tb\\\\c\\\"\"d\n", "[core]\nhooksPath\n", "[core]\nhooksPath = \n", "[core]\nhooksPath = \"  x  \"  \n",
		"[alias \"A.b\"]\nx = y\n", "[alias.Old]\nx = y\n", "[alias \"a\\\"]b\"]\nx = y\n", "; c\n# [core]\n[core]\n# x = y\nx = a;b\n", "[core]\nx = a \\\n  b # c \\\nd = e\n",
		"\xef\xbb\xbf[core]\nx = y\n", "[core]x=y\n[a]\n\tb = c d  \n", "[includeIf \"gitdir:~/x/\"]\n path = a\n",
	} {
		file := filepath.Join(y.dir, "settings")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--list")
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("git does not read %q: %v", text, err)
		}
		var got strings.Builder
		for _, x := range parse(text) {
			key := x.section + "." + x.name
			if x.sub != "" {
				key = x.section + "." + x.sub + "." + x.name
			}
			fmt.Fprintf(&got, "%s\n%s\x00", key, x.value)
		}
		// A name without a value git lists without a line's end.
		if want := strings.ReplaceAll(string(out), "hookspath\x00", "hookspath\n\x00"); got.String() != want {
			t.Errorf("%q: read %q, git reads %q", text, got.String(), want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[core]\nhooksPath = \"a\\\nb\" # c\n[a \"b\\")
	f.Add("[\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, x := range parse(text) {
			if len(x.value) > len(text) || x.name == "" {
				t.Errorf("%+v", x)
			}
		}
	})
}

// BenchmarkLook looks through a source tree of usual size.
func BenchmarkLook(b *testing.B) {
	for b.Loop() {
		Look("../..")
	}
}

// The settings that doc/security.md recommends help against what appears after a box
// has started.
func TestSettingsThatHelp(t *testing.T) {
	for setting, name := range map[string]string{
		"core.fsmonitor=false":          "gitlink with fsmonitor",
		"core.hooksPath=/dev/null":      "hooks of a nested repository",
		"safe.bareRepository=explicit":  "a bare repository",
		"status.submoduleSummary=false": "", // helps against nothing, and is the control
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
					t.Errorf("git %q: ran it: %v", run, ran)
				}
			}
		})
	}
}
