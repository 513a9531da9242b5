package sandbox

import "testing"

// The owners of most tests.
var me, you = Owner{Principal: "me"}, Owner{Principal: "you"}

func TestOwnerReachesItsOwnAndItsPrincipals(t *testing.T) {
	session, other := Owner{"p", "1"}, Owner{"p", "2"}
	for _, c := range []struct {
		owner, has Owner
		want       bool
	}{
		{session, session, true},
		{session, Owner{"p", ""}, true},
		{session, other, false},
		{Owner{"p", ""}, session, false},
		{session, Owner{"q", "1"}, false},
		{session, Owner{"q", ""}, false},
		{Owner{"p.1", ""}, session, false},
		{Owner{}, Owner{}, true},
	} {
		if got := c.owner.reaches(c.has); got != c.want {
			t.Errorf("%v reaches what %v has: %t", c.owner, c.has, got)
		}
	}
}
