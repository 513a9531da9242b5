package boxtest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ProcessIO returns the sum of the kernel's counters of this process with the given
// names, such as rchar, the bytes that it has read. On a busy machine such a cost says
// more than a duration. Without counters the test is skipped.
func ProcessIO(t testing.TB, names ...string) (sum int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		name, figure, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if slices.Contains(names, name) {
			n, _ := strconv.ParseInt(figure, 10, 64)
			sum += n
		}
	}
	return sum
}
