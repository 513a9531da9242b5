package sandbox_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/wire"
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
	p := programsOf(t, m, box, `/bin/echo --password=hunter2SECRET --api-key abc1234; sh -c 'exit 3'; :`)
	var got strings.Builder
	for _, one := range p.List[1:] {
		fmt.Fprintf(&got, "%q %d\n", one.Args, *one.Exit)
	}
	if want := "[\"/bin/echo\" \"--password=‹password›\" \"--api-key\" \"‹secret›\"] 0\n[\"sh\" \"-c\" \"exit 3\"] 3\n"; got.String() != want || p.Missing != 0 {
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

// TestLiesAboutPrograms: records that are out of range end the box. Those of other runs go
// nowhere, and endless ones fill no disk.
func TestLiesAboutPrograms(t *testing.T) {
	report := func(records ...wire.Program) liar {
		return raw(func(run wire.ID) []byte {
			for i, p := range records {
				if p.Run == "own" {
					records[i].Run = hex.EncodeToString(run[:])
				}
			}
			b, err := wire.AppendJSON(started(run), wire.Programs, wire.ID{}, wire.ProgramsBody{List: records})
			if err != nil {
				t.Error(err)
			}
			return wire.Append(b, wire.Exit, run, []byte(`{"code":3}`))
		})
	}
	code := 256
	for name, lie := range map[string]liar{
		"no number":       report(wire.Program{Run: "own"}),
		"negative time":   report(wire.Program{Seq: 1, Run: "own", Micros: -1}),
		"huge pid":        report(wire.Program{Seq: 1, Run: "own", Pid: 1 << 40}),
		"code 256":        report(wire.Program{Seq: 1, Run: "own", Exit: &code}),
		"many arguments":  report(wire.Program{Seq: 1, Run: "own", Args: make([]string, 33)}),
		"no run's name":   report(wire.Program{Seq: 1, Run: "xyz"}),
		"short run":       report(wire.Program{Seq: 1, Run: "00ff"}),
		"too many":        report(make([]wire.Program, wire.MaxProgramList+1)...),
		"not JSON":        raw(func(wire.ID) []byte { return wire.Append(nil, wire.Programs, wire.ID{}, []byte("x")) }),
		"programs of run": raw(func(run wire.ID) []byte { return wire.Append(nil, wire.Programs, run, []byte(`{"list":[]}`)) }),
	} {
		t.Run(name, func(t *testing.T) {
			if box, exit, _ := lieAboutPrograms(t, lie); exit.Status != sandbox.Lost || box.Gone() == nil {
				t.Errorf("%s, exit %d, %v", exit.Status, exit.Code, exit.Err)
			}
		})
	}
	t.Run("another run", func(t *testing.T) {
		_, exit, p := lieAboutPrograms(t, report(wire.Program{Seq: 1, Run: strings.Repeat("ab", 16), Path: "/foreign"}))
		if exit.Code != 3 || len(p.List) != 0 || p.Unrecorded == "" {
			t.Errorf("%+v, %+v", exit, p)
		}
	})
	t.Run("hostile text", func(t *testing.T) {
		long := strings.Repeat("x", 20_000)
		_, exit, p := lieAboutPrograms(t, report(
			wire.Program{Seq: 7, Run: "own", Path: "\xff\x00\n", Args: []string{long, long, "\xc3"}},
			wire.Program{Seq: 9, Run: "own", End: true},
			wire.Program{Seq: 100, Run: "own", Total: true}))
		if exit.Code != 3 || len(p.List) != 1 || p.Missing != 99 {
			t.Fatalf("%+v, %d records, %d missing", exit, len(p.List), p.Missing)
		}
		if one := p.List[0]; !one.Cut || len(one.Args[0]) > 3*wire.MaxProgramText || one.Args[1] != "" || one.Path != "\ufffd\x00\n" {
			t.Errorf("%.100q", fmt.Sprint(one))
		}
	})
	t.Run("endless", func(t *testing.T) {
		_, exit, p := lieAboutPrograms(t, func(host net.Conn, run wire.ID) {
			host.Write(started(run))
			text := strings.Repeat("x", wire.MaxProgramText)
			for i := range int64(6000) {
				record := wire.Program{Seq: i + 1, Run: hex.EncodeToString(run[:]), Path: text}
				b, _ := json.Marshal(wire.ProgramsBody{List: []wire.Program{record}})
				host.Write(wire.Append(nil, wire.Programs, wire.ID{}, b))
			}
			host.Write(wire.Append(nil, wire.Exit, run, []byte(`{"code":3}`)))
		})
		if n := len(p.List); exit.Code != 3 || n*wire.MaxProgramText > rawlog.MaxRecords || int64(n)+p.Missing != 6000 {
			t.Errorf("%+v, %d records, %d missing", exit, n, p.Missing)
		}
	})
}

// lieAboutPrograms runs a command with a lying agent.
func lieAboutPrograms(t *testing.T, lie liar) (*sandbox.Box, sandbox.Exit, sandbox.Programs) {
	t.Helper()
	m := boxtest.Manager(t, lyingLauncher{lie}, sandbox.Spec{AuditPrograms: true})
	box, _, err := m.Start(t.Context(), auditOwner, sandbox.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
	if err != nil {
		t.Fatal(err)
	}
	<-run.Over()
	p, err := m.Programs(auditOwner, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return box, run.Exit(), p
}
