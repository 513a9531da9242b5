package tools

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pending[string]{each: 1}
		put := func(owner, id string) bool { return p.put(owner, id, id) == nil }
		take := func(owner, id string) bool { _, ok := p.take(owner, id); return ok }
		if take("a", "1") || !put("a", "1") || put("a", "2") || !put("b", "2") {
			t.Error("one result of each owner waits")
		}
		if take("a", "2") || take("b", "1") || take("c", "1") || !take("a", "1") || take("a", "1") {
			t.Error("a result is its owner's, once")
		}
		time.Sleep(pendingTime + 1)
		if take("b", "2") || !put("b", "3") {
			t.Error("a result waited for too long")
		}
		for i := range maxPending - 1 {
			if !put(fmt.Sprint(i), fmt.Sprint("n", i)) {
				t.Errorf("no room for %d", i)
			}
		}
		if put("one more", "x") || len(p.wait) != maxPending {
			t.Errorf("%d results wait", len(p.wait))
		}
		time.Sleep(pendingTime + 1)
		if !put("one more", "x") || len(p.wait) != 1 {
			t.Errorf("%d results wait long after", len(p.wait))
		}
		p.each = 2
		if !put("one more", "y") || put("one more", "z") || !take("one more", "x") || !put("one more", "z") {
			t.Error("two results of each owner wait, each under its own name")
		}
	})
}
