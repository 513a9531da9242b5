package boxtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

func cancelled(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func testExit(t *testing.T, s *suite) {
	t.Run("codes", func(t *testing.T) {
		var runs []*sandbox.Run
		for code := range 256 {
			runs = append(runs, start(t, s.box, sandbox.Command{Cmd: fmt.Sprint("exit ", code)}))
			if len(runs)%16 == 0 {
				wait(t, runs[len(runs)-1])
			}
		}
		for code, run := range runs {
			want(t, wait(t, run), code, "")
		}
	})
	t.Run("signals", func(t *testing.T) { testSignals(t, s) })
	t.Run("not found", func(t *testing.T) {
		if r := sh(t, s.box, "no-such-program"); r.Code != 127 || !strings.Contains(r.stderr, "no-such-program") {
			t.Errorf("exit %d, %q", r.Code, r.stderr)
		}
	})
}

// testSignals has commands end by every signal whose default action ends a process. The
// signal goes to the run's first process after that has replaced the shell, which ignores
// some.
func testSignals(t *testing.T, s *suite) {
	ends := map[int]string{
		1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
		10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 16: "SIGSTKFLT",
		24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF", 29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS",
	}
	for n := 34; n <= 64; n++ { // C libraries reserve 32 and 33
		ends[n] = fmt.Sprintf("SIG%d", n)
	}
	runs := map[int]*sandbox.Run{}
	for n := range ends {
		runs[n] = start(t, s.box, sandbox.Command{Cmd: fmt.Sprintf("(sleep 0.2; kill -%d $$) & exec sleep 60", n)})
	}
	for n, name := range ends {
		r := wait(t, runs[n])
		if r.Status != sandbox.Exited || r.Signal != name || r.Code != 128+n {
			t.Errorf("signal %d: %s, %q, code %d", n, r.Status, r.Signal, r.Code)
		}
	}
}

func testTrees(t *testing.T, s *suite) {
	t.Run("leftover", func(t *testing.T) { testLeftover(t, s) })
	t.Run("timeout", func(t *testing.T) {
		r := do(t, s.box, sandbox.Command{Cmd: "echo before; sleep 1000", Timeout: 2 * time.Second})
		if r.Status != sandbox.TimedOut || r.stdout != "before\n" || r.Signal != "SIGTERM" {
			t.Errorf("%s, %q, %s", r.Status, r.stdout, r.Signal)
		}
	})
	t.Run("many double forks", func(t *testing.T) {
		want(t, sh(t, s.box, "for i in $(seq 5000); do ( (exit 0) & ); done; wait; echo done"), 0, "done\n")
		eventually(t, "no zombies", func() bool { return zombies(t, s.box) == 0 })
	})
	t.Run("one kills every visible process", func(t *testing.T) { testKillerSparesAgent(t, s) })
	for name, cmd := range stubborn {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a box of its own, and mostly waits
			testKill(t, s, sandbox.Command{Cmd: cmd})
		})
	}
	for _, name := range []string{"all at once", "re-parents", "and no env"} {
		t.Run(name+", timed out", func(t *testing.T) {
			t.Parallel()
			testKill(t, s, sandbox.Command{Cmd: stubborn[name], Timeout: 4 * time.Second})
		})
	}
}

// testKillerSparesAgent has a command kill every other process: all that it sees in a box
// that isolates, elsewhere all that the agent has started. The agent survives.
func testKillerSparesAgent(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	list := "cd /proc; echo [0-9]*"
	if !s.isolated {
		list = fmt.Sprintf("cat /proc/%d/task/*/children", box.Pid)
	}
	neighbour := start(t, box, sandbox.Command{Cmd: "echo up; exec sleep 1000"})
	printed(t, neighbour, "up")
	want(t, sh(t, box, "for p in $("+list+"); do [ $p = $$ ] || kill -9 $p; done 2>/dev/null; echo done"), 0, "done\n")
	if r := wait(t, neighbour); r.Status != sandbox.Exited || r.Signal != "SIGKILL" {
		t.Errorf("%+v", r.Exit)
	}
	want(t, sh(t, box, "echo alive"), 0, "alive\n")
}

// zombies counts the zombies that the agent should have reaped.
func zombies(t testing.TB, box *sandbox.Box) int {
	r := sh(t, box, fmt.Sprintf(`cat /proc/[0-9]*/stat 2>/dev/null | awk '{ sub(/^.*\) /, ""); if ($1 == "Z" && $2 == %d) n++ } END { print n+0 }'`, box.Pid))
	var n int
	fmt.Sscan(r.stdout, &n)
	return n
}

func testLeftover(t *testing.T, s *suite) {
	box := s.newBox(t)
	defer box.Close()
	r := sh(t, box, "sleep 60 & echo hi")
	want(t, r, 0, "hi\n")
	if len(r.Leftover) != 1 || r.Leftover[0].Name != "sleep" {
		t.Errorf("leftover %v", r.Leftover)
	}
	if r.Took > 10*time.Second {
		t.Errorf("took %v", r.Took)
	}
	// Its later output is logged.
	r = sh(t, box, "(sleep 0.5; echo late; sleep 60) & echo now")
	want(t, r, 0, "now\n")
	printed(t, r.run, "late\n")
	// A process that has closed its output is left over too.
	r = sh(t, box, "setsid sleep 60 >/dev/null 2>&1 & exit 7")
	want(t, r, 7, "")
	if len(r.Leftover) != 1 {
		t.Errorf("leftover %v", r.Leftover)
	}
	// Many at once, while they execute another program.
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if r := sh(t, box, "setsid sleep 60 >/dev/null 2>&1 & exit"); len(r.Leftover) != 1 {
				t.Errorf("leftover %v", r.Leftover)
			}
		})
	}
	all.Wait()
	// A process that hides in every way.
	r = sh(t, box, "env -i setsid -f sleep 60 >/dev/null 2>&1; sleep 0.2")
	if len(r.Leftover) > 1 {
		t.Errorf("leftover %v", r.Leftover)
	}
	want(t, sh(t, box, "echo next"), 0, "next\n")
}

// stubborn are commands that do what they can to survive a kill. Each prints "up" when
// all its processes run; their processes are named "sleep 4242" or print.
var stubborn = map[string]string{
	"plain":         `sleep 4242 & echo up; wait`,
	"ignores TERM":  `trap '' TERM; sleep 4242 & echo up; while :; do sleep 1; done`,
	"setsid":        `setsid sleep 4242 & setsid bash -c 'trap "" TERM; sleep 4242; sleep 4242' & sleep 0.1; echo up; wait`,
	"double fork":   `( ( sleep 4242 & ) & ); ( ( trap "" TERM; sleep 4242 & ) & ); sleep 0.1; echo up; sleep 4242`,
	"no env":        `env -i bash -c 'sleep 4242 & sleep 4242 & wait' & sleep 0.1; echo up; wait`,
	"holds stdout":  `setsid bash -c 'trap "" TERM; while :; do echo still; sleep 0.01; done' & sleep 0.1; echo up; wait`,
	"stopped":       `sleep 4242 & kill -STOP $!; echo up; wait`,
	"all at once":   `trap '' TERM; env -i setsid bash -c 'trap "" TERM; ( ( sleep 4242; sleep 4242 ) & ) & sleep 4242' & ( env -i setsid -f sleep 4242 & ) ; sleep 0.2; echo up; while :; do sleep 1; done`,
	"many":          `for i in $(seq 100); do ( setsid sleep 4242 & ); done; sleep 0.2; echo up; wait; sleep 4242`,
	"re-parents":    reparent(`exec setsid bash "$0"`),
	"and no env":    reparent(`exec env -i setsid bash "$0"`),
	"shell is gone": `( setsid bash -c 'sleep 4242; sleep 4242' & ); echo up; sleep 4242`,
}

// reparent returns a script that forks, lets its parent end, and repeats that about every
// millisecond. It ignores TERM, and updates the time of a file while it lives.
func reparent(again string) string {
	return `trap '' TERM
f=$(mktemp -d)/chain
cat > $f <<'END'
trap '' TERM
: > "$0.alive"
( sleep 0.001; ` + again + ` ) &
END
setsid bash $f & sleep 0.3; echo up $f.alive; sleep 4242`
}

// testKill kills a command that ignores SIGTERM, or lets its time limit kill it, while
// another command runs in the same box. No process of the killed command is left, and no
// byte of the other command's output is lost.
func testKill(t *testing.T, s *suite, c sandbox.Command) {
	box := s.newBox(t)
	defer box.Close()
	neighbour := start(t, box, sandbox.Command{Cmd: `i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i; sleep 0.01; done; echo end $i`})
	victim := start(t, box, c)
	printed(t, victim, "up")
	status := sandbox.TimedOut
	if c.Timeout == 0 {
		status = sandbox.Killed
		victim.Kill()
	}
	r := wait(t, victim)
	if r.Status != status {
		t.Errorf("%s, want %s, %v", r.Status, status, r.Err)
	}
	if len(r.Leftover) != 0 {
		t.Errorf("leftover %v", r.Leftover)
	}
	checkDead(t, box, r)
	want(t, sh(t, box, "touch stop"), 0, "")
	checkCount(t, wait(t, neighbour))
}

// checkDead checks that no process of a stubborn command is left.
func checkDead(t *testing.T, box *sandbox.Box, r result) {
	t.Helper()
	left := sh(t, box, descendants(box.Pid)+` | grep -c 'sleep 424[2]'`)
	if left.stdout != "0\n" {
		t.Errorf("%s of its processes are left", strings.TrimSpace(left.stdout))
	}
	if _, alive, ok := strings.Cut(r.stdout, "up /"); ok {
		file := "/" + strings.TrimSpace(alive)
		moved := sh(t, box, fmt.Sprintf(`a=$(stat -c %%y %s); sleep 0.3; b=$(stat -c %%y %s); [ "$a" = "$b" ] && echo dead; rm -r $(dirname %s)`, file, file, file))
		want(t, moved, 0, "dead\n")
	}
}

// descendants returns a command that lists the command lines of the agent's descendants.
// On a backend that does not isolate, other processes do not concern the test.
func descendants(agent int) string {
	return fmt.Sprintf(`walk() { for t in /proc/$1/task/*; do for c in $(cat $t/children 2>/dev/null); do tr '\0' ' ' < /proc/$c/cmdline 2>/dev/null; echo; walk $c; done; done; }; walk %d`, agent)
}

// checkCount checks that a run which counts printed every number.
func checkCount(t *testing.T, r result) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(logged(t, r.run))), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("line %d of the neighbour is %q", i+1, line)
		}
	}
	if last := lines[len(lines)-1]; r.Code != 0 || last != fmt.Sprintf("end %d", len(lines)-1) {
		t.Errorf("the neighbour: %s, exit %d, last line %q of %d", r.Status, r.Code, last, len(lines))
	}
}
