package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// crowdWidths are how many run commands at once.
var crowdWidths = []int{1, 8, 32}

// crowds measures how many commands a second come to their end where so many run
// one after the other.
func (d *bed) crowds(ctx context.Context, r *Report) error {
	ways, err := d.usable(ctx, "at once", d.light("true"))
	if err != nil || len(ways) < 2 {
		return err
	}
	for _, width := range crowdWidths {
		d.progress.step(fmt.Sprintf("%d at once", width))
		rates := make([][]float64, len(ways))
		var crowds []way
		for i, w := range ways {
			crowds = append(crowds, way{name: w.name, do: func(ctx context.Context) error {
				rate, err := throng(ctx, width, d.plan.window, w.do)
				rates[i] = append(rates[i], rate)
				return err
			}})
		}
		if _, err := interleave(ctx, crowds, d.plan.crowds); err != nil {
			return err
		}
		for i, w := range ways {
			r.Crowds = append(r.Crowds, Crowd{w.name, width, median(rates[i]), medianRatio(rates[i], rates[0])})
		}
	}
	return nil
}

// throng has so many do something again and again for a while, and returns how
// often a second it was done. What has begun by then is waited for and counts.
func throng(ctx context.Context, width int, window time.Duration, do func(context.Context) error) (float64, error) {
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
