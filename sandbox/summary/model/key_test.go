package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/summary"
)

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	k, err := FileKey(write("good", " sk-1234\n", 0o600))
	if err != nil || k.text() != "sk-1234" || !k.IsSet() {
		t.Errorf("%v, %v", k.text(), err)
	}
	for name, want := range map[string]string{
		write("open", "sk-1234", 0o644):                       "chmod 600 " + dir,
		write("group", "sk-1234", 0o640):                      "mode 0640",
		write("empty", "\n", 0o600):                           "there is no key",
		write("words", "my sk-1234", 0o600):                   "one word",
		write("long", strings.Repeat("sk-1234", 1000), 0o600): "more than 4096 bytes",
		dir:                           "is not a file",
		filepath.Join(dir, "nothing"): "no such file",
	} {
		if k, err := FileKey(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-1234") || k.IsSet() {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestKeyFromEnvironment(t *testing.T) {
	t.Setenv("A_KEY", "sk-1234")
	if k, err := EnvKey("A_KEY"); err != nil || k.text() != "sk-1234" {
		t.Errorf("%v, %v", k.text(), err)
	}
	t.Setenv("A_KEY", "")
	if _, err := EnvKey("A_KEY"); err == nil || !strings.Contains(err.Error(), "A_KEY") {
		t.Error(err)
	}
}

func TestShorten(t *testing.T) {
	d := summary.Digest{Cmd: strings.Repeat("é", maxCmd), Kept: strings.Repeat("12: twenty bytes more\n", 1000)}
	for _, most := range []int{0, 1, 100, 1 << 10, 16 << 10} {
		short := shorten(d, most)
		if len(short.Kept) > most+len("…\n") || len(short.Cmd) > maxCmd+len("…") {
			t.Errorf("%d: %d bytes of lines, %d of the command", most, len(short.Kept), len(short.Cmd))
		}
		for line := range strings.Lines(short.Kept) {
			if line != "12: twenty bytes more\n" && line != "…\n" {
				t.Errorf("%d: a piece of a line: %q", most, line)
			}
		}
	}
	if d.Kept = "1: a\n2: b\n"; shorten(d, len(d.Kept)).Kept != d.Kept {
		t.Error("what fits was cut")
	}
}
