package summary

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// checkDigest checks that a digest is within its bounds, and that each of its lines is
// text of the output's line of that number.
func checkDigest(t *testing.T, output []byte, d Digest, kept int) {
	t.Helper()
	if len(d.Kept) > kept || strings.Count(d.Kept, "\n") > KeptLines {
		t.Errorf("kept %d bytes in %d lines", len(d.Kept), strings.Count(d.Kept, "\n"))
	}
	for _, n := range d.Failures {
		if !strings.Contains(d.Summary, fmt.Sprintf("\n%d: ", n)) {
			t.Errorf("line %d of a failure is not in the summary:\n%s", n, d.Summary)
		}
	}
	if strings.ContainsFunc(d.Kept, forbidden) {
		t.Errorf("not inert: %q", d.Kept)
	}
	checkVerbatim(t, output, "kept\n"+d.Kept)
	last := 0
	for l := range strings.Lines(d.Kept) {
		n := 0
		if fmt.Sscanf(l, "%d:", &n); n <= last {
			t.Errorf("line %d comes after line %d", n, last)
		}
		last = n
	}
}

func TestDigestMatchesSummaryAndOutput(t *testing.T) {
	for _, set := range []string{"dev", "own", "later"} {
		for _, c := range loadCases(t, set) {
			exit := Exit{Code: c.exit}
			s := New(Options{Cmd: c.cmd})
			s.Write(c.output)
			d := s.Digest(exit)
			checkDigest(t, c.output, d, KeptBytes)
			if again := s.Digest(exit); !reflect.DeepEqual(again, d) {
				t.Errorf("%s: the second digest differs", c.name)
			}
			if got := s.Summary(exit); got != d.Summary || got != c.summarize(0) {
				t.Errorf("%s: the summary after the digest differs", c.name)
			}
			if len(c.output) > 100 && s.binary == "" && len(d.Kept) < 80 {
				t.Errorf("%s: only %q is kept", c.name, d.Kept)
			}
		}
	}
}

// A digest of a long log has failures, both ends and rare lines, even if there are very
// many failures.
func TestDigestHasFailuresEndsAndRareLines(t *testing.T) {
	var log bytes.Buffer
	log.WriteString("first of all\n")
	for i := range 3000 {
		fmt.Fprintf(&log, "--- FAIL: TestNumber%d (0.00s)\n    number_test.go:%d: got %d\n", i, i, i)
		if i == 1500 {
			log.WriteString("WARN the disk is nearly full\n")
		}
	}
	log.WriteString("last of all\n")
	for _, kept := range []int{0, 4000, 10 * KeptBytes} {
		s := New(Options{Kept: kept})
		s.Write(log.Bytes())
		d := s.Digest(Exit{Code: 1})
		for _, want := range []string{"1: first of all\n", "2: --- FAIL: TestNumber0 ", "3:     number_test.go:0: got 0\n", "WARN the disk", "6003: last of all\n"} {
			if !strings.Contains("\n"+d.Kept, want) {
				t.Errorf("of %d bytes, %q is missing", kept, want)
			}
		}
		if limit := cmp.Or(min(kept, KeptBytes), KeptBytes); len(d.Kept) > limit {
			t.Errorf("%d bytes, of at most %d", len(d.Kept), limit)
		}
	}
}

func TestDigestOfBinaryHasNoLines(t *testing.T) {
	s := New(Options{})
	s.Write([]byte("\x7fELF\x00\x00"))
	if d := s.Digest(Exit{}); d.Kept != "" || d.Summary == "" || d.Bytes != 6 {
		t.Errorf("got %+v", d)
	}
}

// TestDigestNamesTheLinesOfFailures: those that rules found, not each line with a word of trouble.
func TestDigestNamesTheLinesOfFailures(t *testing.T) {
	s := New(Options{Cmd: "go test ./..."})
	for i := range 300 {
		fmt.Fprintf(s, "ok  \texample.com/p%d\t0.01s\n", i)
	}
	fmt.Fprint(s, "--- FAIL: TestSum (0.00s)\n    sum_test.go:12: got 4, want 5\nFAIL\n")
	for i := range 300 {
		fmt.Fprintf(s, "rejected_connections_of_%d:0 failures\n", i)
	}
	d := s.Digest(Exit{Code: 1})
	if want := []int{301, 302}; !reflect.DeepEqual(d.Failures, want) {
		t.Errorf("%v, want %v of\n%s", d.Failures, want, d.Summary)
	}
}
