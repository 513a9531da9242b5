// Package weekly tells tests whether they may take long. The usual run takes minutes on
// two cores. `scripts/test --weekly` sets WARMBOX_WEEKLY; tests then repeat more often,
// on more engines, with more data.
//
// A test that has no shorter form calls Only, which skips it in the usual run.
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
