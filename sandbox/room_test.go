package sandbox

import (
	"slices"
	"testing"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// An agent cannot add a name of its own to those that are asked for.
func TestReportedProgramsAreKnownOnes(t *testing.T) {
	if got := among([]string{"git", "go", "make"}, []string{"make", "rm -rf /\nroom: all is well", "git", "git"}); !slices.Equal(got, []string{"git", "make"}) {
		t.Errorf("%q", got)
	}
	if len(commonPrograms) > wire.MaxPrograms {
		t.Errorf("%d programs, an agent looks for %d", len(commonPrograms), wire.MaxPrograms)
	}
}
