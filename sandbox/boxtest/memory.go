package boxtest

import (
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// testMemoryBomb checks that a command that fills the memory of its box is reported as
// such, and that the box survives.
func testMemoryBomb(t *testing.T, s *suite) {
	spec := s.manager.Defaults
	spec.Memory = 256 << 20 // soon full
	small := &suite{manager: Manager(t, s.manager.Launcher, spec)}
	box := small.newBox(t)
	defer box.Close()
	r := do(t, box, sandbox.Command{Cmd: "tail /dev/zero", Timeout: 40 * time.Second})
	if r.Status == sandbox.Lost {
		t.Fatalf("the box died: %v", r.Err)
	}
	if r.Status != sandbox.OOM || r.MemoryKill == nil || r.MemoryKill.Shared {
		t.Errorf("%s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
	want(t, sh(t, box, "echo alive"), 0, "alive\n")
	testAfterOOM(t, box)
	testMemoryOfOthers(t, box)
}

// testAfterOOM runs commands in a box in which the kernel has killed processes before:
// each reports the kills of its own time and no earlier ones.
func testAfterOOM(t *testing.T, box *sandbox.Box) {
	innocent := func(cmd string, code int) {
		t.Helper()
		if r := sh(t, box, cmd); r.Status != sandbox.Exited || r.Code != code || r.MemoryKill != nil {
			t.Errorf("%q after a process was killed for memory: %s, exit %d, %+v", cmd, r.Status, r.Code, r.MemoryKill)
		}
	}
	innocent("true", 0)
	innocent("grep x /dev/null", 1)
	innocent("kill -9 $$", 137)
	if r := sh(t, box, "tail /dev/zero; echo went on"); r.Status != sandbox.Exited || r.Code != 0 || r.MemoryKill == nil || r.MemoryKill.Shared || r.MemoryKill.Limit != box.Place.Memory {
		t.Errorf("a command that lost a child: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
	innocent("false", 1)
	if r := sh(t, box, "tail /dev/zero; exit 3"); r.Status != sandbox.OOM || r.Code != 3 || r.Signal != "" {
		t.Errorf("a command that failed since it lost a child: %s, exit %d %s", r.Status, r.Code, r.Signal)
	}
	innocent("exit 3", 3)
}

// testMemoryOfOthers has the kernel kill a process while several commands run: each of
// them reports a kill, and none is named as its cause. The kernel may kill more than one
// process until the first has released its memory.
func testMemoryOfOthers(t *testing.T, box *sandbox.Box) {
	bystander := start(t, box, sandbox.Command{Cmd: "echo up; until [ -e $TMPDIR/killed ]; do sleep 0.1; done; exit 5", Timeout: 60 * time.Second})
	printed(t, bystander, "up")
	bomb := do(t, box, sandbox.Command{Cmd: "tail /dev/zero", Timeout: 40 * time.Second})
	if bomb.Status != sandbox.Exited || bomb.Code != 137 || bomb.Signal != "SIGKILL" || bomb.MemoryKill == nil || !bomb.MemoryKill.Shared {
		t.Errorf("the killed command: %s, exit %d %s, %+v", bomb.Status, bomb.Code, bomb.Signal, bomb.MemoryKill)
	}
	later := sh(t, box, "touch $TMPDIR/killed; false")
	if later.Status != sandbox.Exited || later.Code != 1 || later.MemoryKill != nil {
		t.Errorf("a command that began later: %s, exit %d, %+v", later.Status, later.Code, later.MemoryKill)
	}
	r := wait(t, bystander)
	if r.Status != sandbox.Exited || r.Code != 5 && r.Code != 137 || r.MemoryKill == nil || !r.MemoryKill.Shared {
		t.Errorf("a command beside it: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
	// A process that a command left behind counts as a running one.
	daemon := sh(t, box, "(until [ -e $TMPDIR/go ]; do sleep 0.1; done; tail /dev/zero; touch $TMPDIR/over) >/dev/null 2>&1 & echo")
	if len(daemon.Leftover) == 0 {
		t.Fatalf("no process is left over: %+v", daemon.Exit)
	}
	r = sh(t, box, "touch $TMPDIR/go; for i in {1..100}; do [ -e $TMPDIR/over ] && break; sleep 0.1; done; exit 4")
	if r.Status != sandbox.Exited || r.Code != 4 && r.Code != 137 || r.MemoryKill == nil || !r.MemoryKill.Shared {
		t.Errorf("a command beside another's killed daemon: %s, exit %d, %+v", r.Status, r.Code, r.MemoryKill)
	}
}

// testManyFiles checks that a command that creates as many empty files as it can in the
// memory file systems of its box leaves memory for the agent and for later commands.
func testManyFiles(t *testing.T, s *suite) {
	spec := s.manager.Defaults
	spec.Memory = 256 << 20
	small := &suite{manager: Manager(t, s.manager.Launcher, spec)}
	box := small.newBox(t)
	defer box.Close()
	const fill = `
name=$(printf 'x%.0s' {1..200})
for dir in /tmp /dev/shm; do
  mkdir $dir/many
  for ((i = 0; i < 300000; i++)); do : >$dir/many/$name$i || break; done
  ((i < 300000)) || echo "$dir takes every file"
done 2>/dev/null
head -c 100M /dev/zero | tail -c 90M | wc -c`
	r := do(t, box, sandbox.Command{Cmd: fill, Timeout: waitLimit})
	if r.Status == sandbox.Lost {
		t.Fatalf("the box died: %v", r.Err)
	}
	want(t, r, 0, "94371840\n")
	want(t, sh(t, box, "rm -r /tmp/many /dev/shm/many && echo alive"), 0, "alive\n")
}
