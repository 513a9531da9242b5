// Package weekly tells tests whether they have all the time they want. The usual
// run takes minutes on two cores; `scripts/test --weekly` sets WARMBOX_WEEKLY, and
// then tests repeat more often, on more engines, with more data.
//
// It does not skip: a test whose usual form would be empty calls Only.
package weekly

import (
	"os"
	"testing"
)

// On reports whether this is the weekly run.
func On() bool { return os.Getenv("WARMBOX_WEEKLY") != "" }

// Or returns the weekly value in the weekly run, otherwise the usual one.
func Or[T any](usual, weekly T) T {
	if On() {
		return weekly
	}
	return usual
}

// Only skips a test that takes too long for the usual run.
func Only(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("takes long: scripts/test --weekly runs it")
	}
}
