package docker

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

func TestBox(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) { boxtest.Run(t, l, sandbox.Spec{Spares: 1}) })
}

// TestBoxWithShims runs the suite, its attacks too, in boxes whose programs have shims.
func TestBoxWithShims(t *testing.T) {
	weekly.Only(t)
	eachTransport(t, func(t *testing.T, l *Launcher) {
		boxtest.Run(t, l, sandbox.Spec{Spares: 1, Shims: &sandbox.Shims{Names: boxtest.Shimmed}})
	})
}
