package docker

import (
	"slices"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

func TestBox(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) { boxtest.Run(t, l, sandbox.Spec{Spares: 1}) })
}

// TestBoxWithShims runs the suite, its attacks too, in boxes whose programs have shims. The suite
// counts left-over processes, and a program with a shim is two, so what it leaves over has none.
func TestBoxWithShims(t *testing.T) {
	weekly.Only(t)
	var names []string
	for _, name := range boxtest.Shimmed {
		if !slices.Contains([]string{"sleep", "setsid", "sh", "yes", "bash"}, name) {
			names = append(names, name)
		}
	}
	eachTransport(t, func(t *testing.T, l *Launcher) {
		boxtest.Run(t, l, sandbox.Spec{Spares: 1, Shims: &sandbox.Shims{Names: names}})
	})
}
