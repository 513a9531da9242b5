package sandbox

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// watching returns a lookout for a workspace with nothing of a box behind it.
func watching(spec Spec) *lookout {
	return newLookout(&Box{Place: Place{Workspace: spec.Workspace}, logger: slog.New(slog.DiscardHandler)}, spec)
}

// hear returns what a look finds after a command has ended.
func hear(l *lookout) []string {
	l.wake("e-1")
	return l.take(time.Minute).Paths
}

func TestLookout(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	spec := Spec{Workspace: dir, Protect: []string{".git/hooks", ".git/config", ".envrc", ".vscode", "out/passwd", "kept", "gone", "!spared"}}
	err := errors.Join(os.MkdirAll(at(".git/hooks"), 0o755), os.WriteFile(at(".envrc"), []byte("old"), 0o644),
		os.WriteFile(at("kept"), nil, 0o644), os.WriteFile(at("gone"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	l := watching(spec)
	defer l.close()
	if news := hear(l); news != nil {
		t.Errorf("nothing happened, and the news are %q", news)
	}
	err = errors.Join(os.WriteFile(at(".git/config"), nil, 0o644), os.WriteFile(at(".envrc"), []byte("newer"), 0o644), os.Remove(at("gone")),
		os.Symlink("/nowhere", at(".vscode")), os.Symlink("/etc", at("out")), os.MkdirAll(at("spared/.git"), 0o755), os.MkdirAll(at("new/.git/hooks"), 0o755),
		os.WriteFile(at(".git/hooks/pre-commit"), nil, 0o755), os.Chtimes(at(".git/hooks"), time.Time{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if news, want := hear(l), []string{".envrc", ".git/config", ".git/hooks", ".vscode", "new/.git", "out"}; !slices.Equal(news, want) {
		t.Errorf("the news are %q, want %q", news, want)
	}
	if news := hear(l); news != nil {
		t.Errorf("the same news again: %q", news)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if news := hear(l); news != nil {
		t.Errorf("of a workspace that is gone: %q", news)
	}
}

// What is gone by the time it is told of is said to be, and what git's own commands
// took away again is told of to nobody.
func TestNewsThatAreGone(t *testing.T) {
	dir := t.TempDir()
	todo, rc := filepath.Join(dir, ".git/rebase-merge/git-rebase-todo"), filepath.Join(dir, ".envrc")
	write := func() {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(todo), 0o755), os.WriteFile(todo, nil, 0o644), os.WriteFile(rc, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	l := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	defer l.close()
	for _, c := range []struct {
		remove     []string
		news, gone string
	}{
		{nil, ".envrc .git/rebase-merge/git-rebase-todo", ""},
		{[]string{rc, todo}, ".envrc", ".envrc"},
		{[]string{filepath.Dir(todo)}, ".envrc", ""},
	} {
		write()
		l.wake("e-1")
		l.watch(false)
		for _, name := range c.remove {
			os.RemoveAll(name)
		}
		news := l.take(0)
		if strings.Join(news.Paths, " ") != c.news || strings.Join(news.Gone, " ") != c.gone {
			t.Errorf("without %q: %+v", c.remove, news)
		}
		os.RemoveAll(rc)
		os.RemoveAll(todo)
		l.watch(false)
	}
	write()
	os.Remove(rc)
	l.watch(false)
	os.RemoveAll(todo)
	if news := l.take(0); len(news.During) > 0 || !news.None() {
		t.Errorf("of a rebase that is over: %+v", news)
	}
}

// A look that takes longer than somebody waits goes on without them, and no other
// one begins before its share of the time is over.
func TestLookoutKeepsNobody(t *testing.T) {
	dir := t.TempDir()
	l := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	l.cost = time.Hour // of the look before
	l.next = time.Now().Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.wake("e-1")
	if news := l.take(time.Minute); !news.None() {
		t.Errorf("told of %v, for which the reply would have waited for an hour", news)
	}
	l.close()
	if news := l.take(0); !slices.Equal(news.Paths, []string{".envrc"}) || !slices.Equal(news.During, []string{"e-1"}) {
		t.Errorf("at the end of the box: %+v", news)
	}
}

// Where commands have run, a look comes by itself; where none has, none does.
func TestLookoutComesByItself(t *testing.T) {
	dir := t.TempDir()
	l := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	defer l.close()
	if l.timer != nil {
		t.Error("a look is to come where no command has run")
	}
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.wake("e-1")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if news := l.take(0); !news.None() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody has looked")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		t.Error("another look is to come where no other command has run")
	}
}

// A flood of news and of commands is counted, and bounded.
func TestNewsAreBounded(t *testing.T) {
	var n Changes
	for i := range 1000 {
		n.add(Changes{Paths: []string{strings.Repeat("x", i+1)}, During: []string{itoa(i)}})
	}
	if len(n.Paths) != maxNews || n.More != 1000-maxNews || len(n.During) != maxDuring || n.MoreDuring != 1000-maxDuring {
		t.Errorf("%d and %d more, %d and %d more", len(n.Paths), n.More, len(n.During), n.MoreDuring)
	}
}

func TestNothingToWatch(t *testing.T) {
	dir := t.TempDir()
	for _, spec := range []Spec{
		{Protect: []string{".envrc"}},
		{Workspace: dir},
		{Workspace: dir, ReadOnly: true, Protect: []string{".envrc"}},
	} {
		if l := watching(spec); l != nil || !l.take(time.Second).None() {
			t.Errorf("%+v is watched", spec)
		}
	}
}
