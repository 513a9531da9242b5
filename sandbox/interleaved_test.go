package sandbox_test

import (
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// Both streams of a small failure are available by arrival, unless that would show a part of a
// secret or not be all that the command printed.
func TestFailureIsInterleaved(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Secrets = &redact.Redactor{Values: []string{"correct/horse/battery"}}
	box, err := m.DefaultBox(t.Context(), me, nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := excerpt.Limits{Whole: 100, Cut: 100}
	for cmd, want := range map[string]string{
		"echo err >&2; echo out; exit 1":                                  "err\nout\n",
		"printf out; printf err >&2; exit 1":                              "outerr",
		"printf '\\033[31mred\\n' >&2; printf '1%%\\r2%%\\n'; kill -9 $$": "␛[31mred\n␍2%\n",
		"echo err >&2; echo out":                                          "", // a success
		"echo err >&2; exit 1":                                            "",
		"echo out; exit 1":                                                "",
		"echo err >&2; seq 100; exit 1":                                   "", // too large
		"echo err >&2; echo correct/horse/battery; exit 1":                "",
		"printf correct/; echo horse/battery >&2; exit 1":                 "", // looks like the secret
		"rm -f go; echo err >&2; echo out; (until [ -e go ]; do sleep 0.01; done; echo late) & exit 1": "", // what it left behind prints too
	} {
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd, SummarizeAbove: limits.Whole})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		touch, err := box.Exec(t.Context(), sandbox.Command{Cmd: "touch go"})
		if err != nil {
			t.Fatal(err)
		}
		<-touch.Done()
		<-run.Over()
		stdout, stderr := run.Output(limits)
		if got, ok := run.Interleaved(stdout.Text, stderr.Text); got != want && ok || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", cmd, got, ok, want)
		}
	}
}
