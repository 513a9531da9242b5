package sandbox_test

import (
	"slices"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// BenchmarkShell is a command in a named shell beside the same without, in turn,
// so that both meet the same machine. The ratio is that of the medians.
func BenchmarkShell(b *testing.B) {
	m := boxtest.Manager(b, boxtest.Agent(b), sandbox.Spec{})
	box, _, err := m.Start(b.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		b.Fatal(err)
	}
	took := func(cmd, shell string) time.Duration {
		began := time.Now()
		run, err := box.Exec(b.Context(), sandbox.Command{Cmd: cmd, Shell: shell})
		if err != nil {
			b.Fatal(err)
		}
		<-run.Done()
		return time.Since(began)
	}
	for _, cmd := range []string{"true", "ls /; true"} {
		b.Run(cmd, func(b *testing.B) {
			var plain, named []time.Duration
			for b.Loop() {
				plain = append(plain, took(cmd, ""))
				named = append(named, took(cmd, "dev"))
			}
			slices.Sort(plain)
			slices.Sort(named)
			middle := len(plain) / 2
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(plain[middle].Seconds()*1000, "plain-ms")
			b.ReportMetric(named[middle].Seconds()*1000, "named-ms")
			b.ReportMetric(float64(named[middle])/float64(plain[middle]), "ratio")
		})
	}
}
