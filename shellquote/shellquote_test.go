package shellquote

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for want, words := range map[string][]string{
		"go test ./...":         {"go", "test", "./..."},
		`echo 'a b' '$HOME' ''`: {"echo", "a b", "$HOME", ""},
		`printf 'it'\''s'`:      {"printf", "it's"},
		`'a*b'`:                 {"a*b"},
		"":                      nil,
	} {
		if got := Line(words); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}

// A program's arguments come through bash as they are, in a line that is valid UTF-8.
func TestBashLineKeepsEveryByte(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	every := make([]byte, 0, 255)
	for c := 1; c < 256; c++ {
		every = append(every, byte(c))
	}
	words := []string{"printf", "%s|", string(every), "\xff", "é", "a b", "$HOME", "''", `\x41`, "", "\xc3'\xa9'"}
	line := BashLine(words)
	if !utf8.ValidString(line) {
		t.Fatalf("%q is not UTF-8", line)
	}
	out, err := exec.Command(bash, "-c", line).Output()
	if want := strings.Join(words[2:], "|") + "|"; err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	for _, program := range []string{"A=b", "if", "coproc"} {
		var failed *exec.ExitError
		if err := exec.Command(bash, "-c", BashLine([]string{program, "x"})).Run(); !errors.As(err, &failed) || failed.ExitCode() != 127 {
			t.Errorf("%s was not taken for a program: %v", program, err)
		}
	}
}
