package tools

import (
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// TestLimitedHintSaysWhatTheLogLacks: what a shim has cut is in no log, so the model is told the
// limits that there are, and another way.
func TestLimitedHintSaysWhatTheLogLacks(t *testing.T) {
	for want, l := range map[string]sandbox.Limited{
		"at most 4000 bytes and 200 lines of a call": {Calls: 1, Bytes: 4000, Lines: 200},
		"at most 4000 bytes of a call":               {Calls: 2, Bytes: 4000},
		"at most 7 lines of a call":                  {Calls: 2, Lines: 7},
	} {
		got := strings.ReplaceAll(strings.Join(limitedHint(l), ""), ",000", "000")
		if !strings.Contains(got, want) || !strings.Contains(got, "the rest is not in the log") {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
	if got := limitedHint(sandbox.Limited{Bytes: 4000, Lines: 200}); got != nil {
		t.Errorf("without a cut: %q", got)
	}
}

func TestNoteOfDeniedCall(t *testing.T) {
	if got := noteOf(sandbox.Program{Shim: true, Failed: true, Denied: true}); got != "a shim answered, denied" {
		t.Errorf("%q", got)
	}
}

// TestLogsOffersCallsOfShims: the argument exists where records of programs or of shims do.
func TestLogsOffersCallsOfShims(t *testing.T) {
	for want, spec := range map[string]sandbox.Spec{
		"":                          {},
		"programs that it executed": {AuditPrograms: true, Shims: &sandbox.Shims{}},
		"programs that have a shim": {Shims: &sandbox.Shims{}},
	} {
		s := &Set{Manager: &sandbox.Manager{Defaults: spec}}
		schema := string(s.logsTool().RawInputSchema)
		if strings.Contains(schema, `"programs"`) != (want != "") || !strings.Contains(schema, want) {
			t.Errorf("%+v: %s", spec, schema)
		}
	}
}
