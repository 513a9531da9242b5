package sandbox_test

import (
	"os/exec"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// BenchmarkExec is the path from Box.Exec to the exit, log included, beside a
// local shell that does the same.
func BenchmarkExec(b *testing.B) {
	m := boxtest.Manager(b, boxtest.Agent(b), sandbox.Spec{})
	box, _, err := m.Start(b.Context(), sandbox.Owner{}, sandbox.Request{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("box", func(b *testing.B) {
		for b.Loop() {
			run, err := box.Exec(b.Context(), sandbox.Command{Cmd: "true"})
			if err != nil {
				b.Fatal(err)
			}
			<-run.Done()
		}
	})
	b.Run("local", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("bash", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
