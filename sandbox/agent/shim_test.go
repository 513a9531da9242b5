//go:build linux

package agent_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/agent"
	"github.com/warmbox/warmbox/sandbox/agentbin"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A test program has the entry of any Go program, so it cannot be a shim. These tests build
// the agent as it is shipped.

var builtAgent = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "agent-of-tests-")
	builtAgentDir = dir
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "agent")
	return path, agentbin.Build(context.Background(), runtime.GOARCH, path)
})

var builtAgentDir string // "" if no test has built an agent

func removeBuiltAgent() {
	if builtAgentDir != "" {
		os.RemoveAll(builtAgentDir)
	}
}

// shimmed are the programs with shims in most tests.
var shimmed = strings.Fields(`cat grep head tail wc ls sh bash dash env od sleep sort tr sed awk seq true false kill tee xargs dd yes
	timeout find printf test [ nosuchprogram echo expr cut date stat chmod rm touch mkdir python3 nice setsid nohup`)

// shimHost starts an agent with shims, with spare shells if it isolates runs as in a box.
func shimHost(t testing.TB, dir string, rules wire.Shims) *host {
	t.Helper()
	path, err := builtAgent()
	if err != nil {
		t.Fatal(err)
	}
	h := launchProgram(t, path, os.Stderr)
	h.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Dir: dir, Env: commandEnv(), Shims: &rules})
	f, err := h.r.Read()
	var answer wire.HelloBody
	if err != nil || f.Kind != wire.Hello || wire.Decode(f, &answer) != nil || answer.NoShims != 0 {
		t.Fatalf("%v %s, %v", f.Kind, f.Payload, err)
	}
	return h
}

// sh runs a command to its end.
func (h *host) sh(cmd string) outcome {
	id := h.run(wire.StartBody{Cmd: cmd})
	defer time.AfterFunc(20*time.Second, func() { h.sendJSON(wire.Kill, id, wire.KillBody{}) }).Stop()
	return h.outcome(id)
}

// want runs a command and checks all that it prints, and its exit code.
func (h *host) want(cmd, out, stderr string, code int) {
	h.t.Helper()
	if got, want := h.sh(cmd), (outcome{out, stderr, fmt.Sprint(code, " 0")}); got != want {
		h.t.Errorf("%.200q:\n got %.2000q\nwant %.2000q", cmd, got, want)
	}
}

// shimPaths match what a command can see of shims.
var shimPaths = regexp.MustCompile(`/dev/shm/warmbox-shims-[0-9]+/bin(:|/)`)

// shimDiffers matches commands that show that a program has a shim: the place where a shell
// finds it, and the parent of the program. A program that signals the process that its caller
// has become, and ends, has ended before its shim can pass the signal on.
var shimDiffers = regexp.MustCompile(`\b(type|hash|which|command -v|PPID)\b|^ps |pstree|/proc/self/stat\b|env kill \$\$|bash -c .sh -c 'kill \$\$'`)

// shimCommands use streams, signals and jobs in every way in which a program between a
// caller and the real program could show.
var shimCommands = []string{
	"seq 30000 > big; cat big | wc -l; cat big > copy; cmp big copy && echo same; wc -c < copy",
	"seq 9 > f; grep -q 5 f; echo $?; grep -q x f; echo $?; grep -c . nosuch; echo $?",
	"cat <(echo a) <(echo b; echo c)", "cat <<E\nhere $((1+1))\nE", "cat <<<word", "x=$(cat <<<y); echo $x", "cat < /dev/null; echo $?",
	"yes | head -2; echo ${PIPESTATUS[@]}", "seq 100000 | head -1; echo ${PIPESTATUS[*]}", "(trap '' PIPE; yes 2>e | head -1 >/dev/null); cat e",
	"sh -c 'yes | head -1'", "cat /dev/zero | head -c 100000 | od -An -c | tail -1",
	"seq 3 > f; cat f >&-; echo $?", "cat <&-; echo $?", "cat nosuch 2>&-; echo $?", "cat f >&- 2>&-; echo $?", "seq 3 | cat <&0 -; exec <&-; cat; echo $?",
	"ls -l /proc/self/fd | awk '{print $9, $11}' | sed 's/[0-9][0-9][0-9]*/N/g' | sort -u | head -9", "ls /proc/self/fd 5</dev/null 7</dev/null", "ls /proc/self/fd >&- 2>e; ls /proc/self/fd <&- >o; cat o",
	"exec cat /etc/hostname", "exec sh -c 'exit 5'", "sh -c 'exit 7'; echo $?", "sh -c 'kill -9 $$'; echo $?", "sh -c 'kill -SEGV $$'; echo $?", "sh -c 'kill -PIPE $$' | cat; echo ${PIPESTATUS[*]}", "exec sh -c 'kill -9 $$'",
	"sleep 100 & kill $!; wait $!; echo $?", "sleep 100 & kill -9 $!; wait $!; echo $?", "sleep 100 & kill -HUP $!; wait $!; echo $?", "sleep 100 & kill -USR1 $!; wait $!; echo $?",
	"sh -c 'trap \"echo got; exit 7\" TERM; echo > ready; while :; do sleep 0.02; done' & until [ -f ready ]; do sleep 0.01; done; kill $!; wait $!; echo $?",
	"sh -c 'trap \"echo got; exit 8\" INT; echo > ready; while :; do sleep 0.02; done' <&0 & until [ -f ready ]; do sleep 0.01; done; kill -USR2 $!; wait $!; echo $?",
	"sleep 100 & kill -STOP $!; kill -CONT $!; kill $!; wait $!; echo $?", "set -m; sleep 100 & kill %1; wait %1; echo $?", "set -m; sh -c 'kill -STOP $$; echo on' & until jobs -s | grep -q Stopped; do sleep 0.01; done; kill -CONT %1; wait %1; echo $?",
	"trap '' CHLD; sh -c 'exit 4'; echo $?", "trap '' TERM; sh -c 'kill $$; echo alive'", "trap '' INT; sh -c 'trap'", "timeout 0.1 sleep 10; echo $?", "timeout -s KILL 0.1 sleep 10; echo $?", "timeout --foreground 0.1 sleep 10; echo $?",
	"sleep 0.1 & cat /etc/hostname; wait; echo $?", "cat /etc/hostname & wait $!; echo $?", "for i in 1 2 3; do (sh -c \"exit $i\"; echo $?) & wait; done", "coproc cat; echo hi >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x",
	"sh -c '(sleep 0.1; echo late) & echo early'; echo now; sleep 0.3", "nohup sh -c 'echo x' 2>&1 | cat; echo ${PIPESTATUS[*]}", "setsid sh -c 'echo s'; echo $?",
	"env -i /usr/bin/env", "env | sort", "A='x y' env | grep ^A=", "env -u PATH /usr/bin/env | sort", "sh -c 'echo $0 \"$@\"' a '' 'b c' $'d\\te\\nf'", "printf '%s\\n' a 'b  c' | xargs -n1 echo", "seq 20 | xargs -P4 -n3 echo | sort", "find /etc/hostname -exec cat {} +",
	"(exec -a other sh -c 'echo $0')", "(exec -a other cat /proc/self/comm)", "sh -c 'echo $0'", "cat /proc/self/comm", "tr '\\0' ' ' < /proc/self/cmdline", "cat /proc/self/cmdline | tr '\\0' ' '", "cat --nosuchoption; echo $?", "$(command -v sh) -c 'echo $0' | sed s,.*/,,",
	"umask 077; touch f; stat -c %a f", "nice -n 5 sh -c 'nice'", "ulimit -n 20; cat /etc/hostname", "ulimit -c; sh -c 'ulimit -a' | head -3", "cd /; sh -c pwd", "mkdir d; cd d; rm -r ../d; sh -c 'echo here'; cat /etc/hostname",
	"nosuchprogram; echo $?", "nosuchprogram 2>/dev/null || echo none", "mkdir p; printf 'echo plain $1\\n' > p/nosuch; chmod +x p/nosuch; PATH=p:$PATH; nosuch arg; env nosuch arg",
	"mkdir p; ln -s /bin/cat p/true; PATH=$PWD/p:$PATH; env true /etc/hostname", "PATH=$PATH:$PATH; cat /etc/hostname; env env env cat /etc/hostname; sh -c 'sh -c \"cat /etc/hostname\"'",
	"ln -s $(command -v cat) mycat; ./mycat /etc/hostname", "printf '#!%s\\necho script $1\\n' $(command -v sh) > s; chmod +x s; ./s a", "cat big 2>&1 >/dev/null; ls nosuch 2>&1 | cat", "ls nosuch /etc/hostname 2>&1 >out; cat out", "sh -c 'echo a; echo b >&2; echo c' 2>&1",
	"exec 3<<<three; cat <&3", "exec 3<<<x; cat /dev/fd/3", "cat /dev/stdin <<<z", "echo q | cat - /dev/null", "cat big | (read x; echo $x)", "true && false; echo $?; ! true; echo $?", "[ a = a ] && env [ a = b ]; echo $?", "date +%Y >/dev/null; echo $?", "perl -MTime::HiRes=ualarm -e 'ualarm 1e5; exec @ARGV' sleep 9; echo $?",
	"set -o pipefail; cat nosuch | cat; echo $?", "cat nosuch; exit 3", "kill -9 $$", "sh -c 'kill -9 $PPID'; echo not reached",
}

// notFound matches what says that there is no program: a shell, or the shim.
var notFound = regexp.MustCompile(`(/bin/bash: line [0-9N]+|dash: [0-9N]+|/bin/sh: [0-9N]+|sh: [0-9N]+|bash: line [0-9N]+|warmbox): (nosuch\w*): (command )?not found`)

// byEnv matches how env says it.
var byEnv = regexp.MustCompile(`env: ‘(nosuch\w*)’: No such file or directory`)

// shimSees removes from an outcome what differs with shims.
func shimSees(o outcome) outcome {
	return outcome{shimPaths.ReplaceAllString(o.out, ""), notFound.ReplaceAllString(byEnv.ReplaceAllString(shimPaths.ReplaceAllString(o.err, ""), "warmbox: $1: not found"), "$2: not found"), o.exit}
}

// TestShimBehavesLikeTheProgram: a command line has the same output, exit code and files with
// shims in front of its programs as without, also if the shim could limit the output but the
// limit is not reached.
func TestShimBehavesLikeTheProgram(t *testing.T) {
	dir := t.TempDir()
	off := hello(t, launch(t), 0, dir)
	on := shimHost(t, dir, wire.Shims{Names: shimmed})
	limited := shimHost(t, dir, wire.Shims{Names: shimmed, OutputBytes: 4000, OutputLines: 200})
	var list []string
	for i, cmd := range shimCommands {
		list = append(list, cmd)
		if !strings.Contains(cmd, "set -m") && (weekly.On() || i%5 == 0) { // dash has no jobs without a terminal
			list = append(list, "dash -c "+quoted(cmd))
		}
	}
	for i, cmd := range commands(t) {
		if weekly.On() || i%100 == 0 {
			list = append(list, cmd)
		}
	}
	for i, cmd := range list {
		if shimDiffers.MatchString(cmd) && !strings.Contains(cmd, "$(command -v") {
			continue
		}
		var without, with, below outcome
		for range 3 { // what depends on time is tried again
			without = alone(dir, func() outcome { return shimSees(off.sh(cmd)) })
			if with = without; weekly.On() || i%4 == 0 {
				with = alone(dir, func() outcome { return shimSees(on.sh(cmd)) })
			}
			below = alone(dir, func() outcome { return shimSees(limited.sh(cmd)) })
			if without == with && without == below {
				break
			}
		}
		if without != with {
			t.Errorf("%.300q:\n without %.900q\n with    %.900q", cmd, without, with)
		}
		if without != below && len(without.out) <= 4000 && strings.Count(without.out, "\n") <= 200 {
			t.Errorf("%.300q:\n without %.900q\n limited %.900q", cmd, without, below)
		}
	}
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// dirOf returns the directory of an agent's shims.
func (h *host) dirOf() string {
	h.t.Helper()
	dir, _, _ := strings.Cut(h.sh("echo $PATH").out, ":")
	if !strings.Contains(dir, "/warmbox-shims-") {
		h.t.Fatalf("the PATH begins with %q", dir)
	}
	return dir
}

// TestShimLimitsTheRunsOwnOutput: a call prints at most so much to the output of its run, and
// everything to pipes and files. The program goes on to its end.
func TestShimLimitsTheRunsOwnOutput(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: shimmed, OutputBytes: 4000, OutputLines: 200})
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}
	const mark = "...[truncated]\n"
	x := strings.Repeat("x", 4000)
	h.want("seq 200", lines(1, 200), "", 0)
	h.want("seq 201", lines(1, 200)+mark, "", 0)
	h.want("seq 300 | cat; echo end", lines(1, 200)+mark+"end\n", "", 0)
	h.want("seq 30000 > f; wc -l < f; cat f | tail -n 1; cat f f > g; wc -l g", "30000\n30000\n60000 g\n", "", 0)
	h.want("printf %4000s | tr ' ' x > four; cat four", x, "", 0)
	h.want("printf y >> four; cat four; echo after", x+"\n"+mark+"after\n", "", 0)
	h.want("printf %3998s | tr ' ' x > u; printf 'äöü' >> u; cat u", x[:3998]+"ä\n"+mark, "", 0)
	h.want("printf %3999s | tr ' ' x > v; printf 'äöü' >> v; cat v", x[:3999]+"\n"+mark, "", 0)
	h.want("sh -c 'seq 300; echo done > side'; cat side", lines(1, 200)+mark+"done\n", "", 0)
	h.want("cat v >&2", "", x[:3999]+"\n"+mark, 0)
	h.want("sh -c 'seq 300 >&2' 2>&1", lines(1, 200)+mark, "", 0)
	h.want("sh -c '/usr/bin/seq 300 >&2'", "", lines(1, 300), 0)
	h.want("sh -c 'seq 300; exit 3'", lines(1, 200)+mark, "", 3)
	h.want("yes | head -c 9999 | wc -c; seq 300 | tee t | wc -l; wc -l < t", "9999\n300\n300\n", "", 0)
	h.want("x=$(seq 300); echo ${#x}", "1091\n", "", 0)
	h.want("sh -c '(sleep 0.1; seq 300) & seq 150'; sleep 0.5; echo end", lines(1, 150)+lines(1, 50)+mark+"end\n", "", 0)
	id := h.run(wire.StartBody{Cmd: "stty -onlcr; seq 300", TTY: &wire.Size{Cols: 80, Rows: 24}})
	if out, _ := h.until(id, ""); out != lines(1, 300) {
		t.Errorf("at a terminal: %.2000q", out)
	}
}

// TestShimRules: a denied program does not run and its sentence is printed; at its time limit a
// program ends.
func TestShimRules(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: []string{"cat", "sh"}, Deny: map[string]string{"touch": "Ask before you make files.", "nosuch": "No."}, TimeoutMillis: 30_000})
	h.want("touch f; echo $?; ls", "126\n", "warmbox: touch: Ask before you make files.\n", 0)
	h.want("echo a b | xargs touch; echo $?; ls", "123\n", "warmbox: touch: Ask before you make files.\n", 0)
	h.want("nosuch 2>&-; echo $?", "126\n", "", 0)
	h.want("/bin/touch f; ls", "f\n", "", 0)
	h.want("PATH=/bin touch g; ls", "f\ng\n", "", 0) // no boundary
	h.want("sh -c 'exit 9'", "", "", 9)
	h.want("printf '#!/nosuch/interpreter\\n' > cat; chmod +x cat; PATH=.:$PATH env cat; rm cat", "", "warmbox: cat: ./cat: No such file or directory\n", 0)

	h = shimHost(t, dir, wire.Shims{Names: []string{"sh", "sleep"}, TimeoutMillis: 300})
	late := "the program was ended at its time limit of 300 ms (the setting shims.timeout)\n"
	h.want("sleep 100; echo $?", "124\n", "warmbox: sleep: "+late, 0)
	h.want("sh -c 'trap \"\" TERM; while :; do /bin/sleep 1; done'; echo $?", "124\n", "warmbox: sh: "+late, 0)
	h.want("sh -c 'exit 9'", "", "", 9)
}

// TestShimFindsNoOtherShim: of a directory of shims in PATH, whichever and however often, no
// shim calls another in place of the program.
func TestShimFindsNoOtherShim(t *testing.T) {
	dir := t.TempDir()
	h, other := shimHost(t, dir, wire.Shims{Names: shimmed}), shimHost(t, dir, wire.Shims{Names: shimmed})
	ours, theirs := h.dirOf(), other.dirOf()
	h.want("PATH="+ours+":"+theirs+":"+ours+"/:/bin:/usr/bin; env sh -c 'env cat /dev/null; echo ok'", "ok\n", "", 0)
	h.want("ln -s "+ours+" a; ln -s "+theirs+" b; PATH=a:b:"+ours+":$PWD/a:/bin:/usr/bin; env true; echo $?", "0\n", "", 0)
	h.want("PATH="+ours+":"+theirs+"; cat /dev/null; echo $?", "127\n", "warmbox: cat: command not found\n", 0)
	h.want("PATH= ; "+ours+"/true; echo $?", "127\n", "warmbox: true: command not found\n", 0)
	h.want("unset PATH; "+ours+"/true; echo $?", "0\n", "", 0)
}

// TestShimWithoutAgentFails: a shim that cannot ask says so, and starts nothing.
func TestShimWithoutAgentFails(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: []string{"touch"}})
	shims := filepath.Dir(h.dirOf())
	const why = "warmbox: touch: the shim of warmbox cannot %s; the program was not started\n"
	h.want("mv "+shims+"/socket x; touch f; echo $?; ls f", "1\n", fmt.Sprintf(why, "connect to the agent: No such file or directory")+"ls: cannot access 'f': No such file or directory\n", 2)

	// An agent that is killed leaves the directory.
	h = shimHost(t, dir, wire.Shims{Names: []string{"touch"}})
	shims = filepath.Dir(h.dirOf())
	t.Cleanup(func() { os.RemoveAll(shims) })
	h.cmd.Process.Kill()
	h.cmd.Wait()
	cmd := exec.Command(shims+"/bin/touch", filepath.Join(dir, "f"))
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf(why, "connect to the agent: Connection refused"); string(out) != want || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%q, %v; want %q", out, err, want)
	}

	// Something else listens, and does not answer.
	os.Remove(shims + "/socket")
	l := listenForShims(t, shims)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	cmd = exec.Command(shims+"/bin/touch", filepath.Join(dir, "f"))
	out, err = cmd.CombinedOutput()
	if !strings.Contains(string(out), "the program was not started") || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err == nil {
		t.Error("the program was started")
	}
}

// TestShimKilledEndsTheProgram: a shim that is killed leaves no program behind, and the program
// gets the signals that a sender means for it.
func TestShimSignals(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: []string{"sh", "sleep"}, OutputBytes: 4000})
	h.want("sh -c 'echo $$ > pid; exec sleep 100' & until [ -s pid ]; do :; done; kill -9 $!; wait $! 2>/dev/null; echo $?; while kill -0 $(cat pid) 2>/dev/null; do :; done; echo gone", "137\ngone\n", "", 0)
	// Ctrl-C at a terminal reaches the program once; the shim does not end before it.
	id := h.run(wire.StartBody{Cmd: "sh -c 'trap \"n=x\\$n\" INT; echo ready; while [ \"$n\" != x ]; do sleep 0.02; done; sleep 0.2; echo once $n; exit 5'; echo exit $?", TTY: &wire.Size{Cols: 80, Rows: 24}})
	h.until(id, "ready")
	h.input(id, "\x03")
	if out, _ := h.until(id, ""); !strings.Contains(out, "once x\r\n") {
		t.Errorf("%q", out)
	}
	// A signal of the host too.
	id = h.run(wire.StartBody{Cmd: "trap '' USR1; sh -c 'n=; trap \"n=x\\$n\" TERM; echo ready; while [ \"$n\" != x ]; do sleep 0.02; done; sleep 0.2; echo once $n; exit 5'; echo exit $?"})
	h.until(id, "ready")
	h.sendJSON(wire.Kill, id, wire.KillBody{GraceMillis: 3000})
	if out, exit := h.until(id, ""); !exit.Killed || strings.Contains(out, "xx") {
		t.Errorf("%q, %+v", out, exit)
	}
	// Ctrl-Z stops both, and fg continues both.
	id = h.run(wire.StartBody{Cmd: "bash --norc --noprofile -i", TTY: &wire.Size{Cols: 80, Rows: 24}})
	h.input(id, "PS1=; sh -c 'echo re''ady; read x; echo got $x'; echo st''opped; fg\n")
	h.until(id, "ready")
	h.input(id, "\x1a")
	h.until(id, "stopped")
	h.input(id, "word\n")
	h.until(id, "got word")
	h.input(id, "exit\n")
	h.until(id, "")
}

// TestShimPassesAnyArguments: random lists of arguments, of any bytes but NUL, arrive unchanged at
// the agent and at the program. Of more than 64 KiB the agent receives the beginning.
func TestShimPassesAnyArguments(t *testing.T) {
	path, err := builtAgent()
	dir := filepath.Join(t.TempDir(), "warmbox-shims-x")
	if err = errors.Join(err, os.MkdirAll(dir+"/bin", 0o700), os.Symlink(path, dir+"/agent"), os.Symlink("../agent", dir+"/bin/sh")); err != nil {
		t.Fatal(err)
	}
	l := listenForShims(t, dir)
	var asked sync.Map // the arguments that the agent received, by the last
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				packet := make([]byte, 1<<20)
				n, _ := conn.Read(packet)
				if args, whole, ok := agent.ParseShim(packet[:n]); ok && len(args) > 3 {
					asked.Store(args[3], received{args, whole})
					conn.Write(agent.ShimAllowed())
					conn.Read(packet)
				}
			}()
		}
	}()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var lists [][]string
	for i := range weekly.Or(500, 10_000) {
		args := []string{"sh", "-c", "cat /proc/$$/cmdline; :", fmt.Sprint("list ", i)}
		for range random.IntN(1 << random.IntN(7)) {
			args = append(args, randomArgument(random, random.IntN(1<<random.IntN(11))))
		}
		switch i {
		case 0:
			args = append(args, randomArgument(random, 128<<10-2)) // the longest that Linux takes
		case 1:
			for range 150 {
				args = append(args, randomArgument(random, 10_000))
			}
		}
		lists = append(lists, args)
	}
	next := make(chan []string)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for args := range next {
				cmd := exec.Command(dir + "/bin/sh")
				cmd.Args, cmd.Env = args, []string{"PATH=" + dir + "/bin:/usr/bin:/bin"}
				out, err := cmd.Output()
				if err != nil || string(out) != strings.Join(args, "\x00")+"\x00" {
					t.Errorf("%s: the program got %d bytes %.300q, %v", args[3], len(out), out, err)
				}
				got, _ := asked.Load(args[3])
				r, _ := got.(received)
				all := strings.Join(args, "\x00")
				if r.whole != (len(all) < 64<<10) || !r.whole && !strings.HasPrefix(all, strings.Join(r.args, "\x00")) || r.whole && !slices.Equal(r.args, args) {
					t.Errorf("%s: the agent got %v %d arguments %.300q", args[3], r.whole, len(r.args), r.args)
				}
			}
		})
	}
	for _, args := range lists {
		next <- args
	}
	close(next)
	workers.Wait()
}

// listenForShims listens in place of the agent of a directory.
func listenForShims(t *testing.T, dir string) net.Listener {
	name := "@warmbox-test-" + crand.Text()
	l, err := net.Listen("unixpacket", name)
	if err = errors.Join(err, os.Symlink(name, dir+"/socket")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

type received struct {
	args  []string
	whole bool
}

// randomArgument returns any bytes but NUL, often those that mean something to a shell or a line.
func randomArgument(random *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(1 + random.IntN(255)); random.IntN(4) == 0 {
			b[i] = "\t\n\r '\"\\$`*\x1b"[random.IntN(11)]
		}
	}
	return string(b)
}

// TestManyShimsAtOnce: 200 calls run at the same time.
func TestManyShimsAtOnce(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: shimmed, OutputBytes: 4000, OutputLines: 200})
	h.want("mkfifo gate; for i in $(/usr/bin/seq 200); do sh -c 'read x < gate; exit 3' & p+=($!); done; exec 3<>gate; sleep 0.2; exec 4>gate; "+
		"for i in $(/usr/bin/seq 200); do echo go >&4; done; for i in ${p[@]}; do wait $i; echo $?; done > codes; /usr/bin/sort codes | /usr/bin/uniq -c", "    200 3\n", "", 0)
}

// TestShimsSurviveTheirRemoval: a command that removes the directory of shims does so for itself,
// and the next command has them again. With the agent they go.
func TestShimsSurviveTheirRemoval(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Deny: map[string]string{"touch": "No."}})
	shims := filepath.Dir(h.dirOf())
	h.want("rm -rf "+shims+"; touch f; echo $?", "0\n", "", 0)
	h.want("touch f; echo $?", "126\n", "warmbox: touch: No.\n", 0)
	h.want("rm -rf "+shims+"; ln -s /etc "+shims, "", "", 0)
	h.want("touch f; echo $?; ls -d /etc/hostname", "126\n/etc/hostname\n", "warmbox: touch: No.\n", 0)
	h.in.Close()
	h.cmd.Wait()
	if _, err := os.Lstat(shims); err == nil {
		t.Errorf("%s is left", shims)
	}
}

// TestShimsSurviveTheirChange: what a command changes in the directory of shims, no later command
// sees, and nothing of it is left.
func TestShimsSurviveTheirChange(t *testing.T) {
	h := shimHost(t, t.TempDir(), wire.Shims{Names: []string{"cat"}, Deny: map[string]string{"touch": "No."}})
	shims := filepath.Dir(h.dirOf())
	writable := "chmod 700 " + shims + " " + shims + "/bin; cd " + shims + "; "
	for _, change := range []string{
		"ln -sfn @elsewhere socket", "rm socket", "rm bin/touch", "ln -sf /bin/true bin/touch", "rm bin/touch; cp /bin/true bin/touch", "ln -s /bin/true bin/ls",
		"mv bin old; mkdir bin; cp /bin/true bin/touch", "mv bin old; ln -s /bin bin", "ln -sf /bin/true agent", "rm -rf bin", "mkdir -p bin/a/b/c; chmod 0 bin/a/b",
		"cd ..; mv " + shims + " $$; mkdir -p " + shims + "/bin; ln -s /bin/true " + shims + "/bin/touch; rm -rf $$", ":",
	} {
		h.sh(writable + change)
		h.want("touch f; echo $?", "126\n", "warmbox: touch: No.\n", 0)
		h.want("echo x | cat; /bin/ls "+shims+" "+shims+"/bin", "x\n"+shims+":\nagent\nbin\nsocket\n\n"+shims+"/bin:\ncat\ntouch\n", "", 0)
	}
}

// TestShimPrintsNoControlCharacters: also if another process answers in place of the agent.
func TestShimPrintsNoControlCharacters(t *testing.T) {
	for text, want := range map[string]string{"a\x1b[2J\nb\r\x7f\x00": "a?[2J?b???", "ä…\u0085\u009b€": "ä…????€", "plain": "plain", "": ""} {
		if got := agent.Inert(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestShimsComeFirst: whatever PATH a call sets, and in a named shell, the shims are first.
func TestShimsComeFirst(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Deny: map[string]string{"touch": "No."}})
	for _, body := range []wire.StartBody{
		{Cmd: "touch f"}, {Cmd: "touch f", Env: []string{"PATH=/usr/bin:/bin"}}, {Cmd: "touch f", Env: []string{"PATH="}}, {Cmd: "touch f", Shell: "one"},
		{Cmd: "touch f", Shell: "one", Env: []string{"PATH=/bin"}}, {Cmd: "touch f", TTY: &wire.Size{Cols: 80, Rows: 24}}, {Cmd: "touch f", Stdin: true},
	} {
		if got := h.outcome(h.run(body)); got.exit != "126 0" {
			t.Errorf("%+v: %q", body, got)
		}
	}
}

// TestHostileShimRequests: nothing that a process sends to the agent in place of a shim's request
// stops others' calls, or makes the agent hold memory or connections for long.
func TestHostileShimRequests(t *testing.T) {
	dir := t.TempDir()
	h := shimHost(t, dir, wire.Shims{Names: []string{"cat"}})
	socket, err := os.Readlink(filepath.Join(filepath.Dir(h.dirOf()), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	var open []net.Conn
	dial := func() net.Conn {
		conn, err := net.Dial("unixpacket", socket)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
		return conn
	}
	for i := range 300 {
		conn := dial()
		packet := make([]byte, random.IntN(1<<random.IntN(17)))
		for i := range packet {
			packet[i] = byte(random.Uint32())
		}
		if i%3 > 0 && len(packet) > 100 { // a header with a plausible start
			copy(packet, []byte{1, 0, 0x1B, 0x5A, 2, 0, 0, 0})
		}
		if i%5 > 0 { // else it says nothing
			conn.Write(packet)
		}
	}
	h.want("echo served | cat; cat /etc/hostname | wc -l", "served\n1\n", "", 0)
	for _, conn := range open {
		conn.Close()
	}
	for n := 0; n < 1100; { // above the bound, connections are closed
		conn, err := net.Dial("unixpacket", socket)
		if err == nil {
			defer conn.Close()
			n++
		} else if !errors.Is(err, syscall.EAGAIN) { // the agent has not accepted the last ones yet
			t.Fatal(err)
		}
	}
	h.want("echo x | cat", "x\n", "", 0) // processes of no run do not take the connections of runs
}

// socketOf returns the address at which the agent serves shims.
func (h *host) socketOf() string {
	h.t.Helper()
	socket, err := os.Readlink(filepath.Join(filepath.Dir(h.dirOf()), "socket"))
	if err != nil {
		h.t.Fatal(err)
	}
	return socket
}

// TestShimNamesItsProgram: the agent serves no call of a program that has not the shim's name.
func TestShimNamesItsProgram(t *testing.T) {
	h := shimHost(t, t.TempDir(), wire.Shims{Names: []string{"cat"}})
	socket := h.socketOf()
	for program, want := range map[string]bool{"": true, "cat": true, "/bin/cat": true, "./cat": true, "/bin/git": false, "/bin/xcat": false, "/bin/cat/": false, "/cat/x": false} {
		conn, err := net.Dial("unixpacket", socket)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(agent.ShimAsks("cat", program, "x"))
		if n, _ := conn.Read(make([]byte, 4096)); n > 0 != want {
			t.Errorf("%q: %t, want %t", program, n > 0, want)
		}
		conn.Close()
	}
}

// TestShimEndsAreOnesOfTheKernel: whatever a process says of the end of a call, the agent sends
// only records that the host accepts, and no code that no program can have.
func TestShimEndsAreOnesOfTheKernel(t *testing.T) {
	h := shimHost(t, t.TempDir(), wire.Shims{Names: []string{"cat"}})
	socket := h.socketOf()
	statuses := []uint32{0x7f, 0xff, 0x117f, 0x1ff, 0xffff, 0x10000, 0x1000000, 0xffffffff, 0x80000000, 0x80, 0x41, 0x7e, 0xc1, 0x101, 1 << 31, 0xff00 | 1}
	honest := map[uint32]int{0: 0, 0x100: 1, 0x7e00: 126, 0xff00: 255, 9: 137, 0x8b: 139, 64: 192}
	for status := range honest {
		statuses = append(statuses, status)
	}
	calls := map[string]uint32{}
	for i, status := range statuses {
		for how := range uint32(6) {
			conn, err := net.Dial("unixpacket", socket)
			if err != nil {
				t.Fatal(err)
			}
			arg := fmt.Sprint(i, "-", how)
			conn.Write(agent.ShimAsks("cat", "/bin/cat", arg))
			conn.Read(make([]byte, 4096))
			conn.Write(agent.ShimEnds(how, status))
			conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after the end %d, %#x: %d bytes, %v", how, status, n, err)
			}
			conn.Close()
			switch code, ok := honest[status]; {
			case !ok || how < 1 || how > 4:
				calls[arg] = never
			case how == 2: // the time limit ended it
				calls[arg] = 124
			default:
				calls[arg] = uint32(code)
			}
		}
	}
	args := map[int64]string{}
	id := h.run(wire.StartBody{Cmd: "cat /dev/null"})
	for len(calls) > 0 {
		f, err := h.r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == wire.Exit && f.Run == id {
			break
		}
		var body wire.ProgramsBody
		if f.Kind != wire.Programs {
			continue
		}
		if err := wire.Decode(f, &body); err != nil {
			t.Fatal(err)
		}
		for _, p := range body.List {
			if !p.Valid() {
				t.Errorf("%+v", p)
			}
			if p.Run != "" {
				continue // of the command
			}
			if !p.End && len(p.Args) > 0 {
				args[p.Seq] = p.Args[0]
			}
			want, code := calls[args[p.Seq]], uint32(never)
			if p.Exit != nil {
				code = uint32(*p.Exit)
			}
			if args[p.Seq] != "" && code != never && code != want {
				t.Errorf("%s: code %d, want %d", args[p.Seq], code, want)
			}
		}
	}
	if len(args) != len(calls) {
		t.Errorf("%d calls are recorded, want %d", len(args), len(calls))
	}
}

// never is the code of a call whose end is not known.
const never = 1 << 20

// TestShimAllocatesNothing: what runs before the Go runtime must not need it.
func TestShimAllocatesNothing(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags=-m", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("shimcall.go:")) {
		t.Fatalf("%v, %d bytes", err, len(out))
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "shimcall.go:") && (strings.Contains(line, "escapes to heap") || strings.Contains(line, "moved to heap")) {
			t.Error(line)
		}
	}
}

// BenchmarkShim compares a call of a shim with one of the program, in loops of a shell.
func BenchmarkShim(b *testing.B) {
	h := shimHost(b, b.TempDir(), wire.Shims{Names: []string{"true"}, OutputBytes: 4000, OutputLines: 200})
	for _, name := range []string{"/bin/true", "env true", "env /bin/true", filepath.Join(h.dirOf(), "true")} {
		b.Run(strings.ReplaceAll(filepath.Base(filepath.Dir(name))+" "+filepath.Base(name), "/", " "), func(b *testing.B) {
			if got := h.sh(fmt.Sprintf("for ((i=0; i<%d; i++)); do %s; done", b.N, name)); got.exit != "0 0" {
				b.Fatal(got)
			}
		})
	}
}

// A program that serves a client may call others for as long as that wants. The run beside it
// has the time limit.
func TestShimOfARunWithAWindowHasNoTimeLimit(t *testing.T) {
	h := shimHost(t, t.TempDir(), wire.Shims{Names: []string{"sleep"}, TimeoutMillis: 100})
	const cmd = "sleep 1; echo $?; sh -c 'sleep 1; echo $?'"
	if got := h.outcome(h.run(wire.StartBody{Cmd: cmd, Window: wire.MinWindow})); got.out != "0\n0\n" {
		t.Errorf("with a window: %q", got)
	}
	if got := h.sh("sleep 10; echo $?"); got.out != "124\n" {
		t.Errorf("without: %q", got)
	}
}
