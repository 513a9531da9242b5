//go:build linux

package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A group is the directory of a control group, with a file of counters.
type group struct {
	*testing.T
	file string
}

func newGroup(t *testing.T, name, text string) group {
	t.Helper()
	g := group{t, filepath.Join(t.TempDir(), name)}
	if err := os.MkdirAll(filepath.Dir(g.file), 0o700); err != nil {
		t.Fatal(err)
	}
	g.counts(text)
	return g
}

func (g group) counts(text string) {
	g.Helper()
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		g.Fatal(err)
	}
}

// The count is read from the files of both versions of control groups, repeatedly from
// one descriptor.
func TestMemoryKillsAreCounted(t *testing.T) {
	for name, c := range map[string]struct{ root, file, none, two string }{
		"v2": {"", "memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 0\noom_group_kill 5\n", "low 0\nhigh 0\nmax 9\noom 5\noom_kill 2\noom_group_kill 5\n"},
		"v1": {"..", "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", "oom_kill_disable 0\nunder_oom 1\noom_kill 2\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, c.file, c.none)
			var m memoryEvents
			m.open(filepath.Join(filepath.Dir(g.file), c.root))
			before := m.kills()
			if before != 0 || m.roseAbove(before) {
				t.Errorf("%d at first", before)
			}
			g.counts(c.two)
			if n := m.kills(); n != 2 || !m.roseAbove(before) || m.roseAbove(n) {
				t.Errorf("%d after two", n)
			}
		})
	}
}

// No kill is reported if the count cannot be read.
func TestUnreadableCountReportsNoKill(t *testing.T) {
	for name, text := range map[string]string{"no count": "oom_kill_disable 0\nunder_oom 0\n", "no number": "oom_kill many\n", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, "memory.events", text)
			var m memoryEvents
			m.open(filepath.Dir(g.file))
			if n := m.kills(); n != unread || m.file != 0 {
				t.Errorf("%d, descriptor %d", n, m.file)
			}
		})
	}
}

// A run that began while the count was unreadable reports no kill.
func TestCountThatBecomesReadableReportsNoKill(t *testing.T) {
	g := newGroup(t, "memory.events", "oom_kill 0\n")
	var m memoryEvents
	m.open(filepath.Dir(g.file))
	g.counts("oom_kill many\n")
	before := m.kills()
	g.counts("oom_kill 7\n")
	if before != unread || m.roseAbove(before) {
		t.Errorf("%d before; a run that began with an unreadable count reports kills", before)
	}
}

// A run reports a kill if its shell ran while the count rose, and whether another run had
// processes at any time since it began.
func TestMemoryKillIsReportedByRunsOfItsTime(t *testing.T) {
	g := newGroup(t, "memory.events", "oom_kill 4\n")
	a := &Agent{procs: newProcesses()}
	a.programs = newPrograms(a.sendPrograms)
	a.memory.open(filepath.Dir(g.file))
	var last byte
	begin := func() *run {
		last++
		r := &run{agent: a, id: wire.ID{last}, tree: newTree(), memoryKills: a.memory.kills()}
		r.register(int(last), nil)
		return r
	}
	end := func(r *run, killed, shared bool) {
		t.Helper()
		st := exitStatus{memoryKill: a.memory.roseAbove(r.memoryKills), shared: a.sharedBox(r)}
		if body := exitBody(st); body.MemoryKill != killed || body.Shared != shared {
			t.Errorf("run %d reports %+v, want %v, %v", r.nth, body, killed, shared)
		}
		r.gone.Store(true) // Exit is sent, and a host may start the next run, before the run is removed
	}
	end(begin(), false, false)
	victim := begin()
	g.counts("oom_kill 5\n")
	end(victim, true, false)
	end(begin(), false, false) // the kernel's count is unchanged

	long, short := begin(), begin()
	g.counts("oom_kill 6\n")
	end(short, true, true)
	late := begin()
	end(late, false, false)
	end(long, true, true)

	daemon := begin() // its shell has ended, its leftover processes have not
	later := begin()
	g.counts("oom_kill 8\n")
	end(later, true, true)
	end(daemon, true, true)
}

// BenchmarkMemoryEvents measures what the count adds to each end of a run.
func BenchmarkMemoryEvents(b *testing.B) {
	var m memoryEvents
	m.open(cgroupRoot)
	if m.file == 0 {
		b.Skip("no control group that counts")
	}
	for b.Loop() {
		m.kills()
	}
}
