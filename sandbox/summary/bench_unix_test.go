//go:build unix

package summary

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// corpora are logs of several kinds with different costs.
func corpora(b *testing.B, size int) map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return letters[random.IntN(len(letters))] }
	return map[string][]byte{
		"log":   mixedLog(size),
		"same":  generate(size, func(w io.Writer, _ int) { fmt.Fprintln(w, "a line of ordinary text, one of very many") }),
		"cases": allCases(b, size),
		"failures": generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, "--- FAIL: Test%s%s%d (0.01s)\n    %s_test.go:%d: got %s, want %s\n", word(), word(), i, word(), i%900, word(), word())
		}),
		"diagnostics": generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, "src/%s/%s.c:%d:7: error: '%s' undeclared (first use in this function)\n   %d | %s = %s(%s);\n      | ^~~~~\n",
				word(), word(), i, word(), i, word(), word(), word())
		}),
		"colours": generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, "\x1b[32m✓\x1b[0m %s/%s.test.ts \x1b[2m(%d tests)\x1b[22m \x1b[33m%d\x1b[2mms\x1b[22m\n", word(), word(), i%90, i%300)
		}),
		"progress": generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, "\rdownloading %s %3d%% [=====>      ] %d/1000 kB", word(), i%100, i)
			if i%100 == 99 {
				fmt.Fprintln(w)
			}
		}),
		"long": generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, `{"id":%d,"name":"%s","error":null,"of":["%s","%s"]},`, i, word(), word(), word())
			if i%100 == 99 {
				fmt.Fprintln(w)
			}
		}),
		"one line": append([]byte("["), bytes.TrimRight(generate(size, func(w io.Writer, i int) {
			fmt.Fprintf(w, `{"id":%d,"name":"%s","error":null,"of":["%s","%s"]},`, i, word(), word(), word())
		}), ",")...),
	}
}

func generate(size int, write func(io.Writer, int)) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		write(&b, i)
	}
	return b.Bytes()
}

func BenchmarkWrite(b *testing.B) {
	for name, log := range corpora(b, 64<<20) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(log)))
			before, n := processorTime(b), 0.0
			for b.Loop() {
				s := New(Options{Mask: func(line string) string { return line }})
				io.Copy(s, bytes.NewReader(log))
				s.Summary(Exit{Code: 1})
				n += float64(len(log))
			}
			b.ReportMetric(n/1e6/(processorTime(b)-before).Seconds(), "MB/cpu-s")
		})
	}
}

// processorTime returns the processor time of the process, which is more reliable than
// the clock on a busy machine.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCat is the reference for BenchmarkWrite: the same bytes through a real pipe
// and the real cat.
func BenchmarkCat(b *testing.B) {
	log := mixedLog(64 << 20)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		cat := exec.Command("cat")
		cat.Stdin = struct{ io.Reader }{bytes.NewReader(log)}
		cat.Stdout = struct{ io.Writer }{io.Discard}
		cat.Stderr = os.Stderr
		if err := cat.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSummary measures the end of an output.
func BenchmarkSummary(b *testing.B) {
	for name, log := range corpora(b, 16<<20) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := New(Options{})
				s.Write(log)
				b.StartTimer()
				s.Digest(Exit{Code: 1})
			}
		})
	}
}

// Memory use does not grow with the output. The weekly run reads a gigabyte and logs how
// long that takes.
func TestMemoryIsFlat(t *testing.T) {
	chunk := mixedLog(4 << 20)
	hold := func(size int) uint64 {
		begin := time.Now()
		s := New(Options{})
		for n := 0; n < size; n += len(chunk) {
			s.Write(chunk)
		}
		s.Digest(Exit{Code: 1})
		took := time.Since(begin)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%d MB in %v, %.1f MB of heap", size/1e6, took.Round(time.Millisecond), float64(m.HeapAlloc)/1e6)
		runtime.KeepAlive(s)
		return m.HeapAlloc
	}
	sizes := weekly.Or([]int{4e6, 24e6}, []int{100e6, 1000e6})
	if small, large := hold(sizes[0]), hold(sizes[1]); large > small+1<<20 {
		t.Errorf("%d bytes of heap at first, %d after many times as much", small, large)
	}
}
