//go:build race

package bench_test

// raceMargin is for what the race detector allocates besides.
const raceMargin = 1.25
