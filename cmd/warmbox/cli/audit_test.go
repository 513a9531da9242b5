package cli

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// A fullFile is a file whose disk has room for some more bytes.
type fullFile struct {
	*os.File
	room  int
	fixed bool // it cannot be truncated
}

var errFull = errors.New("no space left on device")

func (f *fullFile) Write(p []byte) (int, error) {
	if len(p) <= f.room {
		f.room -= len(p)
		return f.File.Write(p)
	}
	n, _ := f.File.Write(p[:f.room])
	f.room = 0
	return n, errFull
}

func (f *fullFile) Truncate(size int64) error {
	if f.fixed {
		return errors.ErrUnsupported
	}
	return f.File.Truncate(size)
}

// TestFullDiskGluesNoAuditEvents: on a full disk, the audit file keeps whole lines in both
// forms. A part of a line that cannot be taken back is a line by itself.
func TestFullDiskGluesNoAuditEvents(t *testing.T) {
	handlers := map[string]func(io.Writer) slog.Handler{
		"line": func(w io.Writer) slog.Handler { return sandbox.NewAuditLines(w) },
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	}
	for name, handler := range handlers {
		for _, fixed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "audit")
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				disk := &fullFile{File: f, fixed: fixed}
				log := slog.New(handler(&auditFile{file: disk, log: slog.New(slog.DiscardHandler)}))
				// Room for all of the first line, parts of the next two (one byte of the third), and the last.
				for i, room := range []int{1 << 20, 30, 1, 0, 1 << 20} {
					disk.room = room
					log.Info("exec", "session", "s", "cmd", strings.Repeat("x", i+1))
				}
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
				if want := map[bool]int{false: 2, true: 3}[fixed]; len(lines) != want {
					t.Fatalf("%d lines, want %d: %q", len(lines), want, lines)
				}
				last := lines[len(lines)-1]
				if name == "line" && strings.Count(last, "|") != 5 || name == "json" && !strings.HasPrefix(last, "{") || !strings.Contains(last, "xxxxx") {
					t.Errorf("%q", last)
				}
			})
		}
	}
}

// TestTornAuditFileIsContinuedOnANewLine: the first event after a part of a line, of a program
// that was ended by force, is a line by itself.
func TestTornAuditFileIsContinuedOnANewLine(t *testing.T) {
	for content, torn := range map[string]bool{"": false, "a|b\n": false, "a|b": true} {
		path := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := endsWithinALine(f); got != torn {
			t.Errorf("%q: %v", content, got)
		}
	}
}
