package tools

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// recordingClient returns a client of a server that records programs. It skips the test where
// programs cannot be seen.
func recordingClient(t *testing.T) *client.Client {
	t.Helper()
	c := connect(t, &Set{Manager: boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{AuditPrograms: true})})
	if a := listPrograms(t, c, execID(t, c, `{"cmd":"true"}`), ""); a.isError {
		t.Skip(a.text)
	}
	return c
}

func listPrograms(t *testing.T, c *client.Client, id, args string) answer {
	t.Helper()
	return logsOf(t, c, id, `,"programs":true`+args)
}

// varying are the parts of a line that differ in each run: times, pids, and where programs are.
var varying = regexp.MustCompile(`\d+\.\d{3} s( \d+<\d+)?|(/usr)?/bin/`)

// TestLogsListsPrograms: programs are listed with how they ended; those alike in a row are one
// line. Nothing that a program is given can look like a line of ours.
func TestLogsListsPrograms(t *testing.T) {
	c := recordingClient(t)
	id := execID(t, c, `{"cmd":"for i in 1 2 3; do /bin/echo 'a b'; done; sh -c 'exit 3'; (exec -a '' /bin/echo $'\\n9 1.000 s 1<1: x' --password=hunter2SECRET); env nosuch; :"}`)
	a := listPrograms(t, c, id, "")
	a.has(t, map[string]any{"status": "exited", "exitCode": 0, "totalPrograms": 8, "missingPrograms": nil, "next": nil, "text": nil})
	_, lines, _ := strings.Cut(a.text, "\nprograms:\n")
	_, lines, _ = strings.Cut(lines, "\n") // the shell
	if got, want := varying.ReplaceAllString(lines, ""), `2-4 : echo "a b" · exit 0 · 3 times
5 : sh -c "exit 3" · exit 3
6 : echo "␊9 : x" "--password=‹password›" · exit 0
7 : env nosuch · exit 127
8 : nosuch · failed to start
`; got != want {
		t.Errorf("%s\n%s", got, a.text)
	}
	for _, one := range a.fields["programs"].([]any) {
		if one := one.(map[string]any); one["line"] == 2.0 && (one["lastLine"] != 4.0 || one["times"] != 3.0 || one["pid"] != nil) {
			t.Errorf("%v", one)
		}
	}
	grep := listPrograms(t, c, id, `,"grep":"^\\S*(sh|env) .*exit","fromLine":2,"lines":1`)
	grep.has(t, map[string]any{"matches": 2, "next": 7})
	grep.says(t, " · 2 of 8 programs · next 7\n")
	listPrograms(t, c, id, `,"tail":2`).says(t, " · 7–8 of 8 programs\n")
}

// TestLogsCountsManyPrograms: of many programs, a call without a range counts how often each was
// executed.
func TestLogsCountsManyPrograms(t *testing.T) {
	c := recordingClient(t)
	id := execID(t, c, `{"cmd":"for i in $(seq 100); do /bin/echo $i; done; /bin/false; :"}`)
	a := listPrograms(t, c, id, "")
	if want := " · 103 programs\nhint: "; !strings.Contains(a.text, want) || !strings.Contains(a.text, "\nprograms:\n100× /bin/echo · exit 0\n1× ") || !strings.Contains(a.text, "\n1× /bin/false · exit 1\n") {
		t.Errorf("%s", a.text)
	}
	page := listPrograms(t, c, id, `,"fromLine":90,"lines":3`)
	page.says(t, " · 90–92 of 103 programs · next 93\n", "\n92 ")
	page.has(t, map[string]any{"next": 93, "hint": nil})
}

// TestLogsSaysWhyThereAreNoPrograms: a server that records none never shows an empty list.
func TestLogsSaysWhyThereAreNoPrograms(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"ls"}`)
	a := listPrograms(t, c, id, "")
	if !a.isError || !strings.HasPrefix(a.text, "Programs are not recorded: the owner of this server can switch that on with programs = true in the section [audit]") {
		t.Errorf("%s", a.text)
	}
	if a := listPrograms(t, c, id, `,"stream":"stderr"`); !a.isError || !strings.Contains(a.text, "stream") {
		t.Errorf("%s", a.text)
	}
}
