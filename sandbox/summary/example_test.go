package summary_test

import (
	"fmt"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// A failed test run is summarized by its verdict, the failures with their messages,
// and the tool's own counts, each line after its number.
func ExampleSummarizer_Summary() {
	s := summary.New(summary.Options{Cmd: "go test -v ./..."})
	for i := range 500 {
		fmt.Fprintf(s, "=== RUN   TestCase%d\n--- PASS: TestCase%d (0.00s)\n", i, i)
	}
	fmt.Fprint(s, "=== RUN   TestLedger\n    ledger_test.go:42: got 7, want 9\n--- FAIL: TestLedger (0.01s)\n")
	fmt.Fprint(s, "FAIL\nFAIL\texample.com/ledger\t0.412s\n")
	fmt.Println(s.Summary(summary.Exit{Code: 1}))
	// Output:
	// exit 1, 1005 lines, 26 kB; 6 shown
	// 999: === RUN   TestCase499 [×500, 1-999]
	// 1000: --- PASS: TestCase499 (0.00s) [×500, 2-1000]
	// 1001: === RUN   TestLedger
	// 1002: ledger_test.go:42: got 7, want 9
	// 1003: --- FAIL: TestLedger (0.01s)
	// 1005: FAIL	example.com/ledger	0.412s
}
