package docker

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// Of several processes that ask for a name at once one gets the box: the first starts
// it, and a later one reattaches it. The others learn which process has it.
func TestOneProcessHoldsAName(t *testing.T) {
	l := newLauncher(t, Config{Transport: socketTransport})
	ask := func() (m *sandbox.Manager, box *sandbox.Box, reused bool) {
		t.Helper()
		type answer struct {
			m      *sandbox.Manager
			box    *sandbox.Box
			reused bool
			err    error
		}
		answers := make([]answer, 3)
		var all sync.WaitGroup
		for i := range answers {
			a := &answers[i]
			a.m = boxtest.Manager(t, otherProcess(t, l), sandbox.Spec{})
			all.Go(func() {
				a.box, a.reused, a.err = a.m.Start(t.Context(), sandbox.Owner{Principal: "me"}, sandbox.Request{Name: "dev", Persistent: true})
			})
		}
		all.Wait()
		for _, a := range answers {
			switch {
			case a.err != nil:
				if !isError(a.err, sandbox.InvalidArgument, `"dev" is taken: another warmbox (process `+strconv.Itoa(os.Getpid())+", box b-") {
					t.Error(a.err)
				}
			case box != nil:
				t.Errorf("two processes have it: %s and %s", box.ID, a.box.ID)
			default:
				m, box, reused = a.m, a.box, a.reused
			}
		}
		if box == nil {
			t.Fatal("no process has it")
		}
		return m, box, reused
	}
	m, first, reused := ask()
	if reused {
		t.Error("it was there before")
	}
	m.Close()
	m, again, reused := ask()
	if again.ID != first.ID || !reused {
		t.Errorf("got %s back, reused %v; want %s", again.ID, reused, first.ID)
	}
	if _, err := m.Box(sandbox.Owner{Principal: "me"}, first.ID); err != nil {
		t.Error(err)
	}
	if err := m.Stop(sandbox.Owner{Principal: "me"}, again.ID); err != nil {
		t.Error(err)
	}
	noLocksLeft(t, l)
}

// The lock of a name is for one principal and one engine, and is free again when its
// process is killed.
func TestNamesAreReleased(t *testing.T) {
	l := newLauncher(t, Config{})
	e := &engine{endpoint: endpoint{Host: "one"}}
	take := func(e *engine, owner, name string) (*lock, error) {
		return l.dirs.lockName(t.Context(), e, "b-x", sandbox.Persistent{Principal: owner, Name: name})
	}
	held, err := take(e, "me", "dev")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(e, "me", "dev"); err == nil || !strings.Contains(err.Error(), "box b-x") {
		t.Errorf("a name that is taken: %v", err)
	}
	for _, k := range []struct {
		e           *engine
		owner, name string
	}{{e, "you", "dev"}, {e, "me", "other"}, {e, "me\x00dev", ""}, {&engine{endpoint: endpoint{Host: "two"}}, "me", "dev"}} {
		other, err := take(k.e, k.owner, k.name)
		if err != nil {
			t.Errorf("%+v: %v", k, err)
			continue
		}
		other.release() // as the kernel does for a killed process
	}
	if err := held.release(); err != nil {
		t.Error(err)
	}
	again, err := take(e, "me", "dev")
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(again.path[:strings.LastIndexByte(again.path, '/')]); len(left) != 1 {
		t.Errorf("%d names are left", len(left))
	}
	if err := again.remove(); err != nil {
		t.Error(err)
	}
}
