package boxtest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

var screen = sandbox.Size{Cols: 80, Rows: 24}

func atTerminal(cmd string) sandbox.Command { return sandbox.Command{Cmd: cmd, TTY: &screen} }

// send sends input to a command.
func send(t testing.TB, run *sandbox.Run, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := run.Input(ctx, []byte(text)); err != nil {
		t.Fatalf("%.100q: %v", run.Command.Cmd, err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// shows waits until a run's log matches a pattern.
func shows(t testing.TB, run *sandbox.Run, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(t, "output like "+pattern, func() bool { return re.Match(logged(t, run)) })
}

// testTerminal checks commands with a terminal.
func testTerminal(t *testing.T, s *suite) {
	t.Run("is a terminal", func(t *testing.T) {
		r := do(t, s.box, atTerminal("test -t 0 -a -t 1 -a -t 2 && stty size && tty && echo err >&2 && echo $TERM $NO_COLOR $PAGER; exit 3"))
		if re := regexp.MustCompile(`^24 80\n/dev/pts/\d+\nerr\nxterm-256color 1 cat\n$`); r.Code != 3 || !re.MatchString(r.stdout) || r.stderr != "" {
			t.Errorf("exit %d, %q, %q, %v", r.Code, r.stdout, r.stderr, r.Err)
		}
		want(t, do(t, s.box, sandbox.Command{Cmd: "test -t 0 -o -t 1 -o -t 2 || echo none; echo $TERM"}), 0, "none\ndumb\n")
	})
	t.Run("its own TERM", func(t *testing.T) {
		c := atTerminal("echo $TERM")
		c.Env = map[string]string{"TERM": "vt100"}
		want(t, do(t, s.box, c), 0, "vt100\n")
	})
	t.Run("resize", func(t *testing.T) {
		run := start(t, s.box, atTerminal(`trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.01; done`))
		printed(t, run, "up")
		check(t, run.Resize(132, 50))
		want(t, wait(t, run), 0, "up\n50 132\n")
		wantError(t, run.Resize(80, 24), sandbox.ExecEnded, "has ended")
		wantError(t, run.Resize(0, 24), sandbox.InvalidArgument, "0 columns and 24 rows")
	})
	testTerminalInput(t, s)
	testTerminalOutput(t, s)
	t.Run("bash -i", func(t *testing.T) { testInteractive(t, s) })
	t.Run("python3 -i", func(t *testing.T) { testPython(t, s) })
	for _, name := range []string{"plain", "setsid", "holds stdout", "stopped", "all at once"} {
		t.Run("killed: "+name, func(t *testing.T) {
			t.Parallel()
			testKill(t, s, atTerminal(stubborn[name]))
		})
	}
}

// testTerminalInput sends input to terminals, and the characters ^C and ^D.
func testTerminalInput(t *testing.T, s *suite) {
	t.Run("read -p", func(t *testing.T) {
		run := start(t, s.box, atTerminal(`read -rp 'name? ' name; echo "hello $name"`))
		printed(t, run, "name? ")
		send(t, run, "Ann\n")
		want(t, wait(t, run), 0, "name? Ann\nhello Ann\n")
	})
	t.Run("stdin first", func(t *testing.T) {
		c := atTerminal("stty -echo; cat; echo end")
		c.Stdin = strings.NewReader("a\nb\n") // the host adds ^D
		if r := wait(t, start(t, s.box, c)); r.Code != 0 || !strings.HasSuffix(r.stdout, "a\nb\nend\n") {
			t.Errorf("exit %d, %q", r.Code, r.stdout)
		}
	})
	t.Run("^D", func(t *testing.T) {
		run := start(t, s.box, atTerminal("stty -echo; echo up; cat; echo one; cat; echo two"))
		printed(t, run, "up")
		send(t, run, "half a line")
		check(t, run.CloseInput()) // within a line this needs two ^D
		printed(t, run, "half a lineone")
		check(t, run.CloseInput())
		want(t, wait(t, run), 0, "up\nhalf a lineone\ntwo\n")
	})
	t.Run("^C", func(t *testing.T) {
		run := start(t, s.box, atTerminal("echo up; sleep 1000"))
		printed(t, run, "up")
		send(t, run, "\x03")
		if r := wait(t, run); r.Signal != "SIGINT" {
			t.Errorf("%+v, %q", r.Exit, r.stdout)
		}
	})
}

// testTerminalOutput checks that the output of a terminal is complete when its command
// ends, and that a process which holds the terminal does not keep its run from ending.
func testTerminalOutput(t *testing.T, s *suite) {
	t.Run("much output", func(t *testing.T) {
		r := do(t, s.box, atTerminal("seq 100000; exit 4"))
		if text := string(logged(t, r.run)); r.Code != 4 || len(text) != 688895 || !strings.HasSuffix(text, "\r\n99999\r\n100000\r\n") {
			t.Errorf("exit %d, %d bytes", r.Code, len(text))
		}
	})
	t.Run("left over", func(t *testing.T) {
		r := do(t, s.box, atTerminal("seq 5000; "+leaves("sleep 1000")+"exit 5"))
		if n := len(logged(t, r.run)); r.Code != 5 || n != 28893 || len(r.Leftover) != 1 {
			t.Errorf("exit %d, %d bytes, leftover %v", r.Code, n, r.Leftover)
		}
		r.run.Kill()
		<-r.run.Over()
	})
	t.Run("left over and printing forever", func(t *testing.T) {
		r := do(t, s.box, atTerminal("echo first; "+leaves("yes")+"sleep 0.2; exit 5"))
		if r.Code != 5 || len(r.Leftover) != 1 || !strings.HasPrefix(string(logged(t, r.run)), "first\r\ny\r\n") {
			t.Errorf("exit %d, leftover %v", r.Code, r.Leftover)
		}
		r.run.Kill()
		<-r.run.Over()
	})
}

// leaves starts a program outside the terminal's session and waits until it runs:
// processes in the session end with the terminal.
func leaves(program string) string {
	return "setsid sh -c '>left; exec " + program + "' & until [ -e left ]; do sleep 0.01; done; rm left; "
}

// testInteractive uses a shell with a prompt, job control and a line editor.
func testInteractive(t *testing.T, s *suite) {
	run := start(t, s.box, atTerminal("PS1='[$?]> ' bash --norc --noprofile -i"))
	shows(t, run, `\[0\]> $`)
	send(t, run, "x=$((6*7)); echo got-$x\n")
	shows(t, run, `[\r\n]got-42\r\n(.*)\[0\]> $`)
	send(t, run, "sh -c 'echo asleep; exec sleep 1000'\n")
	shows(t, run, `[\r\n]asleep\r\n`)
	check(t, run.Signal("INT")) // the shell survives, as with ^C
	shows(t, run, `\[130\]> $`)
	send(t, run, "cat\n")
	send(t, run, "line\n")
	shows(t, run, `[\r\n]line\r\n`)
	check(t, run.CloseInput())
	shows(t, run, `line\r\n(.*)\[0\]> $`)
	send(t, run, "exit 6\n")
	if r := wait(t, run); r.Code != 6 || len(r.Leftover) != 0 {
		t.Errorf("%+v, %q", r.Exit, r.stdout)
	}
}

func testPython(t *testing.T, s *suite) {
	if sh(t, s.box, "command -v python3").Code != 0 {
		t.Skip("no python3 in the box")
	}
	run := start(t, s.box, atTerminal("python3 -i -q"))
	printed(t, run, ">>> ")
	send(t, run, "6*7\n")
	shows(t, run, `\n42\r\n`)
	send(t, run, "import time; print('now', time.sleep(0)); time.sleep(1000)\n")
	printed(t, run, "now None\r\n")
	check(t, run.Signal("INT"))
	printed(t, run, "KeyboardInterrupt\r\n>>> ")
	send(t, run, "import sys; sys.exit(5)\n")
	if r := wait(t, run); r.Code != 5 {
		t.Errorf("%+v, %q", r.Exit, r.stdout)
	}
}

// testLive sends input to commands through pipes while they run.
func testLive(t *testing.T, s *suite) {
	t.Run("input", func(t *testing.T) {
		run := start(t, s.box, sandbox.Command{Cmd: "while read -r x; do echo got $x; done; echo end", Interactive: true})
		for _, text := range []string{"a", "b", "c"} {
			send(t, run, text+"\n")
			printed(t, run, "got "+text+"\n")
		}
		check(t, run.CloseInput())
		want(t, wait(t, run), 0, "got a\ngot b\ngot c\nend\n")
	})
	t.Run("after stdin", func(t *testing.T) {
		run := start(t, s.box, sandbox.Command{Cmd: "cat; until [ -e tried ]; do sleep 0.01; done; rm tried", Stdin: strings.NewReader("first\n"), Interactive: true})
		printed(t, run, "first\n")
		send(t, run, "second\n")
		check(t, run.CloseInput())
		wantError(t, run.Input(t.Context(), []byte("x")), sandbox.InvalidArgument, "")
		want(t, sh(t, s.box, "touch tried"), 0, "")
		want(t, wait(t, run), 0, "first\nsecond\n")
	})
	t.Run("large", func(t *testing.T) {
		run := start(t, s.box, sandbox.Command{Cmd: "wc -c", Interactive: true})
		for range 20 {
			send(t, run, strings.Repeat("x", 100_000))
		}
		check(t, run.CloseInput())
		want(t, wait(t, run), 0, "2000000\n")
	})
	t.Run("not read", func(t *testing.T) { testFullInput(t, s) })
	t.Run("refused input", func(t *testing.T) { testNoInput(t, s) })
	t.Run("signals", func(t *testing.T) { testTreeSignals(t, s) })
}

// testFullInput sends a command that does not read more input than fits. The call ends
// with its context, other commands continue, and so does this one once it reads.
func testFullInput(t *testing.T, s *suite) {
	for _, c := range []sandbox.Command{{Interactive: true}, {TTY: &screen}} {
		c.Cmd = "[ -t 0 ] && stty raw -echo; echo up; until [ -e read-now ]; do sleep 0.01; done; head -c 1000000 | wc -c"
		run := start(t, s.box, c)
		printed(t, run, "up")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := run.Input(ctx, make([]byte, 1_000_000))
		cancel()
		wantError(t, err, sandbox.LimitReached, "of 1000000 bytes")
		sent := 0
		if _, text, ok := strings.Cut(fmt.Sprint(err), "accepted only "); ok {
			fmt.Sscan(text, &sent)
		}
		want(t, sh(t, s.box, "touch read-now; echo through"), 0, "through\n")
		send(t, run, strings.Repeat("x", 1_000_000-sent))
		if r := wait(t, run); !strings.Contains(r.stdout, "1000000") {
			t.Errorf("%+v, %q", r.Exit, r.stdout)
		}
		want(t, sh(t, s.box, "rm read-now"), 0, "")
	}
}

func testNoInput(t *testing.T, s *suite) {
	run := start(t, s.box, sandbox.Command{Cmd: "sleep 1000"})
	wantError(t, run.Input(t.Context(), []byte("x")), sandbox.InvalidArgument, "/dev/null")
	wantError(t, run.CloseInput(), sandbox.InvalidArgument, "/dev/null")
	wantError(t, run.Resize(80, 24), sandbox.InvalidArgument, "no terminal")
	wantError(t, run.Signal("STOP"), sandbox.InvalidArgument, `"STOP"`)
	wantError(t, run.Signal(""), sandbox.InvalidArgument, "")
	check(t, run.Signal("KILL"))
	if r := wait(t, run); r.Status != sandbox.Killed || r.Signal != "SIGKILL" {
		t.Errorf("%+v", r.Exit)
	}
	<-run.Over()
	wantError(t, run.Signal("TERM"), sandbox.ExecEnded, "has ended: killed")
	run = start(t, s.box, sandbox.Command{Cmd: "exit 3", Interactive: true})
	wait(t, run)
	wantError(t, run.Input(t.Context(), []byte("x")), sandbox.ExecEnded, "has ended: exit code 3")
	_, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: "true", TTY: &sandbox.Size{Cols: 80}})
	wantError(t, err, sandbox.InvalidArgument, "80 columns and 0 rows")
}

// testTreeSignals checks that a signal reaches every process of a run once, and none of
// another run.
func testTreeSignals(t *testing.T, s *suite) {
	for _, tty := range []*sandbox.Size{nil, &screen} {
		other := start(t, s.box, sandbox.Command{Cmd: "trap 'echo hit' USR1; until [ -e stop ]; do sleep 0.01; done"})
		run := start(t, s.box, sandbox.Command{TTY: tty, Cmd: `
setsid bash -c 'trap "echo far" USR1; echo r1; until [ -e stop ]; do sleep 0.01; done' &
bash -c 'trap "sleep 0.3; echo near" USR1; echo r2; until [ -e stop ]; do sleep 0.01; done' &
trap : USR1; wait; wait; wait; exit 9`})
		printed(t, run, "r1")
		printed(t, run, "r2")
		check(t, run.Signal("usr1"))
		printed(t, run, "far")
		printed(t, run, "near")
		want(t, sh(t, s.box, "touch stop"), 0, "")
		r := wait(t, run)
		if r.Code != 9 || strings.Count(r.stdout, "far") != 1 || strings.Count(r.stdout, "near") != 1 {
			t.Errorf("exit %d, %q", r.Code, r.stdout)
		}
		want(t, wait(t, other), 0, "")
		want(t, sh(t, s.box, "rm stop"), 0, "")
	}
	for name, signal := range map[string]string{"INT": "SIGINT", "SIGTERM": "SIGTERM", "HUP": "SIGHUP", "USR2": "SIGUSR2"} {
		for _, tty := range []*sandbox.Size{nil, &screen} {
			run := start(t, s.box, sandbox.Command{Cmd: "echo up; sleep 1000; sleep 1000", TTY: tty})
			printed(t, run, "up")
			check(t, run.Signal(name))
			if r := wait(t, run); r.Signal != signal || r.Status != sandbox.Exited {
				t.Errorf("%s: %+v", name, r.Exit)
			}
		}
	}
}
