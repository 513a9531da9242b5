package cli

import "testing"

func TestCommandLine(t *testing.T) {
	for want, words := range map[string][]string{
		"ls | wc -l":            {"ls | wc -l"},
		"go test ./...":         {"go", "test", "./..."},
		`echo 'a b' '$HOME' ''`: {"echo", "a b", "$HOME", ""},
		`printf 'it'\''s'`:      {"printf", "it's"},
	} {
		if got := commandLine(words); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}
