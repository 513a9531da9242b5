package docker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
)

// makeFiles creates files with their names as contents, and empty directories, whose
// names end with a slash, all owned by the box's user.
func makeFiles(t *testing.T, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, name)
		parent := filepath.Dir(file)
		if strings.HasSuffix(name, "/") {
			parent = file
		}
		err := os.MkdirAll(parent, 0o755)
		if err == nil && parent != file {
			err = os.WriteFile(file, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	giveToUser(t, dir)
	return dir
}

func giveToUser(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return // we own it, and so will the box's user
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, 1000, 1000))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCovers(t *testing.T) {
	dir := makeFiles(t, ".git/config", ".git/hooks/pre-commit", "a/b/c/d", "a/b/x", ".idea/", "tree/.git", "z")
	for link, target := range map[string]string{".vscode": "/etc", ".claude": ".idea", "linked": "a", "a/link": "/"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, protect string
		want          []cover
	}{
		{"nothing", "", nil},
		{"what is not there", ".envrc .git/absent/x a/b/c/d/e/f", []cover{{"a", false}, {"a/b", false}, {"a/b/c", false}, {"a/b/c/d", true}}},
		{"parents", ".git/config .git/hooks", []cover{{".git", false}, {".git/config", true}, {".git/hooks", true}}},
		{"a directory and a file", ".idea z", []cover{{".idea", true}, {"z", true}}},
		{"one within another", "a/b/c/d a/b", []cover{{"a", false}, {"a/b", true}}},
		{"links", ".vscode .vscode/x .claude linked/b/x a/link a/link/etc", nil},
		{"the .git of a work tree", "tree/.git/hooks", []cover{{"tree", false}, {"tree/.git", true}}},
		{"out of it", "../z a/../../z", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _, err := covers(dir, strings.Fields(c.protect))
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

var protect = []string{".git/hooks", ".git/config", ".vscode", ".envrc", "deep/er/settings", ".idea"}

// attacks try to change a protected file, or to replace it.
var attacks = []string{
	`echo evil >.git/hooks/pre-commit`, `echo evil >.git/hooks/new`, `echo evil >.git/config`, `echo evil >>.envrc`, `touch .vscode/tasks.json`,
	`mv .git x && mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit`,
	`mv .git/hooks .git/x && mkdir .git/hooks && echo evil >.git/hooks/pre-commit`,
	`mv .git/config .git/x; ln -sf /tmp/evil .git/config`,
	`mv deep x && mkdir -p deep/er && echo evil >deep/er/settings`,
	`mv deep/er deep/x && mkdir deep/er && echo evil >deep/er/settings`,
	`mv .vscode x; mv -T evil .vscode; rmdir .vscode; ln -sfn /tmp .vscode`,
	`ln .envrc hard && echo evil >hard`, `chmod 777 .envrc; truncate -s 0 .envrc`, `cp evil .envrc`, `sed -i s/x/evil/ .git/config`,
	`git config core.hooksPath /workspace/evil`,
	`python3 -c 'import ctypes; l = ctypes.CDLL(None); l.renameat2(-100, b"evil", -100, b".git", 2); l.renameat2(-100, b"evil", -100, b"deep", 2)'`,
	`cd /proc/self/cwd/.git/hooks && echo evil >pre-commit`, `cd /proc/1/root/workspace && echo evil >.envrc`,
	`umount .git/config; mount -o remount,rw .git/config`,
	`rm -rf .git .vscode .envrc deep`,
}

func TestProtectedFilesStay(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	dir, b := attacked(t, l, protect)
	for name, text := range contents(t, dir) {
		if name != text && covered(name) {
			t.Errorf("%s is %q now", name, text)
		}
	}
	for _, name := range settings {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".idea")); err == nil {
		t.Error("what was not there has been made on the host")
	}
	// Commands can change all other files.
	out, code := sh(t, b, greet(t, b), `set -e; echo more >>code.go; echo x >.git/index; rm .git/index; echo x >deep/er/new; mv deep/er/new deep/new; cat .envrc`)
	if code != 0 || out != ".envrc" {
		t.Errorf("%q, exit %d", out, code)
	}
}

// Without protection the same attacks change everything.
func TestAttacksWorkWithoutProtection(t *testing.T) {
	dir, _ := attacked(t, newLauncher(t, Config{Transport: socketTransport}), nil)
	left := contents(t, dir)
	for _, name := range settings {
		if left[name] == name {
			t.Errorf("%s is as it was", name)
		}
	}
}

// settings are the protected files of the attacked workspace.
var settings = []string{".git/config", ".git/hooks/pre-commit", ".vscode/settings.json", ".envrc", "deep/er/settings"}

func covered(name string) bool {
	return slices.ContainsFunc(protect, func(p string) bool { return below(name, p) })
}

// attacked returns a workspace after all attacks, and a new box with it.
func attacked(t *testing.T, l *Launcher, protect []string) (dir string, after *box) {
	t.Helper()
	dir = makeFiles(t, append([]string{".git/HEAD", "deep/er/other", "code.go", "evil/"}, settings...)...)
	b := launch(t, l, sandbox.Spec{Workspace: dir, Protect: protect})
	r := greet(t, b)
	for _, a := range attacks {
		sh(t, b, r, a)
	}
	b.Close()
	return dir, launch(t, l, sandbox.Spec{Workspace: dir, Protect: protect})
}

// contents reads the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			files[filepath.ToSlash(name)] = string(text)
		}
		return nil
	})
	return files
}

// Common work with a repository succeeds beside protected files.
func TestGitWorksBesideProtectedFiles(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	dir := makeFiles(t, "README")
	first := launch(t, l, sandbox.Spec{Workspace: dir})
	if out, code := sh(t, first, greet(t, first), `git init -q . && git add . && git commit -qm one && echo '#!/bin/sh' >.git/hooks/pre-commit`); code != 0 {
		t.Fatal(out)
	}
	first.Close()
	b := launch(t, l, sandbox.Spec{Workspace: dir, Protect: protect})
	r := greet(t, b)
	for _, cmd := range []string{
		`git status --short`, `echo x >x && git add x && git commit -qm two`, `git switch -qc other && git switch -q main`, `git merge -q other`,
		`echo y >x && git stash -q && git stash pop -q && git commit -qam three`, `git rebase -q HEAD~1`, `git tag v1 && git gc -q`, `git clone -q . /tmp/c`,
		`git worktree add -q /tmp/w && git worktree remove /tmp/w`, `git reset -q --hard HEAD~1`, `git log --oneline`, `git diff HEAD~1`,
	} {
		if out, code := sh(t, b, r, cmd); code != 0 {
			t.Errorf("%s: exit %d: %s", cmd, code, out)
		}
	}
}

// Another box with the same workspace replaces the place of a cover by a symbolic
// link. The engine follows it, and the launch must fail.
func TestLinkInPlaceOfACoverIsRefused(t *testing.T) {
	l := newLauncher(t, Config{})
	if e := requireEngine(t); !strings.HasPrefix(e.endpoint.Host, "unix://") {
		t.Skip("nothing is covered on this engine")
	}
	dir, host := makeFiles(t, ".git/config"), makeFiles(t, "config")
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.plan(t.Context(), e, "raced", sandbox.Spec{Workspace: dir, Protect: protect})
	if err != nil || len(p.request.Covers) != 2 {
		t.Fatal(p, err)
	}
	if err := errors.Join(os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "x")), os.Symlink(host, filepath.Join(dir, ".git"))); err != nil {
		t.Fatal(err)
	}
	_, err = l.start(t.Context(), e, p, socketTransport)
	if !errors.Is(err, errMoved) {
		t.Errorf("got %v", err)
	}
}

func TestMisplaced(t *testing.T) {
	const head = "22 27 0:21 / /proc rw - proc proc rw\n30 27 8:1 /home/me/my\\040dir /workspace rw - ext4 /dev/sda1 rw\n"
	for _, c := range []struct{ name, line, want string }{
		{"in its place", `31 30 8:1 /home/me/my\040dir/.git /workspace/.git rw - ext4 /dev/sda1 rw`, ""},
		{"the last one counts", "31 30 8:1 /home/me/my\\040dir/.git /workspace/.git rw - ext4\n32 31 8:1 /etc /workspace/.git rw - ext4", ".git"},
		{"elsewhere", `31 30 8:1 /etc /workspace/.git rw - ext4 /dev/sda1 rw`, ".git"},
		{"another device", `31 30 8:2 /home/me/my\040dir/.git /workspace/.git rw - ext4 /dev/sdb1 rw`, ".git"},
		{"deleted", `31 30 8:1 /home/me/my\040dir/.git//deleted /workspace/.git rw - ext4 /dev/sda1 rw`, ".git"},
		{"not there", ``, ".git"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := misplaced(parseMounts(head+c.line), []cover{{".git", false}}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRelayNotesThatNothingIsProtected(t *testing.T) {
	l := newLauncher(t, Config{Transport: relayTransport})
	b := launch(t, l, sandbox.Spec{Workspace: makeFiles(t, ".envrc"), Protect: protect})
	if !slices.Contains(b.Place().Notes, noteUnprotected) {
		t.Errorf("notes %q", b.Place().Notes)
	}
}

func TestUnwritableWorkspaceIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to own a directory as root")
	}
	l := newLauncher(t, Config{})
	dir := t.TempDir()
	_, err := l.Launch(t.Context(), "root", sandbox.Spec{Workspace: dir})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.InvalidArgument || !strings.Contains(e.Hint, `"ro"`) || !strings.Contains(e.Hint, "user =") {
		t.Errorf("got %v", err)
	}
	for _, spec := range []sandbox.Spec{{ReadOnly: true}, {User: "0:0"}} {
		spec.Workspace = dir
		launch(t, l, spec).Close()
	}
}

// A protected name that is a symbolic link cannot be covered, and is noted. Its
// target is covered, and so are the targets of links in a protected directory.
func TestTargetsOfProtectedLinksStay(t *testing.T) {
	files := []string{"real.json", "vs/tasks.json", "env.sh", "claude.json", "hooks/run", "a/b/settings", "spared"}
	dir := makeFiles(t, append(files, ".claude/x", "other")...)
	for link, target := range map[string]string{
		".mcp.json": "real.json", ".vscode": "vs", ".envrc": "second", "second": dir + "/env.sh", ".claude/settings.json": "../claude.json",
		".claude/hooks": "../hooks", ".claude/all": "..", ".claude/near": "far", ".claude/far": "../claude.json", "deep": "a", ".idea": "/etc", ".profile": "absent", ".zshrc": "spared",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	giveToUser(t, dir)
	list := []string{".mcp.json", ".vscode", ".envrc", ".claude", "deep/b/settings", ".idea", ".profile", ".zshrc", "!spared"}
	b := launch(t, newLauncher(t, Config{Transport: socketTransport}), sandbox.Spec{Workspace: dir, Protect: list})
	out, code := sh(t, b, greet(t, b), `for f in `+strings.Join(files, " ")+`; do (echo evil >$f; rm -f $f; mv ${f%/*} moved) 2>/dev/null; done; echo evil >other; ls`)
	if code != 0 {
		t.Error(out)
	}
	for _, name := range files {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		if (string(text) == name) == (name == "spared") {
			t.Errorf("%s is %q now", name, text)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "other")); string(text) != "evil\n" {
		t.Errorf("what nothing leads to is %q", text)
	}
	notes := strings.Join(b.Place().Notes, "\n")
	if want := "Commands can change .envrc, .idea, .mcp.json, .profile, .vscode and "; !strings.Contains(notes, want) || strings.Contains(notes, ".claude") {
		t.Errorf("the notes lack %q: %s", want, notes)
	}
}
