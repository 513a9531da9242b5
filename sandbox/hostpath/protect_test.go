package hostpath

import (
	"slices"
	"strings"
	"testing"
)

func TestProtectedPathsLieInTheWorkspace(t *testing.T) {
	for name, c := range map[string]struct {
		list []string
		want string
	}{
		"none":             {nil, ""},
		"paths":            {[]string{".git/hooks", "Makefile", "a/../b"}, ""},
		"excluded":         {[]string{"!lib/.git"}, ""},
		"as many as allow": {slices.Repeat([]string{"x"}, MaxProtected), ""},
		"one too many":     {slices.Repeat([]string{"x"}, MaxProtected+1), "65 paths, but at most 64"},
		"empty":            {[]string{""}, `"" is not a path`},
		"only !":           {[]string{"!"}, `"" is not a path`},
		"the workspace":    {[]string{"."}, `"."`},
		"absolute":         {[]string{"/etc"}, `"/etc"`},
		"above":            {[]string{"a", "!../x"}, `"../x"`},
		"above, hidden":    {[]string{"a/../../x"}, `"a/../../x"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckProtected(c.list)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
