package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// widths are the numbers of concurrent callers.
var widths = []int{1, 8, 32}

// concurrency measures how many commands per second end if several callers each run
// one after the other.
func (d *bed) concurrency(ctx context.Context, r *Report) error {
	ways, err := d.usable(ctx, "at once", d.light("true"))
	if err != nil || len(ways) < 2 {
		return err
	}
	for _, width := range widths {
		d.progress.step(fmt.Sprintf("%d at once", width))
		rates := make([][]float64, len(ways))
		var loads []way
		for i, w := range ways {
			loads = append(loads, way{name: w.name, do: func(ctx context.Context) error {
				rate, err := throughput(ctx, width, d.plan.window, w.do)
				rates[i] = append(rates[i], rate)
				return err
			}})
		}
		if _, err := interleave(ctx, loads, d.plan.loads); err != nil {
			return err
		}
		for i, w := range ways {
			r.Concurrent = append(r.Concurrent, Concurrent{w.name, width, median(rates[i]), medianRatio(rates[i], rates[0])})
		}
	}
	return nil
}

// throughput has width callers repeat do during window, and returns the calls per
// second. It waits for calls that have begun, and counts them.
func throughput(ctx context.Context, width int, window time.Duration, do func(context.Context) error) (float64, error) {
	counts, errs := make([]int, width), make([]error, width)
	var all sync.WaitGroup
	begin := time.Now()
	for i := range width {
		all.Go(func() {
			for errs[i] == nil && time.Since(begin) < window {
				errs[i] = do(ctx)
				counts[i]++
			}
		})
	}
	all.Wait()
	done := 0
	for _, n := range counts {
		done += n
	}
	return float64(done) / time.Since(begin).Seconds(), errors.Join(errs...)
}
