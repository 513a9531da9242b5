package policy

import "testing"

// Judge agrees with its definition: a command is approvable if it is denied with Allow
// and would not be denied without.
func TestApprovableMeansOnlyAllowDenies(t *testing.T) {
	for _, file := range tables {
		for _, row := range table(t, file) {
			for _, deny := range [][]string{nil, {"npm publish", "rm"}} {
				for _, allow := range [][]string{row.list.Allow, {"ls", "git status", "go test"}} {
					got := Commands{Allow: allow, Deny: deny}.Judge(row.cmd, nil)
					without := Commands{Deny: deny}
					want := got.Denial != nil && without.check(without.rules(), row.cmd, nil) == nil
					if got.Approvable != want {
						t.Errorf("%.80q with %v and without %v: approvable is %v, want %v: %v", row.cmd, allow, deny, got.Approvable, want, got.Denial)
					}
				}
			}
		}
	}
}
