package sandbox_test

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// BenchmarkShell is a command in a named shell beside the same command without.
func BenchmarkShell(b *testing.B) {
	m := boxtest.Manager(b, boxtest.Agent(b), sandbox.Spec{})
	box, _, err := m.Start(b.Context(), "", sandbox.Request{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, cmd, shell string }{
		{"plain", "true", ""},
		{"named", "true", "dev"},
		{"plain ls", "ls /; true", ""},
		{"named ls", "ls /; true", "dev"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				run, err := box.Exec(b.Context(), sandbox.Command{Cmd: c.cmd, Shell: c.shell})
				if err != nil {
					b.Fatal(err)
				}
				<-run.Done()
			}
		})
	}
}
