package tools

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

func TestCoverHintNamesTheProtectedPath(t *testing.T) {
	covered := []string{".git", ".git/config", ".git/hooks", "vendor", "vendor/lib/.git", "odd\nhint: \x1b[1m"}
	for _, c := range []struct{ output, names string }{
		{"error: could not write config file .git/config: Device or resource busy\n", " .git/config:"},
		{"x\nrm: cannot remove 'vendor': Device or resource busy", " vendor:"},
		{"touch: cannot touch 'hooks/x': Read-only file system", " .git/hooks:"},
		{"touch: cannot touch '/etc/x': Read-only file system", ""},
		{"cat: .git/config: No such file or directory", ""},
		{"rm: cannot remove 'x': Device or resource busy\n.git/config", ""},
		{"", ""},
	} {
		_, hint := coverHint(covered, "", "", c.output)
		if (hint == "") != (c.names == "") || !strings.Contains(hint, c.names) || hint != "" && !strings.Contains(hint, "protect") {
			t.Errorf("%q: %q", c.output, hint)
		}
		if _, hint := coverHint(nil, "", c.output); hint != "" {
			t.Error("a hint where nothing is covered")
		}
	}
}

// TestChangedHintSaysWhatIsGone: files that were deleted before the report are marked.
func TestChangedHintSaysWhatIsGone(t *testing.T) {
	for _, c := range []struct {
		changes    sandbox.Changes
		want, less string
	}{
		{sandbox.Changes{}, "", "appeared"},
		{sandbox.Changes{Paths: []string{"a", "b"}}, "a, b appeared or changed in the workspace. Programs", "gone"},
		{sandbox.Changes{Paths: []string{"a", "b"}, Gone: []string{"b"}}, "read them first. Deleted again: b.", "a, b."},
		{sandbox.Changes{Paths: []string{"a"}, Gone: []string{"a"}}, "a appeared or changed in the workspace, and has been deleted again.", "read"},
		{sandbox.Changes{Paths: []string{"a"}, Gone: []string{"a"}, More: 2}, "a, 2 more appeared or changed in the workspace. Programs", "nothing"},
		{sandbox.Changes{More: 2}, "2 more appeared", "gone"},
	} {
		got := strings.Join(changedHint(c.changes), " ")
		if !strings.Contains(got, c.want) || strings.Contains(got, c.less) {
			t.Errorf("%+v: %q", c.changes, got)
		}
	}
}
