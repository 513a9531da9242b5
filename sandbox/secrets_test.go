package sandbox_test

import (
	"os"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// What a run shows has no secret in it, however it was printed; its log has.
func TestOutputIsMasked(t *testing.T) {
	const secret = "correct/horse/battery"
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Secrets = &redact.Redactor{Values: []string{secret}}
	box, err := m.DefaultBox(t.Context(), me, nil)
	if err != nil {
		t.Fatal(err)
	}
	for cmd, want := range map[string]string{
		"echo a " + secret + " b":                               "a ‹secret› b\n",
		"printf correct/horse; sleep 0.1; echo /battery":        "‹secret›\n",
		"printf correct/; echo warning >&2; echo horse/battery": "‹secret›\n",
		"printf '\\033[1mcorrect/\\033[31mhorse/battery\\n'":    "␛[1m‹secret›\n",
		"printf 'load 1\\rload 2\\r" + secret + "\\n'":          "␍load 2␍‹secret›\n",
	} {
		run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd})
		if err != nil {
			t.Fatal(err)
		}
		<-run.Done()
		if out, _ := run.Output(excerpt.Limits{Whole: 8000, Cut: 4000}); out.Text != want {
			t.Errorf("%s: %q, want %q", cmd, out.Text, want)
		}
		log, err := os.ReadFile(run.LogPath())
		if err != nil || strings.Contains(string(log), "‹") || !strings.Contains(string(log), "battery") {
			t.Errorf("%s: log %q, %v", cmd, log, err)
		}
	}
}

// That of a run under way is masked before all of it is there.
func TestOutputIsMaskedEarly(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Secrets = &redact.Redactor{Values: []string{"correct/horse/battery"}}
	box, err := m.DefaultBox(t.Context(), me, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "printf correct/hor; sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Kill()
	for {
		r, err := m.Record(me, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := run.Output(excerpt.Limits{Whole: 8000, Cut: 4000}); out.Text != "" {
			if out.Text != "‹secret›" {
				t.Errorf("%q", out.Text)
			}
			return
		}
		<-r.Changed
	}
}
