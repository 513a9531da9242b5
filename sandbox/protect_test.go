package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	paths := []string{".git/hooks", ".git/config", ".envrc", ".vscode", "out/passwd", "kept", "gone"}
	err := errors.Join(os.MkdirAll(at(".git/hooks"), 0o755), os.WriteFile(at(".envrc"), []byte("old"), 0o644),
		os.WriteFile(at("kept"), nil, 0o644), os.WriteFile(at("gone"), nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	before := TakeSnapshot(dir, paths)
	if a, c := before.Changed(); a != nil || c != nil {
		t.Errorf("nothing happened, and %q appeared, %q changed", a, c)
	}
	err = errors.Join(os.WriteFile(at(".git/config"), nil, 0o644), os.WriteFile(at(".envrc"), []byte("newer"), 0o644), os.Remove(at("gone")),
		os.Symlink("/nowhere", at(".vscode")), os.Symlink("/etc", at("out")),
		os.WriteFile(at(".git/hooks/pre-commit"), nil, 0o755), os.Chtimes(at(".git/hooks"), time.Time{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	appeared, changed := before.Changed()
	if want := []string{".git/config", ".vscode"}; !slices.Equal(appeared, want) {
		t.Errorf("appeared: %q, want %q", appeared, want)
	}
	if want := []string{".git/hooks", ".envrc"}; !slices.Equal(changed, want) {
		t.Errorf("changed: %q, want %q", changed, want)
	}
	for _, nothing := range []Snapshot{{}, TakeSnapshot("", paths), TakeSnapshot(dir, nil), TakeSnapshot(at("absent"), paths)} {
		if a, c := nothing.Changed(); a != nil || c != nil {
			t.Errorf("of nothing: %q appeared, %q changed", a, c)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	dir := b.TempDir()
	paths := []string{".git/hooks", ".git/config", ".husky", ".vscode", ".idea", ".claude", ".mcp.json", ".envrc", ".bashrc", ".profile", ".zshrc"}
	if err := os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		TakeSnapshot(dir, paths).Changed()
	}
}
