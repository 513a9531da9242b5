package tools

import "github.com/warmbox/warmbox/sandbox/excerpt"

const (
	// maxResult bounds a whole result as JSON, its two forms together. Hosts
	// refuse or cut what is much longer.
	maxResult = 200 << 10

	// besides is the room for all that is not output, in both forms.
	besides = 12 << 10

	// maxText is what is left for one copy of the output, as JSON.
	maxText = (maxResult - besides) / 2

	// maxGrowth is how many bytes of JSON one byte of a box can become: "<" is
	// written as \u003c.
	maxGrowth = 6
)

// fit cuts output to limits, and further where it would grow too large as JSON.
// Plain text stays far below that, so most output is cut once only.
func fit(output func(excerpt.Limits) (stdout, stderr excerpt.Excerpt), l excerpt.Limits) (stdout, stderr excerpt.Excerpt) {
	stdout, stderr = output(l)
	size := jsonSize(stdout.Text) + jsonSize(stderr.Text)
	if size <= maxText {
		return stdout, stderr
	}
	// What is kept may be denser than what goes: try in proportion, then be sure.
	shown := len(stdout.Text) + len(stderr.Text)
	for _, n := range []int{shown * (maxText - 1024) / size, (maxText - 1024) / maxGrowth} {
		stdout, stderr = output(excerpt.Limits{Whole: n, Cut: n})
		if jsonSize(stdout.Text)+jsonSize(stderr.Text) <= maxText {
			break
		}
	}
	return stdout, stderr
}

// jsonSize is the length of an inert text within a JSON string, as
// encoding/json writes it.
func jsonSize(s string) int {
	n := len(s)
	for i := range len(s) {
		switch s[i] {
		case '"', '\\', '\n', '\t':
			n++
		case '<', '>', '&':
			n += maxGrowth - 1
		}
	}
	return n
}
