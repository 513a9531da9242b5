package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestLookout(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	spec := Spec{Workspace: dir, Protect: []string{".git/hooks", ".git/config", ".envrc", ".vscode", "out/passwd", "kept", "gone"}}
	err := errors.Join(os.MkdirAll(at(".git/hooks"), 0o755), os.WriteFile(at(".envrc"), []byte("old"), 0o644),
		os.WriteFile(at("kept"), nil, 0o644), os.WriteFile(at("gone"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	l := newLookout(spec, dir)
	if news := l.news(); news != nil {
		t.Errorf("nothing happened, and the news are %q", news)
	}
	err = errors.Join(os.WriteFile(at(".git/config"), nil, 0o644), os.WriteFile(at(".envrc"), []byte("newer"), 0o644), os.Remove(at("gone")),
		os.Symlink("/nowhere", at(".vscode")), os.Symlink("/etc", at("out")),
		os.WriteFile(at(".git/hooks/pre-commit"), nil, 0o755), os.Chtimes(at(".git/hooks"), time.Time{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if news, want := l.news(), []string{".git/hooks", ".git/config", ".envrc", ".vscode"}; !slices.Equal(news, want) {
		t.Errorf("the news are %q, want %q", news, want)
	}
	if news := l.news(); news != nil {
		t.Errorf("the same news again: %q", news)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if news := l.news(); news != nil {
		t.Errorf("of a workspace that is gone: %q", news)
	}
}

func TestNothingToWatch(t *testing.T) {
	dir := t.TempDir()
	for _, spec := range []Spec{
		{Protect: []string{".envrc"}},
		{Workspace: dir},
		{Workspace: dir, ReadOnly: true, Protect: []string{".envrc"}},
	} {
		if l := newLookout(spec, dir); l != nil || l.news() != nil {
			t.Errorf("%+v is watched", spec)
		}
	}
}

func BenchmarkLookout(b *testing.B) {
	dir := b.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
		b.Fatal(err)
	}
	l := newLookout(Spec{Workspace: dir, Protect: []string{
		".git/hooks", ".git/config", ".husky", ".vscode", ".idea", ".claude", ".mcp.json", ".envrc", ".bashrc", ".profile", ".zshrc",
	}}, dir)
	for b.Loop() {
		l.news()
	}
}
