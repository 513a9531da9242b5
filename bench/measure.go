package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"
)

// A way is one way to do what is compared.
type way struct {
	name    string
	prepare func(context.Context) error // not timed; nil: there is nothing to
	do      func(context.Context) error
	undo    func(context.Context) error // as prepare
}

// warmUps are rounds whose times are dropped: caches, pools, the first box.
const warmUps = 3

// interleave does every way once a round and returns the times by way. Each
// round has an order of its own, since every way leaves work behind, in the
// engine or the kernel, that the next one meets.
func interleave(ctx context.Context, ways []way, rounds int) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(ways))
	for round := range rounds + warmUps {
		for _, i := range rand.Perm(len(ways)) {
			took, err := timed(ctx, ways[i])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", ways[i].name, err)
			}
			if round >= warmUps {
				times[i] = append(times[i], took)
			}
		}
	}
	return times, nil
}

func timed(ctx context.Context, w way) (took time.Duration, err error) {
	if w.prepare != nil {
		if err := w.prepare(ctx); err != nil {
			return 0, err
		}
	}
	begin := time.Now()
	err = w.do(ctx)
	took = time.Since(begin)
	if err == nil && w.undo != nil {
		err = w.undo(ctx)
	}
	return took, err
}

func p50(times []time.Duration) time.Duration { return percentile(times, 50) }

// percentile returns the time that so many in a hundred do not exceed.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)*p+99)/100-1]
}

func ratio(a, b time.Duration) string { return fmt.Sprintf("%.2f", float64(a)/float64(b)) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

// memory returns a process's figure of that name in bytes, and 0 where the
// system does not tell.
func memory(pid int, name string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name+":" {
			kb, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			return kb << 10
		}
	}
	return 0
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
