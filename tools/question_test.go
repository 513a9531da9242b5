package tools

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

func TestQuestionsBelongToTheirOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c, more := sandbox.Owner{Principal: "a"}, sandbox.Owner{Principal: "b"}, sandbox.Owner{Principal: "c"}, sandbox.Owner{Principal: "more"}
		p := &pending[string]{each: 1}
		add := func(owner sandbox.Owner, id string) bool { return p.add(owner, id, id) == nil }
		claim := func(owner sandbox.Owner, id string) bool { _, ok := p.claim(owner, id); return ok }
		if claim(a, "1") || !add(a, "1") || add(a, "2") || !add(b, "2") {
			t.Error("more or less than one question of each owner is open")
		}
		if claim(a, "2") || claim(b, "1") || claim(c, "1") || !claim(a, "1") || claim(a, "1") {
			t.Error("a question was claimed by another owner, or twice")
		}
		time.Sleep(pendingTime + 1)
		if claim(b, "2") || !add(b, "3") {
			t.Error("a question stayed open for too long")
		}
		for i := range maxPending - 1 {
			if !add(sandbox.Owner{Principal: fmt.Sprint(i)}, fmt.Sprint("n", i)) {
				t.Errorf("no room for %d", i)
			}
		}
		if add(more, "x") || len(p.open) != maxPending {
			t.Errorf("%d questions are open", len(p.open))
		}
		time.Sleep(pendingTime + 1)
		if !add(more, "x") || len(p.open) != 1 {
			t.Errorf("%d questions are open long after", len(p.open))
		}
		p.each = 2
		if !add(more, "y") || add(more, "z") || !claim(more, "x") || !add(more, "z") {
			t.Error("more or less than two questions of each owner are open")
		}
	})
}
