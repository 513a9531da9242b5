package summary

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// A long output of one kind of lines, with one in the middle that only a caller who
// looks for it finds important.
func inventory(w io.Writer) {
	for i := range 3000 {
		item := letters[i%len(letters)] + letters[i/7%len(letters)]
		if i == 1700 {
			item = "Zebra-TLS"
		}
		fmt.Fprintf(w, "item %s in hall %d, shelf %d, taken by %s\n", item, i%9, i, letters[i*i%len(letters)])
	}
}

func TestWantedLinesAreShown(t *testing.T) {
	for _, words := range []string{"zebra", "where is the Zebra-TLS?", "tls", `"shelf 1700"`} {
		s := New(Options{Want: words})
		inventory(s)
		if text := s.Summary(Exit{}); !strings.Contains(text, "1701: item Zebra-TLS") {
			t.Errorf("want %q:\n%s", words, text)
		}
	}
}

// A rare word decides among lines that differ only in numbers.
func TestRareWordDecidesAmongAlikeLines(t *testing.T) {
	for _, words := range []string{"request number 1717", "ok request 1717", "what about the request with number 1717?"} {
		s := New(Options{Want: words})
		for n := range 3000 {
			fmt.Fprintf(s, "ok request number %d\n", n)
		}
		d := s.Digest(Exit{})
		if !strings.Contains(d.Summary, "1718: ok request number 1717") || len(d.Wanted) == 0 || d.Wanted[0] != 1718 {
			t.Errorf("want %q: %v\n%s", words, d.Wanted, d.Summary)
		}
	}
}

// Words that are nowhere, and words that say nothing, change nothing.
func TestWantOfNothingChangesNothing(t *testing.T) {
	plain := New(Options{})
	inventory(plain)
	expected := plain.Summary(Exit{})
	for _, words := range []string{"giraffe", "show me all the lines", "??", ""} {
		s := New(Options{Want: words})
		inventory(s)
		if text := s.Summary(Exit{}); text != expected {
			t.Errorf("want %q:\n%s\nexpected:\n%s", words, text, expected)
		}
	}
}

// A want does not hide why a command failed.
func TestWantHidesNoFailure(t *testing.T) {
	for name, c := range map[string]Exit{"failed": {Code: 1}, "exit 0": {}} {
		s := New(Options{Want: "item hall shelf taken"})
		inventory(s)
		io.WriteString(s, "--- FAIL: TestLedger (0.01s)\n    ledger_test.go:42: got 7, want 9\n")
		inventory(s)
		text := s.Summary(c)
		for _, part := range []string{"FAIL: TestLedger", "ledger_test.go:42: got 7, want 9", "shelf"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is missing in:\n%s", name, part, text)
			}
		}
	}
}

// The failures that the caller looks for are shown before others, after the first.
func TestWantedFailuresComeFirst(t *testing.T) {
	s := New(Options{Want: "TestCase37"})
	for i := range 40 {
		fmt.Fprintf(s, "    ledger_test.go:%d: got %d: the ledger does not balance, and here is a long word about why\n--- FAIL: TestCase%d (0.00s)\n", i, i, i)
	}
	text := s.Summary(Exit{Code: 1})
	for _, part := range []string{"--- FAIL: TestCase0 ", "--- FAIL: TestCase37 ", "more failed: "} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}
