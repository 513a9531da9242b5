package boxtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// testOutput checks what is logged of a command's output.
func testOutput(t *testing.T, s *suite) {
	t.Run("both streams", func(t *testing.T) {
		r := sh(t, s.box, "echo out; echo err >&2; exit 3")
		want(t, r, 3, "out\n")
		if r.stderr != "err\n" {
			t.Errorf("stderr %q", r.stderr)
		}
	})
	t.Run("in order", func(t *testing.T) { testOrder(t, s) })
	t.Run("empty", func(t *testing.T) { want(t, sh(t, s.box, "true"), 0, "") })
	t.Run("no newline", func(t *testing.T) { want(t, sh(t, s.box, "printf x"), 0, "x") })
	t.Run("binary", func(t *testing.T) { testBinary(t, s) })
	t.Run("32 MB", func(t *testing.T) { testBulk(t, s) })
	t.Run("after the shell ends", func(t *testing.T) { testAfterShell(t, s) })
	t.Run("full pipe at exit", func(t *testing.T) {
		r := sh(t, s.box, "head -c 60000 /dev/zero | tr '\\0' x; sleep 60 & disown; exit 4")
		if n := len(logged(t, r.run)); r.Code != 4 || n != 60000 {
			t.Errorf("exit %d, %d bytes", r.Code, n)
		}
		if len(r.Leftover) != 1 {
			t.Errorf("leftover %v", r.Leftover)
		}
	})
}

// testAfterShell checks that output shortly after the shell's end still belongs to the
// command. If the machine is too slow, the process is left over, and its output logged.
func testAfterShell(t *testing.T, s *suite) {
	const tries = 10
	for range tries {
		r := sh(t, s.box, "echo first; (sleep 0.01; echo second) & exit 0")
		if r.stdout == "first\nsecond\n" {
			return
		}
		if r.stdout != "first\n" || len(r.Leftover) == 0 {
			t.Fatalf("%q, leftover %v", r.stdout, r.Leftover)
		}
		printed(t, r.run, "second\n")
	}
	t.Errorf("the process was left over %d times", tries)
}

// testOrder has a command write to both streams, one after the other, and wait until both lines
// were seen: they are in the log in the order in which they were written.
func testOrder(t *testing.T, s *suite) {
	const rounds = 10
	run := start(t, s.box, sandbox.Command{Cmd: fmt.Sprintf(`seen() { until [ -e seen-$1 ]; do sleep 0.01; done; }
for i in {1..%d}; do echo o$i; echo e$i >&2; seen $i; echo E$i >&2; echo O$i; seen $i$i; done`, rounds)})
	var all string
	for i := 1; i <= rounds; i++ {
		printed(t, run, fmt.Sprintf("e%d\n", i))
		want(t, sh(t, s.box, fmt.Sprintf("touch seen-%d", i)), 0, "")
		printed(t, run, fmt.Sprintf("O%d\n", i))
		want(t, sh(t, s.box, fmt.Sprintf("touch seen-%d%d", i, i)), 0, "")
		all += fmt.Sprintf("o%d\ne%d\nE%d\nO%d\n", i, i, i, i)
	}
	if got := string(logged(t, wait(t, run).run)); got != all {
		t.Errorf("log %q, want %q", got, all)
	}
	want(t, sh(t, s.box, "rm seen-*"), 0, "")
}

// testBinary checks that every byte value passes in both directions.
func testBinary(t *testing.T, s *suite) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r := do(t, s.box, sandbox.Command{Cmd: "cat", Stdin: bytes.NewReader(all)})
	if r.Code != 0 || !bytes.Equal(logged(t, r.run), all) {
		t.Errorf("exit %d, log %x", r.Code, logged(t, r.run))
	}
}

// testBulk prints random bytes, so that a misplaced one is detected, and has the box
// compute their checksum.
func testBulk(t *testing.T, s *suite) {
	const size = 32 << 20
	r := sh(t, s.box, fmt.Sprintf("head -c %d /dev/urandom | tee >(sha256sum > sum)", size))
	text := logged(t, r.run)
	sum := sha256.Sum256(text)
	if r.Code != 0 || len(text) != size {
		t.Errorf("exit %d, %d bytes", r.Code, len(text))
	}
	want(t, sh(t, s.box, "until [ -s sum ]; do sleep 0.01; done; cut -d' ' -f1 sum; rm sum"), 0, hex.EncodeToString(sum[:])+"\n")
	if st := r.run.LogStats(); !st.Complete || st.Bytes != int64(len(text)) {
		t.Errorf("stats %+v for %d bytes", st, len(text))
	}
}

// testMany runs commands concurrently and checks every byte of each.
func testMany(t *testing.T, s *suite) {
	t.Run("32 at once", func(t *testing.T) {
		var runs []*sandbox.Run
		for i := range 32 {
			runs = append(runs, start(t, s.box, sandbox.Command{Cmd: fmt.Sprintf("for j in $(seq 300); do echo run-%d-$j; echo err-%d-$j >&2; done; exit %d", i, i, i)}))
		}
		for i, run := range runs {
			var stdout, stderr strings.Builder
			for j := range 300 {
				fmt.Fprintf(&stdout, "run-%d-%d\n", i, j+1)
				fmt.Fprintf(&stderr, "err-%d-%d\n", i, j+1)
			}
			r := wait(t, run)
			want(t, r, i, stdout.String())
			if r.stderr != stderr.String() {
				t.Errorf("run %d: stderr differs", i)
			}
		}
	})
	t.Run("beside hanging commands", func(t *testing.T) {
		var hung []*sandbox.Run
		for range 20 {
			hung = append(hung, start(t, s.box, sandbox.Command{Cmd: "sleep 1000"}))
		}
		want(t, sh(t, s.box, "echo through"), 0, "through\n")
		for _, run := range hung {
			run.Kill()
		}
		for _, run := range hung {
			if r := wait(t, run); r.Status != sandbox.Killed {
				t.Errorf("%s", r.Status)
			}
		}
	})
}

// testInput gives commands their whole standard input at the start.
func testInput(t *testing.T, s *suite) {
	t.Run("none", func(t *testing.T) { want(t, sh(t, s.box, "cat; echo end"), 0, "end\n") })
	t.Run("given", func(t *testing.T) {
		want(t, do(t, s.box, sandbox.Command{Cmd: "cat", Stdin: strings.NewReader("a\nb")}), 0, "a\nb")
	})
	t.Run("large", func(t *testing.T) {
		random := rand.NewChaCha8([32]byte{1})
		text := make([]byte, 5<<20)
		random.Read(text)
		r := do(t, s.box, sandbox.Command{Cmd: "cat", Stdin: bytes.NewReader(text)})
		if !bytes.Equal(logged(t, r.run), text) {
			t.Error("what came back is not what was sent")
		}
	})
	t.Run("not read", func(t *testing.T) {
		// More than pipe and window hold, and the command reads none of it.
		r := do(t, s.box, sandbox.Command{Cmd: "echo done", Stdin: bytes.NewReader(make([]byte, 4<<20))})
		want(t, r, 0, "done\n")
	})
	t.Run("closed early", func(t *testing.T) {
		r := do(t, s.box, sandbox.Command{Cmd: "exec <&-; sleep 0.1; echo done", Stdin: bytes.NewReader(make([]byte, 4<<20))})
		want(t, r, 0, "done\n")
	})
	t.Run("not read, other commands continue", func(t *testing.T) {
		slow := start(t, s.box, sandbox.Command{Cmd: "sleep 1000", Stdin: bytes.NewReader(make([]byte, 4<<20))})
		want(t, sh(t, s.box, "echo through"), 0, "through\n")
		slow.Kill()
		wait(t, slow)
	})
}

// testStart checks what a command starts with: directory, environment, descriptors, limits.
func testStart(t *testing.T, s *suite) {
	t.Run("directory", func(t *testing.T) {
		want(t, do(t, s.box, sandbox.Command{Cmd: "pwd", Dir: "/usr"}), 0, "/usr\n")
		want(t, sh(t, s.box, "mkdir -p sub && cd sub && echo x > f"), 0, "")
		want(t, do(t, s.box, sandbox.Command{Cmd: "cat f", Dir: "sub"}), 0, "x\n")
		want(t, sh(t, s.box, "rm -r sub"), 0, "")
	})
	t.Run("no such directory", func(t *testing.T) {
		r := do(t, s.box, sandbox.Command{Cmd: "pwd", Dir: "/nowhere"})
		if r.Err == nil || !strings.Contains(r.Err.Error(), `"/nowhere": no such file or directory`) {
			t.Errorf("%v", r.Err)
		}
		r = do(t, s.box, sandbox.Command{Cmd: "pwd", Dir: "/etc/passwd"})
		if r.Err == nil || !strings.Contains(r.Err.Error(), "not a directory") {
			t.Errorf("%v", r.Err)
		}
	})
	t.Run("environment", func(t *testing.T) {
		r := do(t, s.box, sandbox.Command{Cmd: `echo "$A|$TERM|$NO_COLOR|$PAGER"`, Env: map[string]string{"A": "1 2\n3", "TERM": "xterm"}})
		want(t, r, 0, "1 2\n3|xterm|1|cat\n")
	})
	testOddCommands(t, s)
	t.Run("nothing inherited", func(t *testing.T) {
		// 3 is the directory that ls itself reads.
		want(t, sh(t, s.box, "ls /proc/self/fd | tr '\\n' ' '"), 0, "0 1 2 3 ")
		want(t, sh(t, s.box, "ulimit -c; ulimit -Hc; test $(ulimit -Hn) -le 65536 && echo few"), 0, "0\n0\nfew\n")
		want(t, sh(t, s.box, "env | grep -c WARMBOX_TEST"), 1, "0\n")
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx := cancelled(t)
		if _, err := s.box.Exec(ctx, sandbox.Command{Cmd: "true"}); err == nil {
			t.Error("started all the same")
		}
	})
	t.Run("time", func(t *testing.T) {
		if r := sh(t, s.box, "sleep 0.2"); r.Took < 200*time.Millisecond {
			t.Errorf("took %v", r.Took)
		}
	})
}

// testOddCommands starts commands of unusual length and text.
func testOddCommands(t *testing.T, s *suite) {
	t.Run("1 MB command", func(t *testing.T) {
		cmd := "x='" + strings.Repeat("0123456789abcdef", (1<<20)/16-64) + "'\necho ${#x} $# \"$0\"\nls /proc/self/fd | tr '\\n' ' '"
		r := sh(t, s.box, cmd)
		if r.Code != 0 || !strings.HasPrefix(r.stdout, fmt.Sprint((1<<20)-1024)+" 0 ") || !strings.HasSuffix(r.stdout, "0 1 2 3 ") {
			t.Errorf("exit %d, %q, %q", r.Code, r.stdout, r.stderr)
		}
		if _, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: strings.Repeat("x", sandbox.MaxCommand+1)}); err == nil {
			t.Error("a longer one is taken")
		}
	})
	t.Run("odd commands", func(t *testing.T) {
		want(t, sh(t, s.box, "-x 2>/dev/null; echo $?"), 0, "127\n")
		want(t, sh(t, s.box, "echo 'a\nb' # end"), 0, "a\nb\n")
		for _, bad := range []string{"", "  \n", "echo a\x00b"} {
			if _, err := s.box.Exec(t.Context(), sandbox.Command{Cmd: bad}); err == nil {
				t.Errorf("%q is taken", bad)
			}
		}
	})
}
