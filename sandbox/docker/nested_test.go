package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/hostcode"
)

// envrc are protected paths that are not of git.
var envrc = []string{".envrc"}

// nestedRepositories returns a workspace with repositories that take what they
// execute from many places in it, created by the box's user.
func nestedRepositories(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir = t.TempDir()
	script := `set -e
g() { git -c protocol.file.allow=always -c user.name=a -c user.email=a@b -c init.defaultBranch=main "$@"; }
new() { mkdir -p "$1"; (cd "$1"; g init -q .; echo x >file; g add file; g commit -qm one); }
new .; new made; new pkg/inner; g clone -q --bare made bare.git
g submodule add -q --name a/b ./made sub; rm -rf made; g commit -qm sub
g config extensions.worktreeConfig true; g worktree add -q tree; : >.git/worktrees/tree/config.worktree
mkdir -p tools/hooks scripts; printf '#!/bin/sh\n' | tee tools/hooks/pre-commit scripts/push tools/clean >/dev/null; chmod +x tools/hooks/* tools/clean scripts/*
g config core.hooksPath tools/hooks; ln -s ../../scripts/push tools/hooks/pre-push
printf '[user]\n\tname = x\n' >shared.cfg; g config include.path ../shared.cfg
g config filter.x.clean "sh tools/clean"; printf '*.dat filter=x\n' >.gitattributes
g update-index --add --cacheinfo 160000,$(cd pkg/inner; git rev-parse HEAD),pkg/inner`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	giveToUser(t, dir)
	return dir
}

// nestedAttacks try to have git on the host execute something, each in a family of
// ways. What they write has "evil" in it.
var nestedAttacks = []string{
	`git -C pkg/inner config core.fsmonitor "touch evil"`, `echo '[core] fsmonitor = "touch evil"' >>pkg/inner/.git/config`,
	`echo '[core] fsmonitor = "touch evil"' >>.git/modules/a/b/config`, `echo evil >.git/modules/a/b/hooks/post-checkout`,
	`mv .git/modules/a .git/modules/c && cp -r .git/modules/c .git/modules/a && echo '[core] x = evil' >>.git/modules/a/b/config`,
	`echo '[core] x = evil' >.git/worktrees/tree/config.worktree`, `echo evil >.git/worktrees/tree/commondir`, `echo '[core] x = evil' >.git/config.worktree`,
	`echo evil >tools/hooks/pre-commit`, `echo evil >tools/hooks/post-commit`, `mv tools/hooks tools/old; mkdir tools/hooks && echo evil >tools/hooks/pre-commit`,
	`mv tools old && mkdir -p tools/hooks && echo evil >tools/hooks/pre-commit`,
	`echo evil >scripts/push`, `rm scripts/push; echo evil >scripts/push`, `mv scripts x && mkdir scripts && echo evil >scripts/push`,
	`echo '[core] x = evil' >>shared.cfg`, `echo evil >tools/clean`, `echo '[core] x = evil' >>bare.git/config`, `echo evil >bare.git/hooks/update`,
	`echo evil >pkg/inner/.git/hooks/pre-commit`, `mv pkg/inner/.git pkg/inner/x && git init -q pkg/inner && git -C pkg/inner config core.fsmonitor evil`,
	`echo 'gitdir: /workspace/evil' >sub/.git`, `echo 'gitdir: evil' >tree/.git`, `rm sub/.git; echo 'gitdir: evil' >sub/.git`,
	`rm -rf sub; rm -rf tools scripts`,
}

// executed are the files from which git on the host takes what it executes.
func executed(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, p := range hostcode.Scan(dir).Places {
		path := filepath.Join(dir, p.Path)
		if info, err := os.Lstat(path); err == nil && info.IsDir() && p.Kind != hostcode.Repo {
			for name, text := range contents(t, path) {
				files[p.Path+"/"+name] = text
			}
		} else if err == nil && info.Mode().IsRegular() {
			text, _ := os.ReadFile(path)
			files[p.Path] = string(text)
		}
	}
	return files
}

func TestCodeOfNestedRepositoriesStays(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	dir := nestedRepositories(t)
	before := executed(t, dir)
	for _, name := range []string{
		".git/config", ".git/modules/a/b/config", ".git/modules/a/b/hooks/update.sample", ".git/worktrees/tree/config.worktree", "tools/hooks/pre-commit",
		"scripts/push", "shared.cfg", "tools/clean", "bare.git/config", "pkg/inner/.git/config", "pkg/inner/.git/hooks/update.sample", "sub/.git", "tree/.git",
	} {
		if _, found := before[name]; !found {
			t.Errorf("%s is not found", name)
		}
	}
	b := launch(t, l, sandbox.Spec{Workspace: dir, Protect: envrc})
	r := greet(t, b)
	for _, a := range nestedAttacks {
		sh(t, b, r, a)
	}
	after := executed(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was %.100q, and is %.100q", name, text, after[name])
		}
	}
	// A path that did not exist could not be covered, and is reported.
	if !slices.Contains(newPlaces(b, dir), ".git/config.worktree") {
		t.Errorf("told of %q", newPlaces(b, dir))
	}
	// Commands can change all other files.
	out, code := sh(t, b, r, `set -e; echo y >>file; git add file; git -c core.hooksPath=/dev/null commit -qm two; cd pkg/inner; echo y >>file; git commit -qam two; git status --short; cat file`)
	if code != 0 || out != "x\ny\n" {
		t.Errorf("%q, exit %d", out, code)
	}
	// Git on the host runs nothing of it.
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := exec.Command("git", "-c", "safe.directory=*", "status")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+filepath.Dir(mark), "GIT_TRACE="+mark)
	os.Remove(filepath.Join(dir, ".git/config.worktree"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("git status: %v\n%s", err, out)
	}
	if text, _ := os.ReadFile(mark); strings.Contains(string(text), "evil") {
		t.Errorf("git on the host ran what commands had written:\n%s", text)
	}
}

// newPlaces returns the paths that a scan finds beyond those at the start of the box.
func newPlaces(b *box, dir string) []string {
	paths, _ := hostcode.NewBaseline(*b.place.Found).Changes(hostcode.Scan(dir))
	return paths
}

// Without covers the same attacks change everything.
func TestNestedAttacksWorkWithoutProtection(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	dir := nestedRepositories(t)
	before := executed(t, dir)
	b := launch(t, l, sandbox.Spec{Workspace: dir})
	r := greet(t, b)
	for _, a := range nestedAttacks[:len(nestedAttacks)-1] {
		sh(t, b, r, a)
	}
	after := executed(t, dir)
	for _, name := range []string{".git/modules/a/b/config", ".git/worktrees/tree/config.worktree", "tools/hooks/pre-commit", "scripts/push", "shared.cfg", "tools/clean", "bare.git/config", "sub/.git", "tree/.git"} {
		if after[name] == before[name] {
			t.Errorf("%s is as it was", name)
		}
	}
}

func TestUncoveredPathsAreNoted(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("n%02d/.git/config", i))
	}
	dir := makeFiles(t, append(names, ".git/config", "bad\xff/.git/config", "spared/.git/config")...)
	if err := os.Symlink("n00/.git", filepath.Join(dir, "zz")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../n00/.git", filepath.Join(dir, "y/.git")); err != nil {
		t.Fatal(err)
	}
	l := newLauncher(t, Config{Transport: socketTransport})
	b := launch(t, l, sandbox.Spec{Workspace: dir, Protect: []string{".envrc", "!spared"}})
	r := greet(t, b)
	if n := len(b.covers); n > maxCovers || n < maxCovers-3 {
		t.Errorf("%d covers", n)
	}
	if out, code := sh(t, b, r, `(echo x >.git/config) 2>/dev/null || (echo x >n05/.git/config) 2>/dev/null || echo x >spared/.git/config`); code != 0 {
		t.Errorf("%q, exit %d", out, code)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "spared/.git/config")); string(text) != "x\n" {
		t.Errorf("what is left out of protect is %q", text)
	}
	notes := strings.Join(b.Place().Notes, "\n")
	for _, want := range []string{`"bad\xff/.git/config"`, "y/.git", "more, from which programs", "200 mounts"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes lack %q: %s", want, notes)
		}
	}
}

// A path that is deleted between the scan and the mount does not keep a box from
// starting.
func TestDeletedCoverDoesNotStopTheLaunch(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	dir := makeFiles(t, "a/.git/config", "b/.git/config")
	e, err := l.connector.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{Workspace: dir, Protect: envrc}
	p, err := l.plan(t.Context(), e, "gone", spec)
	if err != nil || len(p.request.Covers) != 6 {
		t.Fatal(p, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	b, err := l.startCovered(t.Context(), e, p, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if want := []string{"a", "a/.git", "a/.git/config"}; !slices.Equal(b.place.Covered, want) {
		t.Errorf("covered %q, want %q", b.place.Covered, want)
	}
}

// In a work tree whose repository lies elsewhere start notes that git does not work,
// and its hint helps.
func TestWorkTreeOfARepositoryElsewhereIsNoted(t *testing.T) {
	dir := nestedRepositories(t)
	tree := filepath.Join(dir, "tree")
	l := newLauncher(t, Config{Transport: socketTransport})
	log := func(spec sandbox.Spec) (notes string, code int) {
		b := launch(t, l, spec)
		_, code = sh(t, b, greet(t, b), "git log --oneline && git status --short && git diff")
		return strings.Join(b.Place().Notes, " "), code
	}
	repo := filepath.Join(dir, ".git")
	notes, code := log(sandbox.Spec{Workspace: tree, Protect: envrc})
	if want := `source and target ` + repo + `, mode "ro"`; code == 0 || !strings.Contains(notes, "Git does not work") || !strings.Contains(notes, want) {
		t.Errorf("exit %d, %s", code, notes)
	}
	if notes, code := log(sandbox.Spec{Workspace: tree, Protect: envrc, Mounts: []sandbox.Mount{{Source: repo, Target: repo}}}); code != 0 || strings.Contains(notes, "Git does not") {
		t.Errorf("with the mount: exit %d, %s", code, notes)
	}
	if notes, code := log(sandbox.Spec{Workspace: dir, Protect: envrc}); code != 0 || strings.Contains(notes, "Git does not") {
		t.Errorf("of the repository itself: exit %d, %s", code, notes)
	}
}
