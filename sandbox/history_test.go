package sandbox_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// ran runs a command to its end and returns its record.
func ran(t *testing.T, m *sandbox.Manager, owner sandbox.Owner, cmd string) sandbox.Record {
	t.Helper()
	box, err := m.DefaultBox(t.Context(), owner, nil)
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: cmd})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := m.Record(owner, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Exit.Status != sandbox.Running {
			return r
		}
		<-r.Changed
	}
}

// wantNone checks that an owner does not find a run.
func wantNone(t *testing.T, m *sandbox.Manager, owner sandbox.Owner, id string) {
	t.Helper()
	if e, ok := errors.AsType[*sandbox.Error](func() error { _, err := m.Record(owner, id); return err }()); !ok || e.Code != sandbox.ExecNotFound {
		t.Errorf("%v finds %s: %v", owner, id, e)
	}
}

// wantNoRun checks that a run is not there for a call that needs it, and why.
func wantNoRun(t *testing.T, m *sandbox.Manager, owner sandbox.Owner, id, code, why string) {
	t.Helper()
	_, err := m.Run(owner, id)
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != code || !strings.Contains(e.Text, why) {
		t.Errorf("%v, want %s: %s", err, code, why)
	}
}

func TestRecordsBelongToTheirOwner(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	first, second := ran(t, m, me, "echo hi; exit 3"), ran(t, m, me, "true")
	if first.Exit.Code != 3 || first.Cmd != "echo hi; exit 3" || first.Log.Bytes != 3 || first.LogPath == "" {
		t.Errorf("%+v", first)
	}
	if list := m.Records(me); len(list) != 2 || list[0].ID != second.ID || list[1].ID != first.ID {
		t.Errorf("%+v", list)
	}
	if list := m.Records(you); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	wantNone(t, m, you, first.ID)
	wantNone(t, m, me, "e-none")
	wantNone(t, m, me, "../"+first.ID)
}

// TestRecordsOfAnEarlierServerComeFromLogs: also of one that died before the command.
func TestRecordsOfAnEarlierServerComeFromLogs(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	long := "exit 3 # " + strings.Repeat("x", 5000)
	run := ran(t, m, me, long)
	m.Close()
	later := &sandbox.Manager{Logs: m.Logs}
	again, err := later.Record(me, run.ID)
	if err != nil || again.Exit.Status != sandbox.Exited || again.Exit.Code != 3 || again.LogPath != run.LogPath || again.Cmd != run.Cmd {
		t.Errorf("%+v, %v", again, err)
	}
	wantNone(t, later, you, run.ID)

	// Its server died before the command did.
	index := strings.TrimSuffix(run.LogPath, ".log") + ".idx"
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n")
	for printed, took := range map[string]time.Duration{"": 0, "o 3 1 900\ne 3 1 2500\n": 2500 * time.Millisecond} {
		if err := os.WriteFile(index, []byte(head+"\n"+printed), 0o600); err != nil {
			t.Fatal(err)
		}
		lost, err := later.Record(me, run.ID)
		if err != nil || lost.Exit.Status != sandbox.Lost || lost.Open || lost.Exit.Took != took || !lost.Exit.AtLeast {
			t.Errorf("%+v, %v", lost, err)
		}
		wantNoRun(t, later, me, run.ID, sandbox.ExecNotFound, "was lost: the server ended while the command ran")
	}
}

// TestEndedCommandIsNotUnknown: a call that needs a running one says how it ended.
func TestEndedCommandIsNotUnknown(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	r := ran(t, m, me, "exit 3")
	if r.Over != nil {
		<-r.Over
	}
	wantNoRun(t, m, me, r.ID, sandbox.ExecEnded, "command "+r.ID+" has ended: exit code 3")
	wantNoRun(t, m, you, r.ID, sandbox.ExecNotFound, "there is no command")
}

func TestReleaseForgetsTheRecordsOfTheOwner(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	ran(t, m, me, "true")
	ran(t, m, you, "true")
	m.Release(me)
	if mine, yours := m.Records(me), m.Records(you); len(mine) != 0 || len(yours) != 1 {
		t.Errorf("%+v, %+v", mine, yours)
	}
}
