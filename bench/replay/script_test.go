package replay

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlayerPlaysStreamsAndExitCode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	recording := "1 one\n2\\why\nwait 1\n1\\name? \nread\n1 2 three\n"
	if err := os.WriteFile(file, []byte(recording), 0o600); err != nil {
		t.Fatal(err)
	}
	player, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(player)
	cmd.Env = append(os.Environ(), playVar+"="+file, exitVar+"=3")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte("Ada\n")), &stdout, &stderr
	err = cmd.Run()
	got := []any{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
	if diff := cmp.Diff([]any{"one\nname? 2 three\n", "why", 3}, got); diff != "" {
		t.Errorf("played (-want +got), %v:\n%s", err, diff)
	}
}

func TestScriptCallsWhatTheReplySays(t *testing.T) {
	first := Args{"execId": "e-1", "fromLine": 1}
	for _, test := range []struct {
		name    string
		replies []Reply
		want    Args
	}{
		{"nothing is left", []Reply{{}}, nil},
		{"output was left out", []Reply{{truncated: true}}, first},
		{"it runs", []Reply{{running: true}}, Args{"execId": "e-1", "fromLine": 1, "waitSeconds": waitSeconds}},
		{"it runs on", []Reply{{running: true, next: 5, lines: true}}, Args{"execId": "e-1", "fromLine": 5, "waitSeconds": waitSeconds}},
		{"a call is named", []Reply{{truncated: true, Shown: `hint: logs {"execId": "e-1", "grep": "x"}.`}}, Args{"execId": "e-1", "grep": "x"}},
		{"the named call was made", []Reply{{Shown: `logs {"execId":"e-1","grep":"x"}`}, {truncated: true, Shown: `logs {"execId":"e-1","grep":"x"}`}}, first},
		{"output names another run", []Reply{{Shown: `logs {"execId":"e-2","fromLine":7}`}}, nil},
		{"a page is followed", []Reply{{truncated: true}, {next: 201, lines: true, truncated: true}}, Args{"execId": "e-1", "fromLine": 201}},
		{"the last page is followed by none", []Reply{{truncated: true}, {next: 201}}, nil},
		{"only the end was shown", []Reply{{cut: true, next: 9, lines: true}}, first},
	} {
		f, got := follower{execID: "e-1"}, Args(nil)
		for _, r := range test.replies {
			got = f.next(r)
		}
		if diff := cmp.Diff(plain(test.want), plain(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// plain makes numbers that were read from JSON equal to those that were not.
func plain(args Args) map[string]any {
	p := map[string]any{}
	for name, value := range args {
		if n, ok := value.(int); ok {
			value = float64(n)
		}
		p[name] = value
	}
	return p
}

func TestReplyIsReadInEitherForm(t *testing.T) {
	result := []byte(`{"content":[{"type":"text","text":"exit 1 · no output"},{"type":"resource_link","name":"no text"}],
		"structuredContent":{"status":"exited","exitCode":1,"execId":"e-1","stdout":"a \u003c \"b\"\n"}}`)
	for form, want := range map[Form]string{
		Text:       "exit 1 · no output",
		Structured: "execId: e-1\nexitCode: 1\nstatus: exited\nstdout: a < \"b\"\n\n",
	} {
		r, err := newReply(result, form)
		if err != nil || r.Shown != want || r.execID != "e-1" {
			t.Errorf("%s: %q of %q, %v, want %q", form, r.Shown, r.execID, err, want)
		}
	}
	r, err := newReply(result, Structured)
	if want := len(`{"execId":"e-1","exitCode":1,"status":"exited","stdout":"a < \"b\"\n"}`); err != nil || r.Bytes != want {
		t.Errorf("structured content of %d bytes counts as %d, %v", want, r.Bytes, err)
	}
}
