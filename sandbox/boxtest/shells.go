package boxtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// testShells checks what named shells keep, and that commands do not see how.
func testShells(t *testing.T, s *suite) {
	for name, steps := range shellCases {
		t.Run(name, func(t *testing.T) {
			shell := strings.ReplaceAll(name, " ", "-")
			for _, step := range steps {
				step.run(t, s.box, shell)
			}
		})
	}
	t.Run("unchanged after a kill", func(t *testing.T) { testKilledShell(t, s) })
	t.Run("queue of one name", func(t *testing.T) { testShellQueue(t, s) })
	t.Run("concurrent names", func(t *testing.T) { testShellNames(t, s) })
	t.Run("given dir and env", func(t *testing.T) { testShellGiven(t, s) })
	t.Run("long command", func(t *testing.T) {
		cmd := "set -- \"$@\" c; x='" + strings.Repeat("0123456789abcdef", 1<<14) + "'; echo $# ${#x}"
		in := func(cmd string) result { return do(t, s.box, sandbox.Command{Cmd: cmd, Shell: "long"}) }
		want(t, in("set -- a b"), 0, "")
		want(t, in(cmd), 0, "3 262144\n")
		want(t, in("echo $# $3 ${#x}"), 0, "3 c 262144\n")
	})
	t.Run("terminal", func(t *testing.T) {
		in := func(tty *sandbox.Size, cmd string) result {
			return do(t, s.box, sandbox.Command{Cmd: cmd, Shell: "tty", TTY: tty})
		}
		want(t, in(&sandbox.Size{Cols: 80, Rows: 24}, "x=1; test -t 0 && echo $TERM"), 0, "xterm-256color\n")
		want(t, in(nil, "echo $x $TERM"), 0, "1 dumb\n")
	})
	t.Run("bad names", func(t *testing.T) {
		for _, name := range []string{"a b", "../x", ".x", "a/b", "é", "a\n", strings.Repeat("x", 65)} {
			_, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: "true", Shell: name})
			wantError(t, err, sandbox.InvalidArgument, "cannot be named")
		}
	})
}

func (s step) run(t *testing.T, box *sandbox.Box, shell string) {
	t.Helper()
	r := do(t, box, sandbox.Command{Cmd: s.cmd, Shell: shell})
	state := sandbox.ShellSaved
	if s.kept {
		state = sandbox.ShellKept
	}
	if r.Status != sandbox.Exited || r.Code != s.code || !matches(s.out, r.stdout) || !matches(s.err, r.stderr) || r.Shell != state {
		t.Errorf("%s\n got %s, exit %d, %q, %q, %s, %v\nwant exit %d, %q, %q, %s", s.cmd, r.Status, r.Code, r.stdout, r.stderr, r.Shell, r.Err, s.code, s.out, s.err, state)
	}
}

// matches compares output with the expected text, where "…" at the end matches anything.
func matches(want, got string) bool {
	if head, ok := strings.CutSuffix(want, "…"); ok {
		return strings.HasPrefix(got, head)
	}
	return got == want
}

// testKilledShell checks that a killed command leaves its named shell unchanged.
func testKilledShell(t *testing.T, s *suite) {
	in := func(c sandbox.Command) *sandbox.Run {
		c.Shell = "killed"
		return start(t, s.box, c)
	}
	want(t, wait(t, in(sandbox.Command{Cmd: "cd /usr; x=before; echo $x"})), 0, "before\n")
	run := in(sandbox.Command{Cmd: "cd /; x=changed; sh -c 'echo up; exec sleep 1000'"})
	printed(t, run, "up")
	run.Kill()
	if r := wait(t, run); r.Status != sandbox.Killed || r.Shell != sandbox.ShellKept {
		t.Errorf("%+v", r.Exit)
	}
	r := wait(t, in(sandbox.Command{Cmd: "cd /; x=changed; sleep 1000", Timeout: time.Second}))
	if r.Status != sandbox.TimedOut || r.Shell != sandbox.ShellKept {
		t.Errorf("%+v", r.Exit)
	}
	want(t, wait(t, in(sandbox.Command{Cmd: "echo $PWD $x"})), 0, "/usr before\n")
	// ^C is no kill: changes made before it are kept, as at a prompt.
	run = in(sandbox.Command{Cmd: "cd /; x=changed; sh -c 'echo up; exec sleep 1000'"})
	printed(t, run, "up")
	if err := run.Signal("INT"); err != nil {
		t.Error(err)
	}
	if r := wait(t, run); r.Signal != "SIGINT" || r.Shell != sandbox.ShellSaved {
		t.Errorf("%+v", r.Exit)
	}
	want(t, wait(t, in(sandbox.Command{Cmd: "echo $PWD $x"})), 0, "/ changed\n")
}

// testShellQueue starts many commands of one named shell at once. They run one after the
// other, and each sees the state that the last one left.
func testShellQueue(t *testing.T, s *suite) {
	const calls = 50
	first := start(t, s.box, sandbox.Command{Shell: "queue", Cmd: "n=0; until [ -e go ]; do sleep 0.01; done; rm go"})
	_, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: "true", Shell: "queue"})
	wantError(t, err, sandbox.LimitReached, `the shell "queue" is busy with command `+first.ID)
	results := make(chan string, calls)
	for range calls {
		go func() {
			run, err := s.box.Exec(t.Context(), sandbox.Command{Shell: "queue", Cmd: "n=$((n+1)); echo $n", WaitLimit: waitLimit})
			if err != nil {
				results <- err.Error()
				return
			}
			<-run.Done()
			out, _ := run.Output(everything)
			results <- out.Text
		}()
	}
	want(t, sh(t, s.box, "touch go"), 0, "") // other commands are not blocked
	seen := map[string]bool{}
	for range calls {
		seen[<-results] = true
	}
	for i := range calls {
		if !seen[fmt.Sprintln(i+1)] {
			t.Errorf("no call was number %d", i+1)
		}
	}
	for range calls { // and in order
		r := do(t, s.box, sandbox.Command{Shell: "queue", Cmd: "n=$((n+1))"})
		if r.Code != 0 {
			t.Errorf("%+v", r.Exit)
		}
	}
	want(t, do(t, s.box, sandbox.Command{Shell: "queue", Cmd: "echo $n"}), 0, fmt.Sprintln(2*calls))
}

// testShellNames runs named shells concurrently: none sees or waits for another.
func testShellNames(t *testing.T, s *suite) {
	const shells = 8
	for round := range 3 {
		var runs []*sandbox.Run
		for i := range shells {
			c := sandbox.Command{Shell: fmt.Sprint("n", i), Cmd: fmt.Sprintf("x=${x}%d; echo $x", i), WaitLimit: waitLimit}
			runs = append(runs, start(t, s.box, c))
		}
		for i, run := range runs {
			want(t, wait(t, run), 0, strings.Repeat(fmt.Sprint(i), round+1)+"\n")
		}
	}
}

// testShellGiven checks that the arguments of a call override the state.
func testShellGiven(t *testing.T, s *suite) {
	in := func(c sandbox.Command) result {
		c.Shell = "given"
		return do(t, s.box, c)
	}
	env := func(v string) map[string]string { return map[string]string{"GIVEN": v} }
	want(t, in(sandbox.Command{Cmd: "echo $GIVEN; cd /usr", Env: env("it's")}), 0, "it's\n")
	want(t, in(sandbox.Command{Cmd: "printenv GIVEN; pwd; GIVEN=x"}), 0, "it's\n/usr\n")
	want(t, in(sandbox.Command{Cmd: "printenv GIVEN; pwd", Env: env("$HOME\nb"), Dir: "/tmp"}), 0, "$HOME\nb\n/tmp\n")
	want(t, in(sandbox.Command{Cmd: "pwd"}), 0, "/tmp\n")
}

// A step is one command in a named shell, and its expected result.
type step struct {
	cmd  string
	code int
	out  string // standard output; "…" at its end matches anything
	err  string // standard error, likewise
	kept bool   // the state of the shell is unchanged
}

// shellCases are the commands of one named shell each, in order.
var shellCases = map[string][]step{
	"directory": {
		{cmd: "mkdir -p 'a b/c' && cd 'a b/c' && cd .."},
		{cmd: `echo "${PWD##*/}"; cd - >/dev/null; echo "${PWD##*/}"`, out: "a b\nc\n"},
		{cmd: "pushd /usr >/dev/null; pushd /tmp >/dev/null; pushd -n /bin >/dev/null"},
		{cmd: "dirs -p -l | head -3; popd >/dev/null; dirs -l -p | head -2", out: "/tmp\n/bin\n/usr\n/bin\n/usr\n"},
		{cmd: "umask 077; mkdir /tmp/wb-gone-$$ && cd /tmp/wb-gone-$$ && g=$PWD"},
		{cmd: "umask; rmdir $g", out: "0077\n"},
		{cmd: "cd /", err: "bash: /tmp/wb-gone-…"},
	},
	"variables": {
		{cmd: `a=$'1\n2 \'3\' "4" \\ $x \t'; b='äöü → 日本'; c=; declare -i i=5; declare -l low=ABC; readonly ro=fixed; export ex='an export'; unset NO_SUCH LC_ALL`},
		{cmd: `printf '%s|' "$a" "$b" "${c-unset}" $i $low $ro "$(printenv ex)" "${LC_ALL-unset}"; i=i+1; echo $i`, out: "1\n2 '3' \"4\" \\ $x \t|äöü → 日本||5|abc|fixed|an export|unset|6\n"},
		{cmd: `ro=other; echo no`, code: 1, err: "/bin/bash: line 1: ro: readonly variable\n"},
		{cmd: `unset PATH; echo $ro`, out: "fixed\n"},
		{cmd: `echo "${PATH-unset}"`, out: "unset\n"},
	},
	"arrays": {
		{cmd: `x=(a 'b c' $'d\ne'); x[9]=z; declare -A m=([k]=v ['a b']='c d'); declare -n ref=x; e=()`},
		{cmd: `echo "${#x[@]} ${x[2]} ${x[9]} ${m[a b]} ${m[k]} ${ref[1]} ${!x[*]} ${#e[@]}"`, out: "4 d\ne z c d v b c 0 1 2 9 0\n"},
	},
	"functions": {
		{cmd: `f() { echo "f $1"; }; g() { cat <<END
$(f x) 'y'
END
}; export -f f; shopt -s extglob; e() { [[ $1 == @(a|b) ]]; }; readonly -f f`},
		{cmd: `f 1; g; bash -c 'f 2'; e a && ! e c && echo ok; f() { :; }; declare -F`, out: "f 1\nf x 'y'\nf 2\nok\ndeclare -f e\ndeclare -frx f\ndeclare -f g\n", err: "/bin/bash: line 1: f: readonly function\n"},
		{cmd: `unset -f g; cd() { builtin cd "$@" && echo "in $PWD"; }; set() { echo never; }`},
		{cmd: `declare -F g; cd /usr; unset -f set`, out: "in /usr\n"},
	},
	"aliases": {
		{cmd: "shopt -s expand_aliases\nalias ll='echo LL' ls='ls -d'\nh() { ls /; }"},
		{cmd: "ll; h; declare -f h", out: "LL\n/\nh () \n{ \n    ls -d /\n}\n"},
		{cmd: "ll; h; declare -f h", out: "LL\n/\nh () \n{ \n    ls -d /\n}\n"},
		{cmd: "unalias ll"},
		{cmd: "ll", code: 127, err: "/bin/bash: line 1: ll: command not found\n"},
	},
	"options": {
		{cmd: "set -f -o pipefail; shopt -s nullglob; shopt -u sourcepath; set +B"},
		{cmd: `echo $- *; false | true; echo $?; shopt -p nullglob sourcepath; echo {a,b}`, out: "fhc *\n1\nshopt -s nullglob\nshopt -u sourcepath\n{a,b}\n"},
	},
	"set -euo pipefail": {
		{cmd: "set -euo pipefail; echo on", out: "on\n"},
		{cmd: "x=1; echo before; false; echo never", code: 1, out: "before\n"},
		{cmd: "echo $x; echo $nothing; echo never", code: 1, out: "1\n", err: "/bin/bash: line 1: nothing: unbound variable\n"},
		{cmd: "f() { return 4; }; f || echo handled; (exit 5)", code: 5, out: "handled\n"},
		{cmd: "echo $-", out: "ehuBc\n"},
	},
	"set -x": {
		{cmd: "set -x; echo a", out: "a\n", err: "+ echo a\n"},
		{cmd: "echo b", out: "b\n", err: "+ echo b\n"},
		{cmd: "set +x", err: "+ set +x\n"},
		{cmd: "echo c", out: "c\n"},
	},
	"IFS": {
		{cmd: `IFS=', 1/'`},
		{cmd: `a="x,y1z"; printf '<%s>' $a; cd /usr; false`, code: 1, out: "<x><y><z>"},
		{cmd: `echo "$?" "$PWD"; IFS=`, out: "1 /usr\n"},
		{cmd: `a="x y"; printf '<%s>' $a; unset IFS`, out: "<x y>"},
		{cmd: `a="x y"; printf '<%s>' $a; echo`, out: "<x><y>\n"},
	},
	"exit": {
		{cmd: "x=5; cd /usr; exit 3", code: 3},
		{cmd: `echo "$? $x $PWD"; f() { exit 4; }; f`, code: 4, out: "3 5 /usr\n"},
		{cmd: `echo $?; (exit 7)`, code: 7, out: "4\n"},
		{cmd: `echo $?; kill -INT $$; echo never`, code: 130, out: "7\n"},
		{cmd: `echo $x; exec true`, out: "5\n", kept: true},
		{cmd: `x=6; kill -9 $$`, code: 137, kept: true},
		{cmd: `echo $x`, out: "5\n"},
	},
	"traps": {
		{cmd: `trap 'echo bye' EXIT; x=1; cd /usr`, out: "bye\n"},
		{cmd: `echo $x $PWD; trap 'echo int' INT; trap 'echo err' ERR`, out: "1 /usr\n"},
		{cmd: `kill -INT $$; false; echo next`, out: "int\nerr\nnext\n"},
		{cmd: `trap - ERR INT; x=2; trap 'echo bye' EXIT; exit 3`, code: 3, out: "bye\n", kept: true},
		{cmd: `echo $x; trap - ERR INT; (trap 'echo sub' EXIT); echo "$(trap)"|head -c 12; false`, out: "1\nsub\ntrap -- '{ \\", code: 1},
		{cmd: `echo $?; compgen -v | grep -i warmbox`, out: "1\nWARMBOX_RUN\n"},
		{cmd: `trap 'd=$((d+1))' DEBUG; echo a`, out: "a\n"},
		{cmd: `trap - DEBUG; [ "$d" -ge 1 ] && echo counted`, out: "counted\n"},
	},
	"odd": {
		{cmd: "declare -t tr=1; shopt -s extdebug dotglob; my-f() { echo my-$1; }; a.b::c() { my-f x; }; set -a -k -T -E -u -C"},
		{cmd: "echo $-; my-f 1; a.b::c; shopt -q extdebug || echo no debugger; declare -p tr", out: "ahkuBCETc\nmy-1\nmy-x\nno debugger\ndeclare -t tr=\"1\"\n"},
		{cmd: "set +aukTEC; shopt -u extdebug; declare -ra ra=(1 2); declare -rA rm=([x]=y); export -n tr; warmbox=mine; PS4='> '; OPTIND=5"},
		{cmd: "echo ${ra[1]} ${rm[x]} $warmbox \"$PS4\" $OPTIND; alias builtin=false; shopt -s expand_aliases", out: "2 y mine >  5\n"},
		{cmd: "unalias builtin; umask 777; exec 2>/dev/null >/dev/null 8>&1 9>&1; x=kept"},
		{cmd: "echo $x $(umask); umask 022; exec 1>&-", out: "kept 0777\n"},
		{cmd: "exec 1>&- 2>&-; x=closed"},
		{cmd: "echo $x; set -o posix; x=posix", out: "closed\n"},
		{cmd: "echo $x; shopt -qo posix && echo on; my-f 2; set +o posix", out: "posix\non\nmy-2\n"},
		{cmd: "sleep 1000 & x=$!; disown; sleep 1000 & echo up", out: "up\n"},
		{cmd: "kill $x; kill %1 2>/dev/null || echo no job", out: "no job\n"},
		{cmd: "x=$(yes | head -c 300000); f() { : \"$(cat <<'E'\na'b\nE\n)\"; }"},
		{cmd: "echo ${#x}; f; unset x", out: "299999\n"},
	},
	"as bash -c": {
		{cmd: "set -- a 'b c'"},
		{cmd: `echo $# "$2" "$0" $- $LINENO
echo $LINENO ${#BASH_EXECUTION_STRING} $SHLVL "${BASH_ENV-none}"; ls /proc/self/fd | tr '\n' ' '`, out: "2 b c /bin/bash hBc 1\n2 125 1 none\n0 1 2 3 "},
		{cmd: "echo 'a", code: 2, err: "/bin/bash: -c: line 1: unexpected EOF while looking for matching `''\n"},
		{cmd: "compgen -v | grep -i warmbox; declare -F; alias; compgen -A function", out: "WARMBOX_RUN\n", code: 1},
	},
}
