package tools

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

const (
	// maxResult bounds a result as JSON, both forms together. Hosts refuse or cut
	// larger ones.
	maxResult = 200 << 10

	// envelope is the size of the protocol's own parts, a link and the hint to the
	// rest of the output.
	envelope = 1 << 10

	// surelyFits is an amount of output that fits whatever it consists of: "<" is
	// written as \u003c, six bytes, in both forms.
	surelyFits = 15_000
)

// ShownOutput is what a result shows of the output of a command, made inert, and how much it
// omits.
type ShownOutput struct {
	Truncated    bool   `json:"truncated"`
	OmittedBytes int64  `json:"omittedBytes,omitempty"` // of both streams
	OmittedLines int64  `json:"omittedLines,omitempty"`
	Stdout       string `json:"stdout,omitempty"`
	Stderr       string `json:"stderr,omitempty"`

	binary string // which streams are not shown because they are binary data
	lines  int64  // of both streams
	shown  int64  // bytes of both streams, before they were made inert
	unseen int64  // the first line of the log that is not shown; 0: unknown, or none
}

// readOn says how to read the output that the result does not show.
func (r *ExecResult) readOn() string {
	switch {
	case r.LogPath == "":
		return ""
	case r.Status == sandbox.Running && r.tty:
		return typeOn(r.ExecID)
	case r.Status == sandbox.Running:
		next := r.logged + 1
		if midLine(r.Stdout) || midLine(r.Stderr) {
			next = max(1, r.logged)
		}
		return fmt.Sprintf(`Follow it with logs {"execId": %q, "fromLine": %d, "waitSeconds": 45}.`, r.ExecID, next)
	case r.binary != "":
		return "To see the data pipe it through xxd, or write it to a file."
	case r.Truncated:
		return fmt.Sprintf(`Read the rest with logs {"execId": %q, "fromLine": %d}, or search it with grep.`, r.ExecID, max(1, r.unseen))
	}
	return ""
}

// midLine reports whether a text ends within a line.
func midLine(text string) bool { return text != "" && !strings.HasSuffix(text, "\n") }

// fit shows output within limits. If the result is too large as JSON, it shows less: first in
// proportion, and if the rest has more escapes than the whole, surelyFits.
func (r *ExecResult) fit(output func(excerpt.Limits) (stdout, stderr excerpt.Excerpt), l excerpt.Limits) {
	r.show(output(l))
	if r.shown <= surelyFits {
		return
	}
	const room = maxResult - envelope
	size := r.size()
	for _, n := range []int{int(r.shown) * (room - envelope) / size, surelyFits} {
		if size <= room {
			return
		}
		r.show(output(excerpt.Limits{Whole: n, Cut: n}))
		size = r.size()
	}
}

// size returns the size of both forms as JSON.
func (r *ExecResult) size() int {
	structured, _ := json.Marshal(r)
	text, _ := json.Marshal(r.Text())
	return len(structured) + len(text)
}

// show sets the output that the result shows.
func (r *ExecResult) show(stdout, stderr excerpt.Excerpt) {
	r.Stdout, r.Stderr = stdout.Text, stderr.Text
	r.binary = binaryOutput(stdout, stderr)
	r.lines = stdout.Lines + stderr.Lines
	r.OmittedBytes = stdout.OmittedBytes + stderr.OmittedBytes
	r.OmittedLines = stdout.OmittedLines + stderr.OmittedLines
	r.Truncated = r.OmittedBytes > 0
	r.unseen = firstOf(stdout.FirstOmitted, stderr.FirstOmitted)
	r.shown = stdout.Bytes + stderr.Bytes - r.OmittedBytes
	if r.binary != "" && r.OmittedLines == 0 {
		r.digested = false // the verdict says all that is known
	}
	if !r.digested {
		r.Summary = r.shortSummary()
	}
}

// firstOf returns the smaller of two numbers of lines. 0 is none.
func firstOf(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
