package boxtest

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ProcessIO returns what the kernel has counted of this process under the given
// names, such as rchar, the bytes that it has read, added up. What it costs says
// more than how long it takes, on a machine that has other work. Where nothing is
// counted the test is skipped.
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
