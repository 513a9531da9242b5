//go:build race

package bench_test

// raceMargin allows for the allocations of the race detector.
const raceMargin = 1.25
