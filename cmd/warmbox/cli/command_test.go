package cli

import "testing"

func TestUnknownCommandSuggestsTheNearest(t *testing.T) {
	known := []string{"stdio", "http", "exec", "doctor", "version"}
	for name, want := range map[string]string{
		"stoido": "stdio", "execute": "exec", "htp": "http", "Doctor": "doctor", "x": "", "": "", "banana": "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := didYouMean(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
