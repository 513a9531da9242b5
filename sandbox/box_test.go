package sandbox_test

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

func TestMain(m *testing.M) { boxtest.Main(m) }

// TestBox runs the suite on a real agent over a pipe.
func TestBox(t *testing.T) { boxtest.Run(t, boxtest.Agent(t), sandbox.Spec{}) }

// The owners of most tests.
var me, you = sandbox.Owner{Principal: "me"}, sandbox.Owner{Principal: "you"}
