package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// failing prints like a test run, to both streams, and more than a result shows.
const failing = `for i in $(seq 1500); do echo "=== RUN   TestNumber$i"; echo "warning $i" >&2; done
echo '--- FAIL: TestSum (0.00s)'; echo '    sum_test.go:12: got 4, want 5'; echo FAIL
for i in $(seq 200); do echo "ok  	example.com/p$i	0.01s"; done; exit 1`

// TestSummaryLinesAreThoseOfTheLog: the summary of a long output is that of its raw log, with the
// same numbers of lines.
func TestSummaryLinesAreThoseOfTheLog(t *testing.T) {
	c := connect(t, newSet(t))
	a := callTool(t, c, "exec", `{"cmd":`+strconv.Quote(failing)+`}`)
	a.has(t, map[string]any{"exitCode": 1, "summaryBy": nil, "truncated": true, "code": nil})
	log, err := os.ReadFile(fmt.Sprint(a.fields["logPath"]))
	if err != nil {
		t.Fatal(err)
	}
	s := summary.New(summary.Options{Cmd: failing})
	s.Write(log)
	if got, want := a.fields["summary"], s.Summary(summary.Exit{Code: 1}); got != want {
		t.Errorf("%v\nof the log: %s", got, want)
	}
	a.says(t, "\nsummary: exit 1, ", "TestSum", "got 4, want 5")
	lines := strings.Split(string(log), "\n")
	numbered := regexp.MustCompile(`(?m)^  (\d+): (.*?)(?: \[×.*\])?$`).FindAllStringSubmatch(a.text, -1)
	for _, m := range numbered {
		n, _ := strconv.Atoi(m[1])
		if text := strings.TrimSpace(lines[n-1]); !strings.HasPrefix(text, strings.TrimSuffix(m[2], "…")) {
			t.Errorf("line %d is %q, not %q", n, text, m[2])
		}
	}
	if len(numbered) < 3 {
		t.Errorf("%d lines with their numbers:\n%s", len(numbered), a.text)
	}
}

// TestWantedLinesRankFirst: want brings a line into the summary that nothing else would, and is
// bounded.
func TestWantedLinesRankFirst(t *testing.T) {
	c := connect(t, newSet(t))
	command := `"cmd":"seq 3000 | tr 0-9 a-j | sed 's/^/item /'"`
	if got := fmt.Sprint(callTool(t, c, "exec", `{`+command+`}`).fields["summary"]); strings.Contains(got, "bcha") {
		t.Errorf("without want: %v", got)
	}
	if got := fmt.Sprint(callTool(t, c, "exec", `{`+command+`,"want":"BCHA, giraffe"}`).fields["summary"]); !strings.Contains(got, "1270: item bcha") {
		t.Errorf("with want: %v", got)
	}
	long := callTool(t, c, "exec", `{"cmd":"ls","want":"`+strings.Repeat("é", 101)+`"}`)
	long.says(t, "want has 101 characters, more than the 100 allowed")
}

// TestFailureInALongOutputIsShown: with the lines around it, so that no call of logs is needed, and
// the hint names the first line that is not shown.
func TestFailureInALongOutputIsShown(t *testing.T) {
	c := connect(t, newSet(t))
	a := callTool(t, c, "exec", `{"cmd":"seq -f 'step %.0f' 2000; echo '--- FAIL: TestSum (0.00s)'; echo '    sum_test.go:12: got 4, want 5'; echo '[… lines 1-9999 left out …]'; seq -f 'more %.0f' 2000; exit 1"}`)
	shown := a.fields["stdout"].(string)
	m := regexp.MustCompile(`\n(step (\d+))\n\[… lines (\d+)-1990 left out …\]\nstep 1991\n`).FindStringSubmatch(shown)
	if m == nil {
		t.Fatal(shown)
	}
	last, _ := strconv.Atoi(m[2])
	if m[3] != strconv.Itoa(last+1) {
		t.Errorf("line %d is shown, and the mark begins with line %s", last, m[3])
	}
	a.says(t, fmt.Sprintf(`Read the rest with logs {"execId": %q, "fromLine": %d}`, a.fields["execId"], last+1),
		"\nstep 2000\n--- FAIL: TestSum (0.00s)\n    sum_test.go:12: got 4, want 5\n\\[… lines 1-9999 left out …]\nmore 1\n")
	if lines := strings.Count(shown, "\n"); a.fields["omittedLines"] != float64(4003-(lines-strings.Count("\n"+shown, "\n[…"))) {
		t.Errorf("%v lines left out, %d shown", a.fields["omittedLines"], lines)
	}
}

func TestOnlyLongFinishedOutputIsSummarized(t *testing.T) {
	set := newSet(t)
	c := connect(t, set)
	for _, test := range []struct {
		args string
		want string // the beginning of the summary
	}{
		{`{"cmd":"seq 1000"}`, "exit 0, 1,000 lines"},
		{`{"cmd":"seq 3000"}`, "exit 0, 3000 lines, 14 kB; "},
		{`{"cmd":"seq 3000","maxBytes":20000}`, "exit 0, 3,000 lines"},
		{`{"cmd":"seq 300","maxBytes":100}`, "exit 0, 300 lines, 1.1 kB; "},
		{`{"cmd":"seq 3000; sleep 60","timeoutSeconds":0.2}`, "exit 143 (timed out), 3000 lines, 14 kB; "},
		{`{"cmd":"seq 3000; sleep 60","waitSeconds":0.2}`, "running, 3,000 lines so far"},
		{`{"cmd":"seq 3000; (sleep 1; seq 90000) & exit 3"}`, "exit 3, 3000 lines, 14 kB; "},
		{`{"cmd":"seq 3000; kill -9 $$"}`, "exit 137 (SIGKILL), 3000 lines, 14 kB; "},
	} {
		if got := callTool(t, c, "exec", test.args).fields["summary"]; !strings.HasPrefix(fmt.Sprint(got), test.want) {
			t.Errorf("%s: %v, want %s…", test.args, got, test.want)
		}
	}
	set.Terse = true
	callTool(t, c, "exec", `{"cmd":"seq 3000"}`).has(t, map[string]any{"summary": "exit 0, 3,000 lines", "summaryBy": nil})
}

type model func(context.Context, summary.Digest) (string, error)

func (model) Name() string { return "fake" }
func (m model) Summarize(ctx context.Context, d summary.Digest) (string, error) {
	return m(ctx, d)
}

func TestModelReplacesTheBuiltInSummary(t *testing.T) {
	set := newSet(t)
	c := connect(t, set)
	var asked summary.Digest
	set.Model = model(func(_ context.Context, d summary.Digest) (string, error) {
		asked = d
		return "TestSum is wrong by one\ncode: none", nil
	})
	a := callTool(t, c, "exec", `{"cmd":`+strconv.Quote(failing)+`}`)
	a.has(t, map[string]any{"summaryBy": "fake", "exitCode": 1, "summary": "TestSum is wrong by one\ncode: none"})
	a.says(t, "\nsummary (fake): TestSum is wrong by one\n  code: none\nhint: ")
	if asked.Cmd != failing || asked.Exit.Code != 1 || !strings.HasPrefix(asked.Summary, "exit 1, ") {
		t.Errorf("%+v", asked)
	}
	asked = summary.Digest{}
	callTool(t, c, "exec", `{"cmd":"seq 10"}`).has(t, map[string]any{"summaryBy": nil})
	if asked.Cmd != "" {
		t.Error("the model was asked about an output that is shown whole")
	}
	set.Model = model(func(context.Context, summary.Digest) (string, error) { return "", errors.New("it is out") })
	a = callTool(t, c, "exec", `{"cmd":`+strconv.Quote(failing)+`}`)
	a.has(t, map[string]any{"summaryBy": nil, "exitCode": 1})
	a.says(t, "summary: exit 1, ")
}
