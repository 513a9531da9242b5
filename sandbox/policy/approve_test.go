package policy

import (
	"fmt"
	"testing"
)

// Approval allows programs that are not listed, and nothing else.
func TestApprovalReplacesListEntriesOnly(t *testing.T) {
	lists := Commands{Allow: []string{"ls", "git status"}, Deny: []string{"npm publish", "shutdown"}}
	for cmd, want := range map[string]bool{
		"ls":                              true,
		"rm -rf build && ls":              true,
		"sh -c 'rm -rf build'":            true,
		"git push origin main":            true,
		"FOO=1 terraform apply | tail -1": true,
		"find . -exec rm {} +":            true,

		"npm publish":                        false, // denied anywhere in a line
		"rm -rf build; npm publish":          false,
		"rm $(npm publish)":                  false,
		"find . -exec shutdown {} +":         false,
		"npm 'publish'":                      false,
		"npm $x":                             false, // may be what is denied
		"$x":                                 false, // does not show what runs
		"eval rm":                            false,
		"rm &":                               false,
		"rm >.git/hooks/pre-commit":          false,
		"rm (":                               false, // not a command
		"rm <<<x":                            false, // differs between shells
		"rm \x1b[2K":                         false, // looks like another command
		"rm \u202e":                          false,
		"LD_PRELOAD=x rm":                    false,
		"rm " + string(make([]byte, 20<<10)): false,
	} {
		t.Run(fmt.Sprintf("%.20q", cmd), func(t *testing.T) {
			if got := lists.mayRun(cmd, nil); got != want {
				t.Errorf("%.40q: %v", cmd, got)
			}
		})
	}
	for _, lists := range []Commands{lists, {Allow: []string{"ls"}}} {
		if lists.mayRun("rm", map[string]string{"LD_PRELOAD": "x"}) {
			t.Errorf("%v: LD_PRELOAD is allowed", lists)
		}
		if lists.mayRun("rm &", nil) {
			t.Errorf("%v: a background command is allowed", lists)
		}
	}
}

// mayRun reports whether a command may run, with approval if necessary.
func (c Commands) mayRun(cmd string, env map[string]string) bool {
	v := c.Judge(cmd, env)
	return v.Denial == nil || v.Approvable
}
