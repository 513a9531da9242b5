//go:build linux

package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// spareHost starts an agent with a number of spare shells, which isolates runs as in a
// box.
func spareHost(t testing.TB, spares int, dir string) (h *host) {
	t.Helper()
	asInABox(t, func() { h = launch(t) })
	return hello(t, h, spares, dir)
}

func hello(t testing.TB, h *host, spares int, dir string) *host {
	t.Helper()
	h.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Dir: dir, Spares: spares, Env: commandEnv()})
	if f, err := h.r.Read(); err != nil || f.Kind != wire.Hello {
		t.Fatalf("%v, %v", f.Kind, err)
	}
	return h
}

func commandEnv() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "TERM=dumb"}
}

// sparesOf returns the idle spare shells of an agent: they have closed their script.
func (h *host) sparesOf() (pids []int) {
	pid := h.cmd.Process.Pid
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, field := range strings.Fields(string(list)) {
			var child int
			fmt.Sscan(field, &child)
			environ, _ := os.ReadFile("/proc/" + field + "/environ")
			line, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if bytes.HasPrefix(environ, []byte("WARMBOX_RUN=")) && bytes.Contains(line, []byte(`eval -- "$BASH_EXECUTION_STRING"`)) {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// awaitSpares waits until at least n spare shells are idle, and returns them.
func (h *host) awaitSpares(n int) []int {
	h.t.Helper()
	return h.await(func(ready int) bool { return ready >= n })
}

func (h *host) await(enough func(ready int) bool) []int {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		pids := h.sparesOf()
		if enough(len(pids)) {
			return pids
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d spares", len(pids))
		}
	}
}

// outcome is everything observable of a command.
type outcome struct{ out, err, exit string }

// onSpare runs a command on the idle spare shell.
func (h *host) onSpare(body wire.StartBody) outcome {
	h.t.Helper()
	spares := h.awaitSpares(1)
	id := h.run(body)
	if pid := h.started(); !slices.Contains(spares, pid) {
		h.t.Errorf("%.100q runs in %d, and the spares are %d", body.Cmd, pid, spares)
	}
	return h.outcome(id)
}

// started returns the pid of the run that starts next.
func (h *host) started() int {
	h.t.Helper()
	f, err := h.r.Read()
	for err == nil && f.Kind != wire.Started { // of the run before
		f, err = h.r.Read()
	}
	var started wire.StartedBody
	if err != nil || f.Kind != wire.Started || wire.Decode(f, &started) != nil {
		h.t.Fatalf("%v %s, %v", f.Kind, f.Payload, err)
	}
	return started.Pid
}

func (h *host) outcome(id wire.ID) outcome {
	out, exit := h.until(id, "")
	return outcome{out, h.stderr, fmt.Sprint(exit.Code, " ", exit.Signal)}
}

// inPlain runs a command in a bash without an agent.
func inPlain(t testing.TB, dir, cmd string) outcome {
	t.Helper()
	var out, stderr bytes.Buffer
	c := exec.Command("/bin/bash", "-c", cmd)
	if strings.HasPrefix(cmd, "-") || strings.HasPrefix(cmd, "+") {
		c.Args = slices.Insert(c.Args, 2, "--")
	}
	c.Dir, c.Stdout, c.Stderr = dir, &out, &stderr
	c.Env = append([]string{"WARMBOX_RUN=0123456789abcdef"}, commandEnv()...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	asInABox(t, func() { err = c.Start() })
	defer time.AfterFunc(20*time.Second, func() { c.Process.Kill() }).Stop()
	if err == nil {
		err = c.Wait()
	}
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	st := c.ProcessState.Sys().(syscall.WaitStatus)
	exit := fmt.Sprint(st.ExitStatus(), " 0")
	if st.Signaled() {
		exit = fmt.Sprint(128+int(st.Signal()), " ", int(st.Signal()))
	}
	return outcome{out.String(), stderr.String(), exit}
}

// commands are the single-line commands of testdata/commands.txt, those of several lines,
// and every way to end in every syntactic place.
func commands(t testing.TB) (list []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	list = append(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), severalLines...)
	for _, end := range ends {
		for _, place := range places {
			list = append(list, strings.ReplaceAll(place, "@@", end))
		}
	}
	return list
}

var severalLines = []string{
	"", "\n", "  ", "\n\ntrue", "echo a\necho $LINENO\nnosuch\necho b", "true\nfi", "cat <<E\na $((1+1))\nE", "cat <<E\nopen", "cat <<'E'\n$x\nE\necho $LINENO",
	"f() {\n  nosuch\n}\nf", "echo a \\\n b", "echo 'a\nb'\necho $LINENO", "if true\nthen nosuch\nfi", "#!/bin/sh\necho $0", "alias x='echo hi'\nshopt -s expand_aliases\nx",
	"shopt -s expand_aliases\nalias x='echo hi'\nx", "set -e\nfalse\necho after", "echo a\n\nexit 3\n", "trap 'echo $LINENO' EXIT\ntrue\n", "set -x\necho a\necho b", "set -v\necho a\necho b",
	"echo \x01\x7f\x02 | od -c", "x='\x01\x7f'; echo ${#x}; printf %s \"$x\" | od -c", "echo ä€😀 '\u00a0'", "echo '\t' \t x", "echo a\r\necho b", "echo \"'\" '\"' \\' \"\\\"\" '\\'",
	"exec 3<<<x\nread -u 3 y\necho $y", "kill -9 $$\n", "nosuch\n", "ls /nosuch\n\n", "true\nsh -c 'kill -9 $$'",
	"echo $BASH_EXECUTION_STRING\necho 'a b'", "case x in\nx) echo\t$LINENO;;\nesac", "{\nnosuch\n}", "time {\ntrue\n} 2>/dev/null", "cat <<-E\n\ta\n\tE", "echo $(\nnosuch\n)", "a=(\n1\n2\n)\necho ${a[1]}",
	"true " + strings.Repeat("#", 7000), "echo " + strings.Repeat("a ", 3000), strings.Repeat("echo x\n", 1000),
}

var (
	ends   = []string{"true", "false", "nosuch", "ls /nosuch", "(exit 4)", "exit 3", "kill -9 $$", "kill $$", "sh -c 'kill -9 $$'", "sh -c 'kill $$'", "sh -c 'exit 5'", "cd /nosuch"}
	places = []string{
		"@@", "@@; :", "true; @@", "(@@)", "{ @@; }", "@@ | cat", "cat | @@", "@@ && echo y", "@@ || echo n", "! @@", "if @@; then echo y; else echo n; fi", "set -e; @@; echo after",
		"f() { @@; }; f", "f() { @@; }; f; echo $?", "eval \"@@\"", "trap 'echo bye $?' EXIT; @@", "@@ & wait $!; echo $?", "exec @@", "echo $(@@)", "x=$(@@); echo $?", "set -x; @@",
		"set -o pipefail; @@ | cat", "@@ > f", "@@ 2>&1", "@@ < /etc/hostname", "x=1 @@", "while @@; do break; done", "for i in 1 2; do @@; done", "command @@", "bash -c \"@@\"", "env @@", "(@@) & wait; echo $?",
	}
)

// spareDiffers is the complete list of differences that the commands above can see on a
// spare shell.
var spareDiffers = []struct {
	what string
	see  *regexp.Regexp
}{
	{"the zeros behind the command, as far as there is room for one", regexp.MustCompile(`/proc/\$\$/cmdline`)},
	{"PIPESTATUS before the first command, which is 0 and not unset", regexp.MustCompile(`^echo "\$\{PIPESTATUS\[@\]\}"$`)},
	{"BASH_ARGC and PIPESTATUS where all variables are shown", regexp.MustCompile(`^declare -p \||^set \||^compgen -v`)},
}

// boxDiffers matches commands that see the agent's limits, on a spare shell or not.
var boxDiffers = regexp.MustCompile(`^ulimit|/limits`)

// timed matches commands whose output depends on time, so they are tried again: bash
// reports a background job unless that ended before the wait, and a process may grow a
// second older before ps reads its age.
var timed = regexp.MustCompile(`& wait|etimes|stat=`)

// A command has the same outcome on a spare shell, in a new shell of the agent and in a
// bash without an agent, but for the listed differences.
func TestSpareBehavesLikeANewShell(t *testing.T) {
	needDomains(t)
	dir := t.TempDir()
	on, off := spareHost(t, 1, dir), spareHost(t, 0, dir)
	seen := map[string]bool{}
	for _, cmd := range commands(t) {
		spare, fresh, plain := on.threeWays(off, dir, cmd)
		for tries := 0; tries < 5 && timed.MatchString(cmd) && (spare != fresh || fresh != plain); tries++ {
			spare, fresh, plain = on.threeWays(off, dir, cmd)
		}
		switch why := spareDiffer(cmd); {
		case spare == fresh:
		case why == "":
			t.Errorf("%.100q:\n  spare %.900q\n  new   %.900q", cmd, spare, fresh)
		default:
			seen[why] = true
		}
		if fresh != plain && !boxDiffers.MatchString(cmd) {
			t.Errorf("%.100q:\n  new   %.900q\n  plain %.900q", cmd, fresh, plain)
		}
	}
	for _, d := range spareDiffers {
		if !seen[d.what] {
			t.Errorf("a listed difference is no longer seen: %s", d.what)
		}
	}
}

// threeWays runs a command on a spare shell, in a new shell of an agent without spare
// shells, and in a bash without an agent.
func (h *host) threeWays(off *host, dir, cmd string) (spare, fresh, plain outcome) {
	h.t.Helper()
	body := wire.StartBody{Cmd: cmd}
	spare = alone(dir, func() outcome { return h.onSpare(body) })
	fresh = alone(dir, func() outcome { return off.outcome(off.run(body)) })
	plain = alone(dir, func() outcome { return inPlain(h.t, dir, cmd) })
	return spare, fresh, plain
}

func spareDiffer(cmd string) string {
	for _, d := range spareDiffers {
		if d.see.MatchString(cmd) {
			return d.what
		}
	}
	return ""
}

// alone runs a command in an empty directory.
func alone(dir string, run func() outcome) outcome {
	old, _ := filepath.Glob(dir + "/*")
	for _, name := range old {
		os.RemoveAll(name)
	}
	o := run()
	return outcome{anonymous(o.out), anonymous(o.err), o.exit}
}

// anonymous replaces what differs in each run: pids, times, and the mark of the run.
func anonymous(text string) string { return changing.ReplaceAllString(text, "N") }

var changing = regexp.MustCompile(`\b[0-9a-f]{16}\b|\b[0-9]{3,}(IT)?\b|\b0m0\.[0-9]+s`)

// Only suitable commands run on a spare shell, and every command sees what it would in a
// new shell.
func TestSpareRunsOnlySuitableCommands(t *testing.T) {
	const show = "env | sort; set -o; shopt; pwd; echo $OLDPWD; declare -p OLDPWD PWD ${!A*}; dirs"
	dir := t.TempDir()
	os.Mkdir(dir+"/sub 'x'", 0o700)
	os.Symlink("sub 'x'", dir+"/link")
	on, off := spareHost(t, 1, dir), spareHost(t, 0, dir)
	for _, c := range []struct {
		name  string
		spare bool // it runs on the spare shell
		body  wire.StartBody
	}{
		{"plain", true, wire.StartBody{}},
		{"variables with special characters", true, wire.StartBody{Env: []string{"A=1", "AB=it's $x `y` \n\t\x01\x7f ä", "A=2", "AC=", "HOME=/nosuch", "PATH=/bin:/usr/bin"}}},
		{"directory with special characters", true, wire.StartBody{Dir: "sub 'x'"}},
		{"directory is a link", true, wire.StartBody{Dir: "link"}},
		{"directory with two slashes", true, wire.StartBody{Dir: "//tmp"}},
		{"same directory", true, wire.StartBody{Dir: "."}},
		{"directory above a link", true, wire.StartBody{Dir: dir + "/link/..", Env: []string{"A=1", "CDPATHS=/tmp"}}},
		{"long command", true, wire.StartBody{Cmd: show + " #" + strings.Repeat("'", 8000-len(show))}},
		{"command too long", false, wire.StartBody{Cmd: show + " #" + strings.Repeat("x", 8<<10)}},
		{"variable too long", false, wire.StartBody{Env: []string{"A=" + strings.Repeat("x", 100<<10)}}},
		{"input", false, wire.StartBody{Stdin: true}},
		{"terminal", false, wire.StartBody{TTY: size}},
		{"named shell", false, wire.StartBody{Shell: "dev"}},
		{"name that is no identifier", false, wire.StartBody{Env: []string{"a.b=c"}}},
		{"exported function", false, wire.StartBody{Env: []string{"BASH_FUNC_ls%%=() { echo no; }"}}},
		{"BASH_ENV", false, wire.StartBody{Env: []string{"BASH_ENV=/dev/null"}}},
		{"SHELLOPTS", false, wire.StartBody{Env: []string{"SHELLOPTS=braceexpand:noglob"}}},
		{"BASHOPTS", false, wire.StartBody{Env: []string{"BASHOPTS=nullglob"}}},
		{"POSIXLY_CORRECT", false, wire.StartBody{Env: []string{"POSIXLY_CORRECT=1"}}},
		{"ENV", false, wire.StartBody{Env: []string{"ENV=/nosuch"}}},
		{"LD_DEBUG", false, wire.StartBody{Env: []string{"LD_DEBUG=nosuch"}}},
		{"LC_ALL", false, wire.StartBody{Env: []string{"LC_ALL=nosuch"}}},
		{"PWD and OLDPWD", false, wire.StartBody{Env: []string{"PWD=/nosuch", "OLDPWD=/tmp"}}},
		{"SHLVL", false, wire.StartBody{Env: []string{"SHLVL=7"}}},
		{"IFS", false, wire.StartBody{Env: []string{"IFS=x"}}},
		{"UID", false, wire.StartBody{Env: []string{"UID=5"}}},
		{"PS4", false, wire.StartBody{Env: []string{"PS4=x"}}},
		{"_", false, wire.StartBody{Env: []string{"_=x"}}},
		{"RANDOM", false, wire.StartBody{Env: []string{"RANDOM=x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.body.Cmd == "" {
				c.body.Cmd = show
			}
			on.t, off.t = t, t
			spare := on.awaitSpares(1)[0]
			id := on.run(c.body)
			if pid := on.started(); (pid == spare) != c.spare {
				t.Errorf("it runs in process %d, and the spare shell is %d", pid, spare)
			}
			got := on.outcome(id)
			if want := off.outcome(off.run(c.body)); anonymous(got.out) != anonymous(want.out) || anonymous(got.err) != anonymous(want.err) {
				t.Errorf("\n  %q\n  %q", got, want)
			}
		})
	}
}

// A spare shell notices that its directory was replaced.
func TestSpareNoticesAReplacedDirectory(t *testing.T) {
	dir := t.TempDir() + "/dir"
	os.Mkdir(dir, 0o700)
	h := spareHost(t, 1, dir)
	for _, change := range []func(){
		func() {},
		func() { os.Remove(dir); os.Mkdir(dir, 0o700) },
		func() { os.Rename(dir, dir+"2"); os.Symlink(dir+"2", dir) },
	} {
		h.awaitSpares(1)
		change()
		want, _ := filepath.EvalSymlinks(dir)
		if o := h.onSpare(wire.StartBody{Cmd: "pwd; /bin/pwd; declare -p OLDPWD"}); o.out != want+"\n"+want+"\ndeclare -x OLDPWD\n" {
			t.Errorf("%q, in %s", o, want)
		}
	}
}

// A command that attacks a spare shell, with the same user id, neither affects the next
// command nor makes it fail.
func TestAttackOnSpareDoesNotReachTheNextCommand(t *testing.T) {
	for name, attack := range map[string]string{
		"nothing":             ":",
		"kill":                "kill $S; exit 0",
		"kill -9":             "kill -9 $S; exit 0",
		"stop":                "kill -STOP $S; exit 0",
		"continue":            "kill -CONT $S; kill -WINCH $S; kill -CHLD $S; exit 0",
		"its output":          "echo forged >/proc/$S/fd/1; exit 0",
		"its errors":          "echo forged >/proc/$S/fd/2; exit 0",
		"its socket":          "echo 'echo forged' 2>/dev/null >/proc/$S/fd/3 && echo open; exit 0",
		"its socket, reading": "cat 2>/dev/null </proc/$S/fd/3 && echo open; exit 0",
		"its script":          "echo 'echo forged' 2>/dev/null >/proc/$S/fd/4 && echo open; exit 0",
		"its limits":          "renice -n 5 $S >/dev/null; exit 0",
	} {
		t.Run(name, func(t *testing.T) {
			h := spareHost(t, 1, t.TempDir())
			spare := h.awaitSpares(1)[0]
			for readState(spare) != "S" {
			}
			if o := inPlain(t, "/", fmt.Sprintf("S=%d; %s", spare, attack)); o != (outcome{"", "", "0 0"}) {
				t.Fatalf("the attacking command: %q", o)
			}
			if o := h.outcome(h.run(wire.StartBody{Cmd: "echo fine"})); o != (outcome{"fine\n", "", "0 0"}) {
				t.Errorf("%q", o)
			}
		})
	}
}

// If a spare shell is killed at a moment when the agent cannot notice, its command still
// runs, once, in a new shell.
func TestCommandOfAKilledSpareRunsOnce(t *testing.T) {
	dir := t.TempDir()
	h := spareHost(t, 1, dir)
	const rounds = 4
	for range rounds {
		h.awaitSpares(1)
		h.cmd.Process.Signal(syscall.SIGSTOP)
		for readState(h.cmd.Process.Pid) != "T" {
		}
		for _, spare := range h.sparesOf() {
			syscall.Kill(spare, syscall.SIGKILL)
		}
		id := h.run(wire.StartBody{Cmd: "echo ran >>log; echo fine"})
		h.cmd.Process.Signal(syscall.SIGCONT)
		if o := h.outcome(id); o != (outcome{"fine\n", "", "0 0"}) {
			t.Errorf("%q", o)
		}
	}
	if log, _ := os.ReadFile(dir + "/log"); string(log) != strings.Repeat("ran\n", rounds) {
		t.Errorf("%q", log)
	}
}

// readState returns the letter of a process's state, "" if the process is gone.
func readState(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(stat[bytes.LastIndexByte(stat, ')')+2:][:1])
}

// The kill of a run replaces the spare shells, so that nothing which a command planted in
// one survives.
func TestKillReplacesSpares(t *testing.T) {
	h := spareHost(t, 1, t.TempDir())
	spare := h.awaitSpares(1)[0]
	id := h.run(wire.StartBody{Cmd: "echo on; sleep 1000", Stdin: true})
	h.until(id, "on")
	h.sendJSON(wire.Kill, id, wire.KillBody{})
	if _, exit := h.until(id, ""); !exit.Killed || exit.Open {
		t.Errorf("%+v", exit)
	}
	if next := h.awaitSpares(1)[0]; next == spare {
		t.Error("the spare shell is the same as before")
	}
}

// The agent closes all descriptors of used spare shells.
func TestUsedSparesLeaveNoDescriptors(t *testing.T) {
	h := spareHost(t, 1, t.TempDir())
	open := func() int {
		h.awaitSpares(1)
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.cmd.Process.Pid))
		return len(list)
	}
	h.onSpare(wire.StartBody{Cmd: ":"})
	before := open()
	for range 50 {
		h.onSpare(wire.StartBody{Cmd: ":"})
	}
	for deadline := time.Now().Add(10 * time.Second); open() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors are open, %d before", open(), before)
		}
	}
}

// After a burst of commands the agent keeps more spare shells, and one again later.
// Without a request for them it keeps none.
func TestSparesGrowAfterABurst(t *testing.T) {
	needDomains(t)
	t.Parallel()
	h := spareHost(t, 1, t.TempDir())
	none := spareHost(t, 0, t.TempDir())
	h.awaitSpares(1)
	if pids := none.sparesOf(); len(pids) > 0 {
		t.Errorf("%d spare shells, none is wanted", len(pids))
	}
	var ids []wire.ID
	for range 8 {
		ids = append(ids, h.run(wire.StartBody{Cmd: "sleep 0.2"}))
	}
	for range ids {
		h.outcome(wire.ID{})
	}
	h.awaitSpares(mostSpares)
	h.await(func(ready int) bool { return ready == 1 })
}

const mostSpares = 4

// An idle agent and its spare shells hardly wake up.
func TestIdleSparesDoNotWakeUp(t *testing.T) {
	t.Parallel()
	h := spareHost(t, 1, t.TempDir())
	h.onSpare(wire.StartBody{Cmd: ":"})
	pids := append(h.awaitSpares(1), h.cmd.Process.Pid)
	for readState(pids[0]) != "S" { // it has reported that it is idle, and is about to block
	}
	before := wakeups(pids)
	time.Sleep(2 * time.Second) // the measured time, not a wait for something
	if after := wakeups(pids); !slices.Equal(after[:1], before[:1]) || after[1]-before[1] > 4 {
		t.Errorf("%d wake-ups of the spare and the agent, %d two seconds before", after, before)
	}
}

// wakeups returns the number of voluntary context switches of each process.
func wakeups(pids []int) (list []int) {
	for _, pid := range pids {
		sum := 0
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
			var n int
			fmt.Sscan(rest, &n)
			sum += n
		}
		list = append(list, sum)
	}
	return list
}

// Started is sent while a run lasts, also if the run prints nothing, and if the end of
// another run has stopped the timer.
func TestStartedIsSentWhileTheRunLasts(t *testing.T) {
	needDomains(t)
	h := spareHost(t, 2, t.TempDir())
	h.awaitSpares(2)
	h.run(wire.StartBody{Cmd: "true"})
	h.run(wire.StartBody{Cmd: "sleep 50"})
	one, other := h.started(), h.started()
	if one == other {
		t.Errorf("both runs are in %d", one)
	}
	h.awaitSpares(1)
	h.run(wire.StartBody{Cmd: "sleep 51"}) // no other run ends beside it
	for _, pid := range []int{other, h.started()} {
		if state := readState(pid); state == "" || state == "Z" {
			t.Errorf("Started of process %d was sent after its end", pid)
		}
	}
}
