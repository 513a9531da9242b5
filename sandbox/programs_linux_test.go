package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestProgramsOfADetachedBox: what is executed while no server is attached is recorded by the
// next one.
func TestProgramsOfADetachedBox(t *testing.T) {
	s := newSite(t)
	spec := Spec{Persistent: &s.kept.Persistent, AuditPrograms: true}
	b, err := openBox(t.Context(), newShared(s.logs), identity{id: s.kept.ID, owner: Owner{Principal: s.kept.Principal}, started: time.Now()}, s.stream(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if why := b.programs.unrecorded(); why != "" {
		t.Skip(why)
	}
	run := s.start(b, Command{Cmd: `/bin/echo before; until [ -e go ]; do sleep 0.01; done; for i in $(seq 50); do /bin/echo $i; done >/dev/null; : >went; until [ -e on ]; do sleep 0.01; done; /bin/echo after`})
	s.printed(run, "before")
	if err := b.Detach(); err != nil {
		t.Fatal(err)
	}
	s.touch("go")
	s.await("went")
	b, err = resumeBox(t.Context(), newShared(s.logs), s.kept, s.stream(), Spec{AuditPrograms: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	again := b.run(run.wireID)
	s.touch("on")
	s.over(again)
	p, err := (&Manager{Logs: s.logs}).Programs(Owner{Principal: s.kept.Principal}, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"before"}
	for i := range 50 {
		want = append(want, fmt.Sprint(i+1))
	}
	want = append(want, "after")
	for _, one := range p.List {
		if one.Path == "/bin/echo" && len(want) > 0 && one.Args[1] == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 || p.Missing != 0 {
		t.Errorf("%d missing, no record of %v in %d", p.Missing, want, len(p.List))
	}
}

// TestBoxOfAServerWithoutAuditIsNotRecorded: an agent that ran commands before is not asked
// for programs that it did not see.
func TestBoxOfAServerWithoutAuditIsNotRecorded(t *testing.T) {
	s := newSite(t)
	if err := s.open(t.Context()).Detach(); err != nil {
		t.Fatal(err)
	}
	b, err := resumeBox(t.Context(), newShared(s.logs), s.kept, s.stream(), Spec{AuditPrograms: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got, want := b.programs.unrecorded(), "The programs of this box are not recorded: it was started without [audit] programs. Start another box."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func (s *site) touch(name string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until a file exists.
func (s *site) await(name string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no file %s", name)
		}
	}
}
