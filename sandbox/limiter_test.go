package sandbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Queued commands acquire slots one by one, the first first, and those that have left
// the queue are skipped.
func TestLimiterQueuesFirstInFirstOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(2)
		acquired := make(chan int, 10)
		acquire := func(n int, ctx context.Context, wait time.Duration) {
			if l.acquire(ctx, wait) {
				acquired <- n
			}
		}
		for n := range 2 {
			acquire(n, t.Context(), 0)
		}
		if l.acquire(t.Context(), 0) {
			t.Fatal("a third acquired a slot")
		}
		gone, leave := context.WithCancel(t.Context())
		for n, ctx := range []context.Context{t.Context(), gone, t.Context()} {
			go acquire(10+n, ctx, time.Hour)
			synctest.Wait() // so that their order is known
		}
		go acquire(13, t.Context(), time.Second)
		synctest.Wait()
		leave()
		go func() { // slots free, but not for the last one
			for range 7 {
				time.Sleep(stallTimeout * 3 / 4)
				l.mu.Lock()
				l.freed++
				l.mu.Unlock()
			}
		}()
		time.Sleep(stallTimeout * 11 / 2)
		for range 4 { // two that were queued, and the two before them
			l.release()
			synctest.Wait()
		}
		close(acquired)
		var order []int
		for n := range acquired {
			order = append(order, n)
		}
		if len(order) != 4 || order[2] != 10 || order[3] != 12 || l.used != 0 || len(l.queued) != 0 {
			t.Errorf("%v, %d slots used, %d queued", order, l.used, len(l.queued))
		}
	})
}

// A queue that stalls is refused soon, however long a command would wait.
func TestStalledQueueIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(0)
		began := time.Now()
		if l.acquire(t.Context(), time.Hour) || time.Since(began) != stallTimeout || len(l.queued) != 0 {
			t.Errorf("after %v, %d queued", time.Since(began), len(l.queued))
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{}
		ctx, cancel := context.WithCancel(t.Context())
		for range maxQueue {
			go l.acquire(ctx, time.Hour)
		}
		synctest.Wait()
		began := time.Now()
		if l.acquire(ctx, time.Hour) || time.Since(began) > 0 {
			t.Error("one more was queued")
		}
		cancel()
		synctest.Wait()
		if len(l.queued) > 0 {
			t.Errorf("%d are queued that have left", len(l.queued))
		}
	})
}

// A box has spare shells only where they are a small part of it.
func TestSpareShellsNeedRoom(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want int
	}{
		{Spec{}, 0}, {Spec{Spares: 1}, 1}, {Spec{Spares: 2, Pids: 512, Memory: 2 << 30}, 2},
		{Spec{Spares: 1, Pids: 63}, 0}, {Spec{Spares: 1, Memory: 127 << 20}, 0},
	} {
		if got := spareShells(c.spec); got != c.want {
			t.Errorf("%+v: %d, want %d", c.spec, got, c.want)
		}
	}
}
