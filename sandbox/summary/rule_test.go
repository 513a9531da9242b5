package summary

import (
	"strings"
	"testing"
)

// The trigger set finds every rule by its hints.
func TestTriggersFindEveryRule(t *testing.T) {
	if len(rules) >= rulesEnd {
		t.Fatalf("there are %d rules, but a rule set holds at most %d", len(rules), rulesEnd)
	}
	for i, r := range rules {
		if len(r.hints) == 0 {
			t.Errorf("%v has no hint, so it is never tried", r.start)
		}
		for _, h := range r.hints {
			if len(h) < 4 || h != strings.ToLower(h) {
				t.Errorf("%v: the hint %q is short or has capitals", r.start, h)
			} else if !triggers.in([]byte("x" + strings.ToUpper(h))).has(i) {
				t.Errorf("%v: the hint %q triggers nothing", r.start, h)
			}
		}
	}
}

// Lines with words of trouble that report success are not trouble.
func TestPassesDistinguishesSuccessFromTrouble(t *testing.T) {
	for _, quiet := range []string{
		"--- PASS: TestErrorIsWrapped (0.00s)",
		"  ✓ fails with exception on bad input (3 ms)",
		"test tests::error_path ... ok",
		"tests/test_x.py::test_failure PASSED [ 50%]",
		"    0 Error(s)",
		"INFO job done errors=0 failed=0",
		"finished without errors",
		"12 passed, 0 failed",
	} {
		if !passes(quiet, strings.ToLower(quiet)) {
			t.Errorf("%q counts as trouble", quiet)
		}
	}
	for _, loud := range []string{
		"0 warnings and 2 errors generated",
		"--- FAIL: TestOkay (0.00s)",
		"error: 0 errors expected",
		"Passed by value: undefined: x",
	} {
		if passes(loud, strings.ToLower(loud)) {
			t.Errorf("%q counts as success", loud)
		}
	}
}
