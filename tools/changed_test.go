package tools

import (
	"strings"
	"testing"
)

func TestCoverHint(t *testing.T) {
	covered := []string{".git", ".git/config", ".git/hooks", "vendor", "vendor/lib/.git", "odd\nhint: \x1b[1m"}
	for _, c := range []struct{ output, names string }{
		{"error: could not write config file .git/config: Device or resource busy\n", " .git/config in"},
		{"x\nrm: cannot remove 'vendor': Device or resource busy", " vendor in"},
		{"touch: cannot touch 'hooks/x': Read-only file system", " .git/hooks in"},
		{"touch: cannot touch '/etc/x': Read-only file system", ""},
		{"cat: .git/config: No such file or directory", ""},
		{"rm: cannot remove 'x': Device or resource busy\n.git/config", ""},
		{"", ""},
	} {
		hint := coverHint(covered, "", c.output)
		if (hint == "") != (c.names == "") || !strings.Contains(hint, c.names) || hint != "" && !strings.Contains(hint, "protect") {
			t.Errorf("%q: %q", c.output, hint)
		}
		if coverHint(nil, c.output) != "" {
			t.Error("a hint where nothing is covered")
		}
	}
}
