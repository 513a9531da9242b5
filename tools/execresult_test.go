package tools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

func TestTextShowsEveryFact(t *testing.T) {
	r := ExecResult{
		Status: sandbox.Exited, ExitCode: new(1), Hint: "Do better.", ContainerID: "b-1", ExecID: "e-1", LogPath: "/logs/e-1.log",
		Log:      &LogGap{LostBytes: 1234, Reason: "the disk is full"},
		Leftover: []sandbox.Proc{{Pid: 7, Name: "sleep"}}, LeftoverCount: 12,
		Summary: "wrong by one\ncode: none", SummaryBy: "fake", digested: true, took: 2210 * time.Millisecond,
	}
	r.show(excerpt.Excerpt{Text: "one\ntwo", Bytes: 7, Lines: 2}, excerpt.Excerpt{Text: "a\n[…]\nz\n", Bytes: 9000, Lines: 1202, OmittedBytes: 8996, OmittedLines: 1200})
	const want = `exit 1 · 2.2 s · 1,204 lines · truncated: 1,200 lines, 8,996 bytes left out · log /logs/e-1.log
summary (fake): wrong by one
  code: none
still running: "sleep" (pid 7), 11 more
hint: Do better.
log incomplete: 1,234 bytes are not in it: the disk is full
--- stdout of e-1 ---
one
two
--- stderr of e-1 ---
a
[…]
z
`
	if d := cmp.Diff(want, r.Text()); d != "" {
		t.Error(d)
	}
}

func TestEndingNamesExitAndSignal(t *testing.T) {
	for want, r := range map[string]ExecResult{
		"exit 0":                  {Status: sandbox.Exited, ExitCode: new(0)},
		"exit 139 (SIGSEGV)":      {Status: sandbox.Exited, ExitCode: new(139), Signal: "SIGSEGV"},
		"running":                 {Status: sandbox.Running},
		"timeout (SIGKILL)":       {Status: sandbox.TimedOut, Signal: "SIGKILL"},
		"oom, exit 137 (SIGKILL)": {Status: sandbox.OOM, ExitCode: new(137), Signal: "SIGKILL"},
		"lost":                    {Status: sandbox.Lost},
	} {
		if got := ending(r.Status, r.ExitCode, r.Signal); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestHintSaysHowToReadTheRest(t *testing.T) {
	for want, r := range map[string]ExecResult{
		"":               {Status: sandbox.Exited, LogPath: "l"},
		"the rest":       {Status: sandbox.Exited, LogPath: "l", ShownOutput: ShownOutput{Truncated: true}},
		`"fromLine": 1,`: {Status: sandbox.Running, LogPath: "l"},
		`"fromLine": 3,`: {Status: sandbox.Running, LogPath: "l", ShownOutput: ShownOutput{Stdout: "a\nb\n"}, logged: 2},
		`"fromLine": 2,`: {Status: sandbox.Running, LogPath: "l", ShownOutput: ShownOutput{Stdout: "a\nb"}, logged: 2},
	} {
		if got := r.readOn(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if got := (&ExecResult{Status: sandbox.Running}).readOn(); got != "" {
		t.Errorf("without a log: %q", got)
	}
}

func TestShortSummaryRepeatsNoOutput(t *testing.T) {
	for want, r := range map[string]ExecResult{
		"exit 0, no output":                  {Status: sandbox.Exited, ExitCode: new(0)},
		"exit 3, 1 line":                     {Status: sandbox.Exited, ExitCode: new(3), ShownOutput: ShownOutput{lines: 1}},
		"running, 1,200 lines so far":        {Status: sandbox.Running, ShownOutput: ShownOutput{lines: 1200}},
		"oom, exit 137 (SIGKILL), no output": {Status: sandbox.OOM, ExitCode: new(137), Signal: "SIGKILL"},
		"timeout (SIGTERM), no output":       {Status: sandbox.TimedOut, Signal: "SIGTERM"},
	} {
		if got := r.shortSummary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestProcessNamesAreInert: and bounded in number.
func TestProcessNamesAreInert(t *testing.T) {
	var procs []sandbox.Proc
	for i := range 32 {
		procs = append(procs, sandbox.Proc{Pid: i + 1, Name: "a\nexit 0 \x1b[31m\xff"})
	}
	list := inertNames(procs)
	if len(list) != maxLeftover || list[0].Name != "a␊exit 0 ␛[31m\ufffd" {
		t.Errorf("%d, %q", len(list), list[0].Name)
	}
}

// TestResultFitsItsLimit: no output makes a result too large, and no output that fits is cut.
func TestResultFitsItsLimit(t *testing.T) {
	for _, text := range []string{"x", "<", "\x00", "\"\n", "ab\n", "é", "\xff"} {
		for _, size := range []int{1000, 15_000, 50_000, 99_998, 1_000_000} {
			k := [2]excerpt.Keeper{{Limit: 100_000}, {Limit: 100_000}}
			fmt.Fprint(&k[0], strings.Repeat(text, size/len(text)))
			k[1].Write([]byte("small\n"))
			var r ExecResult
			r.fit(func(l excerpt.Limits) (stdout, stderr excerpt.Excerpt) { return excerpt.Cut(&k[0], &k[1], l) }, excerpt.Limits{Whole: 100_004, Cut: 100_000})
			whole, err := json.Marshal(reply(r, r.Text()))
			if err != nil || len(whole) > maxResult {
				t.Errorf("%q × %d: %d bytes, %v", text, size, len(whole), err)
			}
			if r.shown+r.OmittedBytes != k[0].Bytes()+k[1].Bytes() || r.Truncated != (r.OmittedBytes > 0) {
				t.Errorf("%q × %d: %d shown, %d omitted", text, size, r.shown, r.OmittedBytes)
			}
			if r.Truncated && len(whole) < maxResult*8/10 && r.shown > surelyFits {
				t.Errorf("%q × %d: only %d bytes", text, size, len(whole))
			}
		}
	}
}

func TestCodesByStatus(t *testing.T) {
	for _, test := range []struct {
		exit sandbox.Exit
		want string
	}{
		{sandbox.Exit{Status: sandbox.Exited}, ""},
		{sandbox.Exit{Status: sandbox.Exited, Code: 1}, execFailed},
		{sandbox.Exit{Status: sandbox.Running, Code: -1}, ""},
		{sandbox.Exit{Status: sandbox.Running, Code: -1, Err: sandbox.Errorf(sandbox.DockerUnavailable, "", "out of reach")}, sandbox.DockerUnavailable},
		{sandbox.Exit{Status: sandbox.TimedOut, Code: 143}, execTimeout},
		{sandbox.Exit{Status: sandbox.Killed, Code: 0}, execFailed},
		{sandbox.Exit{Status: sandbox.OOM, Code: 137}, execFailed},
		{sandbox.Exit{Status: sandbox.Lost, Code: -1}, sandbox.BoxGone},
	} {
		if got := codeOf(test.exit); got != test.want {
			t.Errorf("%+v: %q, want %q", test.exit, got, test.want)
		}
	}
}
