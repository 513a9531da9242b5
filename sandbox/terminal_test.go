package sandbox

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/screen"
)

// TestScreensAreMasked: a secret in a row, and one that wraps to the next row.
func TestScreensAreMasked(t *testing.T) {
	const token = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345" // for scanners of repositories
	secrets := &redact.Redactor{Values: []string{"hunter2hunter2"}}
	for _, cols := range []int{80, 20, 10} {
		s := screen.New(cols, 12, func(problem string) { t.Error(problem) })
		s.Write([]byte("\x1b[H\x1b[2Jmy hunter2hunter2 and\r\n" + token + "\r\n\x1b[12;1Hlast"))
		rows := maskRows(s.Look().Rows, secrets)
		text := strings.Join(rows, "")
		for _, part := range []string{"hunter", "unter2", "0123", "abcd", "2345"} {
			if strings.Contains(text, part) {
				t.Errorf("%d columns: %q has a secret's %q", cols, rows, part)
			}
		}
		if !strings.Contains(text, "last") || !strings.Contains(text, "‹") || !strings.HasPrefix(text, "my ") {
			t.Errorf("%d columns: %q", cols, rows)
		}
	}
}

// TestMasksKeepWhatIsBeside: rows that only look joined show everything else.
func TestMasksKeepWhatIsBeside(t *testing.T) {
	rows := []screen.Row{{Text: "abcde", Full: true}, {Text: "hunter2hunter2 x"}, {Text: "\u202efghij", Full: true}, {Text: "k"}}
	got := strings.Join(maskRows(rows, &redact.Redactor{Values: []string{"hunter2hunter2"}}), "|")
	if want := "abcde|‹secret› x|\ufffdfghij|k"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
