package sandbox_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// A call that needs a box evicts an unused one: first of another session of
// its principal, then of a principal that is silent. What runs, what is in use, and what the
// caller has itself stays.
func TestBoxesOfSilentClientsMakeRoom(t *testing.T) {
	caller := sandbox.Owner{Principal: "one", Session: "caller"}
	sibling := sandbox.Owner{Principal: "one", Session: "sibling"}
	stranger := sandbox.Owner{Principal: "two", Session: "stranger"}
	for name, test := range map[string]struct {
		grace time.Duration
		inUse []sandbox.Owner
		busy  []sandbox.Owner
		want  sandbox.Owner // whose box goes; none: the call is refused
	}{
		"a sibling goes first":             {grace: time.Nanosecond, want: sibling},
		"a sibling goes without grace":     {grace: time.Hour, want: sibling},
		"a sibling that is there stays":    {grace: time.Nanosecond, inUse: []sandbox.Owner{sibling}, want: stranger},
		"a sibling that runs stays":        {grace: time.Nanosecond, busy: []sandbox.Owner{sibling}, want: stranger},
		"a stranger has its grace":         {grace: time.Hour, busy: []sandbox.Owner{sibling}},
		"a stranger that is there stays":   {grace: time.Nanosecond, inUse: []sandbox.Owner{sibling, stranger}},
		"what runs stays, whosever it is":  {grace: time.Nanosecond, busy: []sandbox.Owner{sibling, stranger}},
		"the caller's own idle boxes stay": {grace: time.Nanosecond, inUse: []sandbox.Owner{sibling}, busy: []sandbox.Owner{stranger}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := pooled(t, sandbox.Pool{})
			m.MaxBoxes, m.Grace = 3, test.grace
			m.InUse = func(o sandbox.Owner, _ time.Duration) bool { return slices.Contains(test.inUse, o) }
			boxes := map[sandbox.Owner]*sandbox.Box{}
			for _, owner := range []sandbox.Owner{caller, stranger, sibling} {
				box, err := m.DefaultBox(t.Context(), owner, nil)
				if err != nil {
					t.Fatal(err)
				}
				if boxes[owner] = box; slices.Contains(test.busy, owner) {
					begin(t, box, "sleep 1000")
				}
			}
			_, _, err := m.Start(t.Context(), caller, sandbox.Request{})
			if (err != nil) != (test.want == sandbox.Owner{}) {
				t.Errorf("another box: %v", err)
			}
			for owner, box := range boxes {
				if gone := box.Gone(); (gone != nil) != (owner == test.want) {
					t.Errorf("the box of %s: %v", owner.Session, gone)
				}
			}
		})
	}
}

// An owner learns once why its default box is another one than before, unless it stopped the
// old one itself.
func TestReplacedDefaultBoxIsTold(t *testing.T) {
	m, _ := pooled(t, sandbox.Pool{})
	m.MaxBoxes = 1
	other := sandbox.Owner{Principal: me.Principal, Session: "other"}
	use := func(owner sandbox.Owner) *sandbox.Box {
		t.Helper()
		box, err := m.DefaultBox(t.Context(), owner, nil)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	use(me)
	if why := m.ClaimReplaced(me); why != nil {
		t.Errorf("of the first box: %v", why)
	}
	use(other)
	use(me)
	if why := m.ClaimReplaced(me); why == nil || !strings.Contains(why.Error(), "was stopped: a call needed another box, max_boxes is 1") {
		t.Errorf("of an evicted box: %v", why)
	}
	if why := m.ClaimReplaced(me); why != nil {
		t.Errorf("twice: %v", why)
	}
	if _, _, err := m.Start(t.Context(), other, sandbox.Request{Name: "dev"}); err != nil {
		t.Fatal(err)
	}
	use(me)
	await(t, "the end of that box", func() bool { return len(m.Boxes(other)) == 1 }) // and that of me
	m.ClaimReplaced(me)
	if why := m.ClaimEnded(other, "dev"); why == nil || m.ClaimEnded(other, "dev") != nil {
		t.Errorf("of a box with a name: %v", why)
	}
	if err := m.Stop(me, use(me).ID); err != nil {
		t.Fatal(err)
	}
	use(me)
	if why := m.ClaimReplaced(me); why != nil {
		t.Errorf("of a box that its owner stopped: %v", why)
	}
}
