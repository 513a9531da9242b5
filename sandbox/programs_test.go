package sandbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

var auditOwner = sandbox.Owner{Principal: "local", Session: "one"}

// programsOf runs a command to its end and returns its programs.
func programsOf(t *testing.T, m *sandbox.Manager, box *sandbox.Box, cmd string) sandbox.Programs {
	t.Helper()
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	p, err := m.Programs(auditOwner, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func auditedBox(t *testing.T) (*sandbox.Manager, *sandbox.Box) {
	t.Helper()
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{AuditPrograms: true})
	box, _, err := m.Start(t.Context(), auditOwner, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if p := programsOf(t, m, box, "true"); p.Unrecorded != "" {
		t.Skip(p.Unrecorded)
	}
	return m, box
}

// TestProgramsOfACommand: at the end of a command its programs are known, with their secrets
// masked.
func TestProgramsOfACommand(t *testing.T) {
	m, box := auditedBox(t)
	p := programsOf(t, m, box, `/bin/echo --password=hunter2SECRET; sh -c 'exit 3'; :`)
	var got strings.Builder
	for _, one := range p.List[1:] {
		fmt.Fprintf(&got, "%q %d\n", one.Args, *one.Exit)
	}
	if want := "[\"/bin/echo\" \"--password=‹password›\"] 0\n[\"sh\" \"-c\" \"exit 3\"] 3\n"; got.String() != want || p.Missing != 0 {
		t.Errorf("%swant\n%s%d missing", got.String(), want, p.Missing)
	}
	if _, err := m.Programs(sandbox.Owner{Principal: "local", Session: "other"}, p.Record.ID); err == nil {
		t.Error("another owner's command shows its programs")
	}
}

// TestUnwantedProgramsAreNotRecorded: a command whose programs were not recorded says so.
func TestUnwantedProgramsAreNotRecorded(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	box, _, err := m.Start(t.Context(), auditOwner, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if p := programsOf(t, m, box, "ls"); len(p.List) != 0 || !strings.Contains(p.Unrecorded, "programs = true in the section [audit]") {
		t.Errorf("%+v", p)
	}
}
