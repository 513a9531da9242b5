package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A way is one way to do what is compared.
type way struct {
	name    string
	prepare func(context.Context) error // not part of the time; nil: there is nothing to
	do      func(context.Context) error
	undo    func(context.Context) error // as prepare
}

// A pace is how often something is done: rounds whose times are dropped, since
// they fill caches, rounds that count, and the time after which no other begins.
type pace struct {
	warm, rounds int
	most         time.Duration
}

// times are those of one way, in the order of rounds.
type times struct{ did, undid []time.Duration }

// interleave does every way once a round and returns the times by way. Each
// round has an order of its own, since every way leaves work behind, in the
// engine or the kernel, that the next one meets; none comes twice in a row.
func interleave(ctx context.Context, ways []way, p pace) ([]times, error) {
	all := make([]times, len(ways))
	begin := time.Now()
	last := -1
	for round := range p.warm + p.rounds {
		if round > p.warm && time.Since(begin) > p.most {
			break
		}
		order := rand.Perm(len(ways))
		if order[0] == last {
			slices.Reverse(order)
		}
		last = order[len(order)-1]
		for _, i := range order {
			did, undid, err := timed(ctx, ways[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round >= p.warm {
				all[i].did, all[i].undid = append(all[i].did, did), append(all[i].undid, undid)
			}
		}
	}
	return all, nil
}

func timed(ctx context.Context, w way) (did, undid time.Duration, err error) {
	if w.prepare != nil {
		if err := w.prepare(ctx); err != nil {
			return 0, 0, err
		}
	}
	begin := time.Now()
	err = w.do(ctx)
	did = time.Since(begin)
	if w.undo != nil { // also what failed, since it may have come halfway
		begin = time.Now()
		err = errors.Join(err, w.undo(ctx))
		undid = time.Since(begin)
	}
	return did, undid, err
}

// percentile returns the time that so many in a hundred do not exceed, by
// nearest rank: one that was measured.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[(len(sorted)*p+99)/100-1]
}

// ratio is the median of a way's times as multiples of another's in the same
// round: what a machine that slows down does to both cancels out.
func ratio(list, base []time.Duration) float64 {
	return medianRatio(seconds(list), seconds(base))
}

func medianRatio(list, base []float64) float64 {
	var pairs []float64
	for i := range min(len(list), len(base)) {
		if base[i] > 0 {
			pairs = append(pairs, list[i]/base[i])
		}
	}
	return median(pairs)
}

func seconds(list []time.Duration) (s []float64) {
	for _, t := range list {
		s = append(s, t.Seconds())
	}
	return s
}

// median is the lower one of an even number, as by nearest rank.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[(len(list)-1)/2]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
