package boxtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// Programs checks that the programs of commands are recorded, in a box that records them. It
// skips where the agent sees none.
func Programs(t *testing.T, launcher sandbox.Launcher, spec sandbox.Spec) {
	spec.AuditPrograms = true
	s := &suite{manager: Manager(t, launcher, spec)}
	s.box = s.newBox(t)
	if p := s.programs(t, sh(t, s.box, "true").run); p.Unrecorded != "" {
		t.Skip(p.Unrecorded)
	}
	t.Run("list", s.testProgramList)
	t.Run("count", s.testProgramCount)
	t.Run("daemon", s.testProgramsOfDaemon)
	t.Run("kill", s.testProgramsOfKilled)
}

func (s *suite) programs(t testing.TB, run *sandbox.Run) sandbox.Programs {
	t.Helper()
	p, err := s.manager.Programs(sandbox.Owner{Principal: "boxtest"}, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// named returns the records of programs with the name.
func named(p sandbox.Programs, name string) (list []sandbox.Program) {
	for _, one := range p.List {
		if one.Path == name || strings.HasSuffix(one.Path, "/"+name) {
			list = append(list, one)
		}
	}
	return list
}

func (s *suite) testProgramList(t *testing.T) {
	p := s.programs(t, sh(t, s.box, `sh -c 'exit 3'; env nosuch x; printf hi | env cat >/dev/null; :`).run)
	for _, want := range []struct {
		name, args string
		exit       int // -1: unknown
		failed     bool
	}{
		{"sh", `["sh" "-c" "exit 3"]`, 3, false},
		{"nosuch", `["nosuch" "x"]`, -1, true},
		{"cat", `["cat"]`, 0, false},
	} {
		list := named(p, want.name)
		if len(list) != 1 {
			t.Errorf("%d records of %s in %+v", len(list), want.name, p)
			continue
		}
		one := list[0]
		exit := -1
		if one.Exit != nil {
			exit = *one.Exit
		}
		if fmt.Sprintf("%q", one.Args) != want.args || exit != want.exit || one.Failed != want.failed || one.Unsure || one.Pid <= 0 || one.Parent <= 0 {
			t.Errorf("%+v, exit %d; want %+v", one, exit, want)
		}
	}
	if p.Missing != 0 {
		t.Errorf("%d are missing", p.Missing)
	}
}

// testProgramCount compares the records of programs that run beside each other with their own
// count: each appends a byte to a file.
func (s *suite) testProgramCount(t *testing.T) {
	groups := weekly.Or(160, 3400) // of three programs each
	r := do(t, s.box, sandbox.Command{Timeout: 10 * time.Minute, Cmd: fmt.Sprintf(`d=$(mktemp -d) && cd "$d" && printf '#!/bin/sh\nprintf . >>count\n' >tool && chmod +x tool &&
seq %d | xargs -P 4 -I N sh -c './tool N a; ./tool N b; :' && wc -c <count; cd /; rm -r "$d"`, groups)})
	p := s.programs(t, r.run)
	tools, shells, seen := 0, 0, map[string]bool{}
	for _, one := range p.List {
		switch {
		case one.Path == "./tool" && !one.Failed && len(one.Args) == 3:
			if tools++; seen[one.Args[1]+one.Args[2]] || one.Exit == nil || *one.Exit != 0 {
				t.Errorf("twice, or without exit code 0: %+v", one)
			}
			seen[one.Args[1]+one.Args[2]] = true
		case !one.Failed && len(one.Args) == 3 && strings.HasPrefix(one.Args[2], "./tool"):
			shells++
		}
	}
	if ran := strings.TrimSpace(r.stdout); ran != fmt.Sprint(2*groups) || tools != 2*groups || shells != groups || p.Missing != 0 {
		t.Errorf("%d records of tools, want %d, and %d of shells, want %d; %s tools ran; %d are missing", tools, 2*groups, shells, groups, ran, p.Missing)
	}
	t.Logf("%d programs", len(p.List))
}

// testProgramsOfDaemon: what a command left behind is recorded until its run is over.
func (s *suite) testProgramsOfDaemon(t *testing.T) {
	run := start(t, s.box, sandbox.Command{Cmd: `(setsid sh -c 'sleep 0.5; env -i sleep 0.1' >/dev/null 2>&1 &); :`})
	wait(t, run)
	select {
	case <-run.Over():
	case <-time.After(waitLimit):
		t.Fatal("the run is not over")
	}
	if list := named(s.programs(t, run), "sleep"); len(list) != 2 || list[1].Exit == nil {
		t.Errorf("%+v", list)
	}
}

// testProgramsOfKilled: a run that executes programs without end is killed like any other, and
// the next one is recorded as ever.
func (s *suite) testProgramsOfKilled(t *testing.T) {
	run := start(t, s.box, sandbox.Command{Cmd: `for i in 1 2 3 4; do while :; do /bin/true; done & done; wait`})
	eventually(t, "programs are recorded", func() bool { return len(s.programs(t, run).List) > 100 })
	run.Kill()
	wait(t, run)
	s.testProgramList(t)
}
