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

// watching returns a watcher of a workspace whose box runs nothing.
func watching(spec Spec) *watcher {
	w, _ := newWatcher(&Box{shared: &shared{}, Place: Place{Workspace: spec.Workspace}, logger: slog.New(slog.DiscardHandler)}, spec)
	return w
}

// found returns what a scan finds after a command has ended.
func found(w *watcher) []string {
	w.wake("e-1")
	return w.report(time.Minute).Paths
}

func TestWatcherReportsEachChangeOnce(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	spec := Spec{Workspace: dir, Protect: []string{".git/hooks", ".git/config", ".envrc", ".vscode", "out/passwd", "kept", "gone", "!spared"}}
	err := errors.Join(os.MkdirAll(at(".git/hooks"), 0o755), os.WriteFile(at(".envrc"), []byte("old"), 0o644),
		os.WriteFile(at("kept"), nil, 0o644), os.WriteFile(at("gone"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	w := watching(spec)
	defer w.close()
	if changes := found(w); changes != nil {
		t.Errorf("nothing happened, and the changes are %q", changes)
	}
	err = errors.Join(os.WriteFile(at(".git/config"), nil, 0o644), os.WriteFile(at(".envrc"), []byte("newer"), 0o644), os.Remove(at("gone")),
		os.Symlink("/nowhere", at(".vscode")), os.Symlink("/etc", at("out")), os.MkdirAll(at("spared/.git"), 0o755), os.MkdirAll(at("new/.git/hooks"), 0o755),
		os.WriteFile(at(".git/hooks/pre-commit"), nil, 0o755), os.Chtimes(at(".git/hooks"), time.Time{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if changes, want := found(w), []string{".envrc", ".git/config", ".git/hooks", ".vscode", "new/.git", "out"}; !slices.Equal(changes, want) {
		t.Errorf("the changes are %q, want %q", changes, want)
	}
	if changes := found(w); changes != nil {
		t.Errorf("the same changes again: %q", changes)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if changes := found(w); changes != nil {
		t.Errorf("of a workspace that is gone: %q", changes)
	}
}

// A change that is gone by the time of the report is marked as gone, and what git's own
// commands removed again is not reported.
func TestChangesThatAreGoneAreMarked(t *testing.T) {
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
	w := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	defer w.close()
	for _, c := range []struct {
		remove      []string
		paths, gone string
	}{
		{nil, ".envrc .git/rebase-merge/git-rebase-todo", ""},
		{[]string{rc, todo}, ".envrc", ".envrc"},
		{[]string{filepath.Dir(todo)}, ".envrc", ""},
	} {
		write()
		w.wake("e-1")
		w.scan(false)
		for _, name := range c.remove {
			os.RemoveAll(name)
		}
		changes := w.report(0)
		if strings.Join(changes.Paths, " ") != c.paths || strings.Join(changes.Gone, " ") != c.gone {
			t.Errorf("without %q: %+v", c.remove, changes)
		}
		os.RemoveAll(rc)
		os.RemoveAll(todo)
		w.scan(false)
	}
	write()
	os.Remove(rc)
	w.scan(false)
	os.RemoveAll(todo)
	if changes := w.report(0); len(changes.During) > 0 || !changes.None() {
		t.Errorf("of a rebase that is over: %+v", changes)
	}
}

// A scan that takes longer than a call waits goes on without the call, and no other
// one begins before its share of the time is over.
func TestLongScanDelaysNoReply(t *testing.T) {
	dir := t.TempDir()
	w := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	w.cost = time.Hour // of the scan before
	w.next = time.Now().Add(time.Hour)
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.wake("e-1")
	if changes := w.report(time.Minute); !changes.None() {
		t.Errorf("reported %v, for which the reply would have waited for an hour", changes)
	}
	w.close()
	if changes := w.report(0); !slices.Equal(changes.Paths, []string{".envrc"}) || !slices.Equal(changes.During, []string{"e-1"}) {
		t.Errorf("at the end of the box: %+v", changes)
	}
}

// Where commands have run, a scan follows by itself; where none has, none does.
func TestScanFollowsCommands(t *testing.T) {
	dir := t.TempDir()
	w := watching(Spec{Workspace: dir, Protect: []string{".envrc"}})
	defer w.close()
	if w.timer != nil {
		t.Error("a scan is due where no command has run")
	}
	if err := os.WriteFile(filepath.Join(dir, ".envrc"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.wake("e-1")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if changes := w.report(0); !changes.None() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no scan followed")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		t.Error("another scan is due where no other command has run")
	}
}

// A flood of changes and of commands is counted, and bounded.
func TestChangesAreBounded(t *testing.T) {
	var n Changes
	for i := range 1000 {
		n.add(Changes{Paths: []string{strings.Repeat("x", i+1)}, During: []string{itoa(i)}})
	}
	if len(n.Paths) != maxChanges || n.More != 1000-maxChanges || len(n.During) != maxDuring || n.MoreDuring != 1000-maxDuring {
		t.Errorf("%d and %d more, %d and %d more", len(n.Paths), n.More, len(n.During), n.MoreDuring)
	}
}

func TestNoWatcherWithoutProtectedPaths(t *testing.T) {
	dir := t.TempDir()
	for _, spec := range []Spec{
		{Protect: []string{".envrc"}},
		{Workspace: dir},
		{Workspace: dir, ReadOnly: true, Protect: []string{".envrc"}},
	} {
		if w := watching(spec); w != nil || !w.report(time.Second).None() {
			t.Errorf("%+v is watched", spec)
		}
	}
}
