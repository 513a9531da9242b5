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

// TestCutSecretsAreNotOnTheScreen: what the screen cuts, moves or overwrites was masked before.
func TestCutSecretsAreNotOnTheScreen(t *testing.T) {
	const value = "Zq9!kT7#mW4vX2pL8rN6sB3dF5gH1jQ0"
	secrets := &redact.Redactor{Values: []string{value}}
	for name, output := range map[string][]string{
		"half scrolled away":   {"\x1b[2J\x1b[1;70H" + value + "\x1b[24;1H\n"},
		"over the edge":        {"\x1b[2J\x1b[?7l\x1b[3;60H" + value},
		"half overwritten":     {"\x1b[2J\x1b[H" + value + "\r1234567890"},
		"half deleted":         {"\x1b[2J\x1b[H" + value + "\r\x1b[9P"},
		"torn apart":           {"\x1b[2J\x1b[H" + value + "\x1b[10D\x1b[5@"},
		"rows between its own": {"\x1b[2J\x1b[1;70H" + value + "\x1b[2;1H\x1b[L"},
		"between two looks":    {"\x1b[2J\x1b[H" + value[:16], value[16:] + " and more"},
		"byte by byte":         append([]string{"\x1b[2J\x1b[H"}, strings.Split(value, "")...),
	} {
		m := &maskedScreen{Screen: screen.New(80, 24, func(problem string) { t.Error(problem) }), secrets: secrets}
		for _, part := range output {
			m.Write([]byte(part))
			for _, row := range m.Look().Rows {
				for i := range len(value) - 4 {
					if strings.Contains(row.Text, value[i:i+5]) {
						t.Errorf("%s: %q", name, row.Text)
						break
					}
				}
			}
		}
	}
}

// TestMaskedScreenShowsTheRest: text around a secret stays in its columns, and a prompt without
// a line end is seen.
func TestMaskedScreenShowsTheRest(t *testing.T) {
	m := &maskedScreen{Screen: screen.New(40, 5, func(problem string) { t.Error(problem) }), secrets: &redact.Redactor{Values: []string{"hunter2hunter2"}}}
	m.Write([]byte("\x1b[2J\x1b[Ha hunter2hunter2 b\r\n$ "))
	if rows := m.Look().Rows; rows[0].Text != "a ‹secret›······ b" || rows[1].Text != "$" {
		t.Errorf("%+v", rows)
	}
}
