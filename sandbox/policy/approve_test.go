package policy

import "testing"

// A user's word allows programs that are not listed, and nothing else.
func TestCheckAsked(t *testing.T) {
	lists := Commands{Allow: []string{"ls", "git status"}, Deny: []string{"npm publish", "shutdown"}}
	for cmd, want := range map[string]bool{
		"ls":                              true,
		"rm -rf build && ls":              true,
		"sh -c 'rm -rf build'":            true,
		"git push origin main":            true,
		"FOO=1 terraform apply | tail -1": true,
		"find . -exec rm {} +":            true,

		"npm publish":                        false, // is denied, wherever it stands
		"rm -rf build; npm publish":          false,
		"rm $(npm publish)":                  false,
		"find . -exec shutdown {} +":         false,
		"npm 'publish'":                      false,
		"npm $x":                             false, // may be what is denied
		"$x":                                 false, // shows nobody what runs
		"eval rm":                            false,
		"rm &":                               false,
		"rm >.git/hooks/pre-commit":          false,
		"rm (":                               false, // is no command
		"rm <<<x":                            false, // means another thing to another shell
		"rm \x1b[2K":                         false, // looks like another
		"rm \u202e":                          false,
		"LD_PRELOAD=x rm":                    false,
		"rm " + string(make([]byte, 20<<10)): false,
	} {
		if err := lists.CheckAsked(cmd, nil); (err == nil) != want {
			t.Errorf("%.40q: %v", cmd, err)
		}
	}
	for _, lists := range []Commands{lists, {Allow: []string{"ls"}}} {
		if lists.CheckAsked("rm", map[string]string{"LD_PRELOAD": "x"}) == nil {
			t.Errorf("%v: a variable that chooses what code runs passed", lists)
		}
		if lists.CheckAsked("rm &", nil) == nil {
			t.Errorf("%v: what the rule refuses passed", lists)
		}
	}
}
