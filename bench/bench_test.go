package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkExec runs `true` in every way, each in turns with the local shell,
// so that × local does not depend on what the machine did meanwhile.
func BenchmarkExec(b *testing.B) {
	ways := newTestBed(b).ways("true")
	for _, w := range ways[1:] {
		b.Run(w.name, func(b *testing.B) { compare(b, ways[0], w, "x-local") })
	}
}

// BenchmarkStart starts a box, in turns with a bare container.
func BenchmarkStart(b *testing.B) {
	ways := newTestBed(b).startWays()
	compare(b, ways[0], ways[1], "x-bare")
}

func compare(b *testing.B, with, w way, unit string) {
	times, err := interleave(b.Context(), []way{with, w}, b.N)
	if err != nil {
		b.Fatal(err)
	}
	theirs, mine := times[0], times[1]
	b.ReportMetric(0, "ns/op") // of both ways and of what is not timed: no figure
	b.ReportMetric(p50(mine).Seconds()*1000, "p50-ms")
	b.ReportMetric(percentile(mine, 95).Seconds()*1000, "p95-ms")
	b.ReportMetric(float64(p50(mine))/float64(p50(theirs)), unit)
}

func newTestBed(b *testing.B) *bed {
	t, err := newBed(b.Context(), options{program: "../bin/warmbox", image: defaultImage})
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() {
		if err := t.close(); err != nil {
			b.Error(err)
		}
	})
	return t
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for _, test := range []struct {
		times []time.Duration
		p     int
		want  time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 50, 7},
		{[]time.Duration{7}, 95, 7},
		{[]time.Duration{3, 1, 2}, 50, 2},
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 100, 100},
	} {
		before := slices.Clone(test.times)
		if got := percentile(test.times, test.p); got != test.want {
			t.Errorf("percentile %d of %d times is %d, want %d", test.p, len(test.times), got, test.want)
		}
		if !slices.Equal(before, test.times) {
			t.Error("the times were put into another order")
		}
	}
}

func TestPrintReadings(t *testing.T) {
	var out strings.Builder
	printReadings(&out, []reading{{100, 120}, {90_000, 1500}, {300, 330}})
	got := strings.Fields(out.String()[strings.Index(out.String(), "median of all"):])
	want := strings.Fields("median of all 3 300 330 0.9 median of those not shown whole 1 90000 1500 60.0 sum of all 3 90400 1950 46.4")
	if !slices.Equal(got, want) {
		t.Errorf("got %q", out.String())
	}
}

// What a server logs comes in pieces of any size.
func TestStarts(t *testing.T) {
	const log = "12:00 INF serving\n12:01 INF box started box=b\n12:02 INF command\n"
	for size := 1; size <= len(log); size++ {
		var next strings.Builder
		s := &starts{next: &next, seen: make(chan struct{}, 1)}
		for i := 0; i < len(log); i += size {
			if n, err := s.Write([]byte(log[i:min(i+size, len(log))])); err != nil || i+n != min(i+size, len(log)) {
				t.Fatal(n, err)
			}
		}
		if len(s.seen) != 1 || next.String() != log {
			t.Errorf("in pieces of %d bytes: %d boxes, and passed on is %q", size, len(s.seen), next.String())
		}
	}
}

// BenchmarkStop stops a box, in turns with the removal of a bare container.
func BenchmarkStop(b *testing.B) {
	ways := newTestBed(b).stopWays()
	compare(b, ways[0], ways[1], "x-bare")
}
