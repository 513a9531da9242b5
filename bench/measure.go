package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A way is one of the ways that are compared.
type way struct {
	name    string
	prepare func(context.Context) error // not timed; may be nil
	do      func(context.Context) error
	undo    func(context.Context) error // timed apart; may be nil
}

// A pace is how often something is measured: warm-up rounds whose times are dropped,
// rounds that count, and the time after which no further round begins.
type pace struct {
	warm, rounds int
	most         time.Duration
}

// times are those of one way, in the order of rounds.
type times struct{ did, undid []time.Duration }

// interleave runs every way once in each round, and returns the times by way. The order
// is random in each round, because a way can leave work in the engine or the kernel
// that slows down the next one. No way runs twice in a row.
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
	if w.undo != nil { // also after a failure, which may have happened halfway
		begin = time.Now()
		err = errors.Join(err, w.undo(ctx))
		undid = time.Since(begin)
	}
	return did, undid, err
}

// percentile returns the p-th percentile by nearest rank, so a time that was measured.
func percentile(list []time.Duration, p int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[(len(sorted)*p+99)/100-1]
}

// ratio returns the median of a way's times as multiples of another's in the same
// round. A machine that slows down affects both, so the ratio stays the same.
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

// median returns the lower median, as by nearest rank.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[(len(list)-1)/2]
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
