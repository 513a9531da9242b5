package tools

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pending[string]{each: 1}
		put := func(owner sandbox.Owner, id string) bool { return p.put(owner, id, id) == nil }
		take := func(owner sandbox.Owner, id string) bool { _, ok := p.take(owner, id); return ok }
		if take(sandbox.Owner{Principal: "a"}, "1") || !put(sandbox.Owner{Principal: "a"}, "1") || put(sandbox.Owner{Principal: "a"}, "2") || !put(sandbox.Owner{Principal: "b"}, "2") {
			t.Error("one result of each owner waits")
		}
		if take(sandbox.Owner{Principal: "a"}, "2") || take(sandbox.Owner{Principal: "b"}, "1") || take(sandbox.Owner{Principal: "c"}, "1") || !take(sandbox.Owner{Principal: "a"}, "1") || take(sandbox.Owner{Principal: "a"}, "1") {
			t.Error("a result is its owner's, once")
		}
		time.Sleep(pendingTime + 1)
		if take(sandbox.Owner{Principal: "b"}, "2") || !put(sandbox.Owner{Principal: "b"}, "3") {
			t.Error("a result waited for too long")
		}
		for i := range maxPending - 1 {
			if !put(sandbox.Owner{Principal: fmt.Sprint(i)}, fmt.Sprint("n", i)) {
				t.Errorf("no room for %d", i)
			}
		}
		if put(sandbox.Owner{Principal: "one more"}, "x") || len(p.wait) != maxPending {
			t.Errorf("%d results wait", len(p.wait))
		}
		time.Sleep(pendingTime + 1)
		if !put(sandbox.Owner{Principal: "one more"}, "x") || len(p.wait) != 1 {
			t.Errorf("%d results wait long after", len(p.wait))
		}
		p.each = 2
		if !put(sandbox.Owner{Principal: "one more"}, "y") || put(sandbox.Owner{Principal: "one more"}, "z") || !take(sandbox.Owner{Principal: "one more"}, "x") || !put(sandbox.Owner{Principal: "one more"}, "z") {
			t.Error("two results of each owner wait, each under its own name")
		}
	})
}
