package tools

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox/boxtest"
)

func TestMain(m *testing.M) { boxtest.Main(m) }
