package excerpt_test

import (
	"fmt"

	"github.com/warmbox/warmbox/sandbox/excerpt"
)

func ExampleCut() {
	stdout, stderr := &excerpt.Keeper{Limit: 100}, &excerpt.Keeper{Limit: 100}
	for i := range 1000 {
		fmt.Fprintf(stdout, "line %d\n", i+1)
	}
	fmt.Fprintln(stderr, "warning: \x1b[33mslow\x1b[m")
	out, errs := excerpt.Cut(stdout, stderr, excerpt.Limits{Whole: 100, Cut: 80})
	fmt.Print(out.Text)
	fmt.Print(errs.Text)
	// Output:
	// line 1
	// line 2
	// [… 994 lines, 8,842 bytes left out …]
	// line 997
	// line 998
	// line 999
	// line 1000
	// warning: ␛[33mslow␛[m
}

// A progress bar leaves only its last state, after a carriage return.
func ExampleSettle() {
	fmt.Printf("%q\n", excerpt.Settle([]byte("get  10%\rget  50%\rget 100%\ndone\n")))
	// Output: "\rget 100%\ndone\n"
}

func ExampleClip() {
	fmt.Println(excerpt.Clip("short", 10))
	fmt.Println(excerpt.Clip("grüße an alle", 4))
	// Output:
	// short
	// grü…
}
