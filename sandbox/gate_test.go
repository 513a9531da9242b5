package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Who waits is let in one by one, the first first, and who gives up is skipped.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := crowdGate(2)
		in := make(chan int, 10)
		enter := func(n int, ctx context.Context, patience time.Duration) {
			if g.enter(ctx, patience) {
				in <- n
			}
		}
		for n := range 2 {
			enter(n, t.Context(), 0)
		}
		if g.enter(t.Context(), 0) {
			t.Fatal("a third was let in")
		}
		gone, leave := context.WithCancel(t.Context())
		for n, ctx := range []context.Context{t.Context(), gone, t.Context()} {
			go enter(10+n, ctx, time.Hour)
			synctest.Wait() // or who came first would be anybody's guess
		}
		go enter(13, t.Context(), time.Second)
		synctest.Wait()
		leave()
		go func() { // the line moves, but not for the last one
			for range 7 {
				time.Sleep(standing * 3 / 4)
				g.mu.Lock()
				g.left++
				g.mu.Unlock()
			}
		}()
		time.Sleep(standing * 11 / 2)
		for range 4 { // two that waited, and the two that were inside
			g.leave()
			synctest.Wait()
		}
		close(in)
		var order []int
		for n := range in {
			order = append(order, n)
		}
		if len(order) != 4 || order[2] != 10 || order[3] != 12 || g.inside != 0 || len(g.line) != 0 {
			t.Errorf("%v, %d inside, %d in line", order, g.inside, len(g.line))
		}
	})
}

// A line that does not move is refused soon, however long one would wait.
func TestGateStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := crowdGate(0)
		began := time.Now()
		if g.enter(t.Context(), time.Hour) || time.Since(began) != standing || len(g.line) != 0 {
			t.Errorf("after %v, %d in line", time.Since(began), len(g.line))
		}
	})
}

func TestGateLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{}
		ctx, cancel := context.WithCancel(t.Context())
		for range maxLine {
			go g.enter(ctx, time.Hour)
		}
		synctest.Wait()
		began := time.Now()
		if g.enter(ctx, time.Hour) || time.Since(began) > 0 {
			t.Error("one more was let wait")
		}
		cancel()
		synctest.Wait()
		if len(g.line) > 0 {
			t.Errorf("%d wait that have gone", len(g.line))
		}
	})
}

// TestSparesOf sees that shells stand ready only where they are a small part of a box.
func TestSparesOf(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want int
	}{
		{Spec{}, 0}, {Spec{Spares: 1}, 1}, {Spec{Spares: 2, Pids: 512, Memory: 2 << 30}, 2},
		{Spec{Spares: 1, Pids: 63}, 0}, {Spec{Spares: 1, Memory: 127 << 20}, 0},
	} {
		if got := sparesOf(c.spec); got != c.want {
			t.Errorf("%+v: %d, want %d", c.spec, got, c.want)
		}
	}
}
