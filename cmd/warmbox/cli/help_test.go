package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// Each command has the same help by its name behind help and by both flags.
func TestHelpHasThreeSpellings(t *testing.T) {
	p := Warmbox()
	for _, cmd := range p.commands() {
		help := func(args ...string) string {
			var stdout bytes.Buffer
			if err := p.run(t.Context(), args, nil, &stdout, io.Discard); err != nil {
				t.Errorf("%v: %v", args, err)
			}
			return stdout.String()
		}
		words := strings.Fields(cmd.Name)
		want := help(append([]string{"help"}, words...)...)
		if want == "" {
			t.Errorf("%s has no help", cmd.Name)
		}
		for _, flag := range []string{"--help", "-h"} {
			if got := help(append(words, flag)...); got != want {
				t.Errorf("%s %s prints %q, and help %q", cmd.Name, flag, got, want)
			}
		}
	}
}
