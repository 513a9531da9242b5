package replay

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// What replies must reach: the least share of steps whose facts are all in the first
// reply, and the most calls and tokens, as shares of those of the baseline.
const (
	leastSufficient = 0.95
	mostCalls       = 0.75
	mostTokens      = 0.55
)

func TestRepliesAreEnoughForTheNextStep(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands need bash")
	}
	text, err := os.ReadFile(baselineFile)
	if err != nil {
		t.Fatal(err)
	}
	baseline := map[Form]Figures{}
	for line := range strings.Lines(string(text)) {
		var form Form
		var f Figures
		if _, err := fmt.Sscanf(line, "%s "+figuresFormat, &form, &f.Steps, &f.Sufficient, &f.Calls, &f.Tokens, &f.Never); err != nil {
			t.Fatalf("%s: %q: %v", baselineFile, line, err)
		}
		baseline[form] = f
	}
	for form, f := range measure(t) {
		was := baseline[form]
		if float64(f.Sufficient) < leastSufficient*float64(f.Steps) {
			t.Errorf("%s: the first reply is enough for %d of %d steps, want %.0f%%", form, f.Sufficient, f.Steps, 100*leastSufficient)
		}
		if most := int(mostCalls * float64(was.Calls)); f.Calls > most {
			t.Errorf("%s: %d calls, want at most %d", form, f.Calls, most)
		}
		if most := int(mostTokens * float64(was.Tokens)); f.Tokens > most {
			t.Errorf("%s: %d tokens, want at most %d", form, f.Tokens, most)
		}
		if f.Never > 0 {
			t.Errorf("%s: %d steps have facts that no reply shows", form, f.Never)
		}
	}
}
