//go:build linux

package agent_test

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/agent"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// agentEnv makes the test program an agent.
const agentEnv = "WARMBOX_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) != "" {
		os.Unsetenv(agentEnv)
		os.Exit(agent.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// host speaks with an agent as the bytes on the wire, so that it can also say
// what a sandbox never would.
type host struct {
	t      testing.TB
	in     io.WriteCloser
	r      *wire.Reader
	cmd    *exec.Cmd
	last   byte   // of the last run's id
	stderr string // of the last run
}

// start starts an agent in a directory of its own.
func start(t testing.TB, env ...string) *host {
	t.Helper()
	h := &host{t: t, cmd: exec.Command("/proc/self/exe", "serve", "--stdio")}
	h.cmd.Env = append(os.Environ(), agentEnv+"=1")
	h.cmd.Stderr = os.Stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.in, h.r = in, wire.NewReader(out, wire.FromAgent)
	stuck := time.AfterFunc(time.Minute, func() { h.cmd.Process.Kill() })
	t.Cleanup(func() {
		in.Close()
		h.cmd.Wait()
		stuck.Stop()
	})
	h.say(wire.Hello, wire.ID{}, wire.HelloBody{Dir: t.TempDir(), Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...)})
	if f, err := h.r.Read(); err != nil || f.Kind != wire.Hello {
		t.Fatalf("%v, %v", f.Kind, err)
	}
	return h
}

func (h *host) say(kind wire.Kind, run wire.ID, body any) {
	h.t.Helper()
	frame, err := wire.AppendJSON(nil, kind, run, body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.in.Write(frame)
}

func (h *host) typed(run wire.ID, text string) {
	h.in.Write(wire.Append(nil, wire.Stdin, run, []byte(text)))
}

func (h *host) run(body wire.StartBody) wire.ID {
	h.t.Helper()
	h.last++
	id := wire.ID{h.last}
	h.stderr = ""
	h.say(wire.Start, id, body)
	return id
}

// until reads until a run has printed a text, or has ended if that is "", and
// returns what it printed.
func (h *host) until(run wire.ID, text string) (out string, exit wire.ExitBody) {
	h.t.Helper()
	for {
		f, err := h.r.Read()
		if err != nil {
			h.t.Fatalf("%v after %q", err, out)
		}
		switch f.Kind {
		case wire.Refused:
			h.t.Fatalf("refused: %s", f.Payload)
		case wire.Stdout:
			out += string(f.Payload)
		case wire.Stderr:
			h.stderr += string(f.Payload)
		case wire.Exit:
			if err := wire.Decode(f, &exit); err != nil {
				h.t.Fatal(err)
			}
			if text != "" {
				h.t.Fatalf("it ended with %+v after %q, before %q", exit, out, text)
			}
			return out, exit
		}
		if text != "" && strings.Contains(out, text) {
			return out, exit
		}
	}
}

// do runs a command in a named shell to its end.
func (h *host) do(shell, cmd string) (string, wire.ExitBody) {
	h.t.Helper()
	return h.until(h.run(wire.StartBody{Cmd: cmd, Shell: shell}), "")
}

var size = &wire.Size{Cols: 80, Rows: 24}

func TestTerminal(t *testing.T) {
	h := start(t)
	out, exit := h.until(h.run(wire.StartBody{Cmd: "test -t 0 -a -t 1 -a -t 2 && stty size && tty && exit 3", TTY: size}), "")
	if exit.Code != 3 || !strings.HasPrefix(out, "24 80\r\n/dev/pts/") {
		t.Errorf("%q, %+v", out, exit)
	}
	run := h.run(wire.StartBody{Cmd: `read -rp 'name? ' name; echo "hello $name"`, TTY: size})
	h.until(run, "name? ")
	h.typed(run, "Ann\n")
	if out, exit := h.until(run, ""); exit.Code != 0 || out != "Ann\r\nhello Ann\r\n" {
		t.Errorf("%q, %+v", out, exit)
	}
}

func TestTerminalEnd(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: "cat; echo end", TTY: size})
	h.typed(run, "a\nb\x04\x04")
	if out, exit := h.until(run, ""); exit.Code != 0 || out != "a\r\nba\r\nbend\r\n" && !strings.HasSuffix(out, "end\r\n") {
		t.Errorf("%q, %+v", out, exit)
	}
}

func TestResize(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: `trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done`, TTY: size})
	h.until(run, "ready")
	h.say(wire.Resize, run, wire.Size{Cols: 132, Rows: 50})
	if out, _ := h.until(run, ""); !strings.Contains(out, "50 132") {
		t.Errorf("%q", out)
	}
}

func TestSignal(t *testing.T) {
	h := start(t)
	for _, tty := range []*wire.Size{nil, size} {
		// The shell, a child in its group, and one in a session of its own.
		run := h.run(wire.StartBody{TTY: tty, Cmd: `setsid bash -c 'trap "echo far; exit" USR1; echo r1; while :; do sleep 0.01; done' &
bash -c 'trap "echo near; exit" USR1; echo r2; while :; do sleep 0.01; done' & trap 'wait; exit 9' USR1; wait; wait`})
		h.until2(run, "r1", "r2")
		h.say(wire.Signal, run, wire.SignalBody{Signal: 10})
		out, exit := h.until(run, "")
		if exit.Code != 9 || !strings.Contains(out, "far") || !strings.Contains(out, "near") {
			t.Errorf("%q, %+v", out, exit)
		}
	}
	run := h.run(wire.StartBody{Cmd: "echo up; sleep 1000"})
	h.until(run, "up")
	h.say(wire.Signal, run, wire.SignalBody{Signal: 15})
	if _, exit := h.until(run, ""); exit.Signal != 15 || exit.Killed {
		t.Errorf("%+v", exit)
	}
}

// until2 waits for two texts in any order.
func (h *host) until2(run wire.ID, a, b string) {
	h.t.Helper()
	out := ""
	for !strings.Contains(out, a) || !strings.Contains(out, b) {
		f, err := h.r.Read()
		if err != nil {
			h.t.Fatalf("%v after %q", err, out)
		}
		if f.Kind == wire.Stdout {
			out += string(f.Payload)
		}
	}
}

// TestViolations sees that what no host may say ends the agent.
func TestViolations(t *testing.T) {
	plain := wire.StartBody{Cmd: "sleep 1000"}
	for name, lie := range map[string]func(h *host){
		"signal 9":           func(h *host) { h.say(wire.Signal, h.run(plain), wire.SignalBody{Signal: 9}) },
		"signal -1":          func(h *host) { h.say(wire.Signal, h.run(plain), wire.SignalBody{Signal: -1}) },
		"resize no terminal": func(h *host) { h.say(wire.Resize, h.run(plain), size) },
		"resize to nothing": func(h *host) {
			h.say(wire.Resize, h.run(wire.StartBody{Cmd: "sleep 1000", TTY: size}), wire.Size{})
		},
		"end of a terminal": func(h *host) {
			h.in.Write(wire.Append(nil, wire.StdinClose, h.run(wire.StartBody{Cmd: "sleep 1000", TTY: size}), nil))
		},
		"huge terminal": func(h *host) { h.run(wire.StartBody{Cmd: "true", TTY: &wire.Size{Cols: 1, Rows: 1 << 30}}) },
		"shell's name":  func(h *host) { h.run(wire.StartBody{Cmd: "true", Shell: "../x"}) },
		"shell is busy": func(h *host) {
			h.run(wire.StartBody{Cmd: "sleep 1000", Shell: "a"})
			h.run(wire.StartBody{Cmd: "true", Shell: "a"})
		},
		"signal no JSON": func(h *host) { h.in.Write(wire.Append(nil, wire.Signal, h.run(plain), []byte("2"))) },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			go lie(h)
			for {
				if _, err := h.r.Read(); err != nil {
					break
				}
			}
			if err := h.cmd.Wait(); err == nil {
				t.Error("the agent ended as if nothing had been")
			}
		})
	}
}

// TestStdinWindow fills the terminal of a command that does not read: what is
// beyond the window is a violation, and nothing else is held up until then.
func TestStdinWindow(t *testing.T) {
	h := start(t)
	run := h.run(wire.StartBody{Cmd: "stty raw -echo; echo ready; sleep 1000", TTY: size})
	h.until(run, "ready")
	for range wire.StdinWindow / wire.MaxPayload {
		h.typed(run, strings.Repeat("x", wire.MaxPayload))
	}
	if out, _ := h.do("", "echo through"); out != "through\n" {
		t.Errorf("%q", out)
	}
	taken := 0
	h.in.Write(wire.Append(nil, wire.Ping, wire.ID{}, nil))
	for {
		f, err := h.r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == wire.Pong {
			break
		}
		if f.Kind == wire.StdinTaken {
			taken += int(binary.BigEndian.Uint32(f.Payload))
		}
	}
	if taken == wire.StdinWindow {
		t.Error("all was taken, and nobody reads")
	}
	h.say(wire.Kill, run, wire.KillBody{})
	if _, exit := h.until(run, ""); !exit.Killed || exit.Open {
		t.Errorf("%+v", exit)
	}
}

func TestNamedShell(t *testing.T) {
	h := start(t)
	for name, steps := range shellCases {
		t.Run(name, func(t *testing.T) {
			h.t = t
			shell := strings.ReplaceAll(name, " ", "-")
			for _, s := range steps {
				out, exit := h.do(shell, s.cmd)
				state := wire.ShellSaved
				if s.kept {
					state = wire.ShellKept
				}
				if out != s.out && s.out != "?" || exit.Code != s.code || exit.Shell != state || h.stderr != s.err {
					t.Errorf("%s\n got %q, %q, code %d, %s\nwant %q, %q, code %d, %s", s.cmd, out, h.stderr, exit.Code, exit.Shell, s.out, s.err, s.code, state)
				}
			}
		})
	}
}

type step struct {
	cmd  string
	code int
	out  string
	err  string
	kept bool
}

var shellCases = map[string][]step{
	"directory": {
		{cmd: "mkdir -p 'a b/c' && cd 'a b/c' && cd .."},
		{cmd: `echo "${PWD##*/}"; cd - >/dev/null; echo "${PWD##*/}"`, out: "a b\nc\n"},
		{cmd: "pushd /usr >/dev/null; pushd /tmp >/dev/null; pushd -n /bin >/dev/null"},
		{cmd: "dirs -p -l | head -3; popd >/dev/null; dirs -l -p | head -2", out: "/tmp\n/bin\n/usr\n/bin\n/usr\n"},
		{cmd: "umask 077; mkdir /tmp/wb-gone-$$ && cd /tmp/wb-gone-$$ && g=$PWD"},
		{cmd: "umask; rmdir $g", out: "0077\n"},
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
	"as bash -c": {
		{cmd: "set -- a 'b c'"},
		{cmd: `echo $# "$2" "$0" $- $LINENO
echo $LINENO ${#BASH_EXECUTION_STRING} $SHLVL "${BASH_ENV-none}"; ls /proc/self/fd | tr '\n' ' '`, out: "2 b c /bin/bash hBc 1\n2 125 1 none\n0 1 2 3 "},
		{cmd: "echo 'a", code: 2, err: "/bin/bash: -c: line 1: unexpected EOF while looking for matching `''\n"},
		{cmd: "compgen -v | grep -i warmbox; declare -F; alias; compgen -A function", out: "WARMBOX_RUN\n", code: 1},
	},
}
