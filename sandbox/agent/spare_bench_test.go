//go:build linux

package agent_test

import (
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// BenchmarkShells compares a command on a spare shell, in a new shell of the agent and in
// a bash without an agent, in turns, so that other load affects all of them.
func BenchmarkShells(b *testing.B) {
	dir := b.TempDir()
	on, off := spareHost(b, 1, dir), spareHost(b, 0, dir)
	for _, cmd := range []string{"true", "echo hello", "ls /", "cat /etc/passwd | sort | wc -l"} {
		b.Run(cmd, func(b *testing.B) {
			var spare, fresh, plain time.Duration
			for b.Loop() {
				on.awaitSpares(1)
				spare += took(func() { on.outcome(on.run(wire.StartBody{Cmd: cmd})) })
				on.awaitSpares(1) // so that its start does not slow down the next measurement
				fresh += took(func() { off.outcome(off.run(wire.StartBody{Cmd: cmd})) })
				plain += took(func() { inPlain(b, dir, cmd) })
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(spare)/float64(plain), "spare/bash")
			b.ReportMetric(float64(fresh)/float64(plain), "new/bash")
		})
	}
}

func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
