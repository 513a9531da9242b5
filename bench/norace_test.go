//go:build !race

package bench_test

const raceMargin = 1
