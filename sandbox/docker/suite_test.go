package docker

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

func TestBox(t *testing.T) {
	eachTransport(t, func(t *testing.T, l *Launcher) { boxtest.Run(t, l, sandbox.Spec{Spares: 1}) })
}
