package sandbox_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

func TestLastLines(t *testing.T) {
	var all sandbox.LastLines
	for i := range 100_000 {
		fmt.Fprintf(&all, "line %d\n", i)
	}
	got := strings.Split(all.String(), "\n")
	if len(got) != 50 || got[0] != "line 99950" || got[49] != "line 99999" {
		t.Errorf("%d lines from %q to %q", len(got), got[0], got[len(got)-1])
	}
	var one sandbox.LastLines
	one.Write(bytes.Repeat([]byte("x"), 1<<20))
	if got := one.String(); len(got) != 16<<10 {
		t.Errorf("one long line: %d bytes", len(got))
	}
	one.Write(bytes.Repeat([]byte("y"), 1<<10))
	if got := one.String(); len(got) != 16<<10 || strings.Count(got, "y") != 1<<10 {
		t.Errorf("and some more of it: %d bytes, %d new ones", len(got), strings.Count(got, "y"))
	}
	var few sandbox.LastLines
	few.Write([]byte("a\nb"))
	if got := few.String(); got != "a\nb" {
		t.Errorf("%q", got)
	}
}
