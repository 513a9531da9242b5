package replay

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	program = flag.String("program", "", "the warmbox to measure; if not given, it is built from this tree")
	want    = flag.Bool("want", true, "tell exec what a step wants, if it has an argument for that")
	update  = flag.Bool("update", false, "have BenchmarkReplay write its figures to "+baselineFile)
)

const baselineFile = "testdata/baseline.txt"

var forms = []Form{Text, Structured}

func TestMain(m *testing.M) {
	Player()
	os.Exit(m.Run())
}

// BenchmarkReplay measures a program, by default that of this tree. With -v it lists the
// steps.
func BenchmarkReplay(b *testing.B) {
	for b.Loop() {
		figures := measure(b)
		text := ""
		for _, form := range forms {
			f := figures[form]
			b.ReportMetric(100*float64(f.Sufficient)/float64(f.Steps), string(form)+"-%sufficient")
			b.ReportMetric(float64(f.Calls), string(form)+"-calls")
			b.ReportMetric(float64(f.Tokens), string(form)+"-tokens")
			text += fmt.Sprintln(form, f)
		}
		if *update {
			if err := os.WriteFile(baselineFile, []byte(text), 0o666); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestFactsAreInRecordings: a label asks for nothing that warmbox could not know.
func TestFactsAreInRecordings(t *testing.T) {
	for _, s := range load60(t) {
		recording, err := readMaybeGzip(s.output)
		if err != nil {
			t.Error(err)
			continue
		}
		printed := "running\nexit " + fmt.Sprint(s.Exit) + "\n"
		for line := range strings.Lines(string(recording)) {
			if streamOf(line) != nil {
				printed += line[2:]
			}
		}
		if missing := s.Missing(printed); len(missing) > 0 || len(s.Facts) == 0 {
			t.Errorf("%s: %d facts, not in the recording: %q", s.Name, len(s.Facts), missing)
		}
	}
}

func load60(tb testing.TB) []*Step {
	tb.Helper()
	steps, err := Load("testdata")
	if err != nil {
		tb.Fatal(err)
	}
	if len(steps) != 60 {
		tb.Fatalf("%d steps, want 60", len(steps))
	}
	return steps
}

// built returns the program to measure.
func built(tb testing.TB) string {
	tb.Helper()
	if *program != "" {
		return *program
	}
	file := filepath.Join(tb.TempDir(), "warmbox")
	if out, err := exec.Command("go", "build", "-o", file, "../../cmd/warmbox").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return file
}

// measure replays the steps in both forms at once, each with a server of its own.
func measure(tb testing.TB) map[Form]Figures {
	tb.Helper()
	steps, program := load60(tb), built(tb)
	lists, errs := make([][]Reading, len(forms)), make([]error, len(forms))
	var both sync.WaitGroup
	for i, form := range forms {
		both.Go(func() { lists[i], errs[i] = Replay(program, form, *want, steps) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	figures := map[Form]Figures{}
	for i, form := range forms {
		if testing.Verbose() {
			tb.Log("\n" + table(form, lists[i]))
		}
		figures[form] = Sum(lists[i])
		tb.Log(form, figures[form])
	}
	return figures
}

// table has a line for each step.
func table(form Form, list []Reading) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%-10s %-22s first %5d  calls %2d  tokens %6d", form, r.Step.Name, r.First/bytesPerToken, r.Calls, r.Bytes/bytesPerToken)
		if len(r.Absent) > 0 {
			fmt.Fprintf(&b, "  not at first: %q", r.Absent)
		}
		if len(r.Never) > 0 {
			fmt.Fprintf(&b, "  never: %q", r.Never)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
