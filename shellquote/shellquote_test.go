package shellquote

import "testing"

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
