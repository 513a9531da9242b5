package boxtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// Shimmed are programs that the commands of tests call, for boxes with shims in front of them.
var Shimmed = strings.Fields(`[ awk base64 basename bash cat chmod chown cmp cp cut date dd df dirname du echo env expr false find grep groups
	head hostname id kill ln ls mkdir mkfifo mknod mktemp mount mv nice nohup od perl printf ps pwd python3 readlink rm rmdir sed seq setsid sh
	sha256sum sleep sort stat stty su sudo tail tar tee test timeout touch tr true tty umount uname uniq wc which xargs yes`)

// testShims checks what shims do in a box with some. The tests of package agent compare them
// with the programs in detail.
func testShims(t *testing.T, s *suite) {
	for _, programs := range []bool{false, true} {
		t.Run(fmt.Sprintf("programs=%t", programs), func(t *testing.T) { testShimsOf(t, s, programs) })
	}
}

func testShimsOf(t *testing.T, s *suite, programs bool) {
	spec := s.manager.Defaults
	spec.AuditPrograms = programs
	spec.Shims = &sandbox.Shims{
		Names: Shimmed, Deny: map[string]string{"touch": "Use the tool for files."}, OutputBytes: 4000, OutputLines: 200,
	}
	m := Manager(t, s.manager.Launcher, spec)
	box, _, err := m.Start(t.Context(), sandbox.Owner{Principal: "boxtest"}, sandbox.Request{})
	if err != nil && strings.Contains(err.Error(), "function not implemented") {
		t.Skip("a test program has no entry of a shim")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		cmd    string
		code   int
		stdout string
	}{
		{"seq 100000 | cat | wc -l; grep -q x <<<x && cat <(echo a) - <<<b", 0, "100000\na\nb\n"},
		{"seq 200 > f; cat f f > g; cat f | wc -l; wc -l < g; rm f g", 0, "200\n400\n"},
		{"touch f; echo $?; [ -e f ] || echo none", 0, "126\nnone\n"},
		{"nosuch-program; echo $?", 0, "127\n"},
		{"yes | head -1; echo ${PIPESTATUS[@]}", 0, "y\n141 0\n"},
		{"sh -c 'kill -9 $$'", 137, ""},
		{"sh -c 'exit 7'", 7, ""},
		{"sleep 100 & kill $!; wait $! 2>/dev/null; echo $?", 0, "143\n"},
		{"env sh -c 'echo a b | xargs -n1 echo'", 0, "a\nb\n"},
		{"env cat /proc/self/comm; cat <&- 2>/dev/null; echo $?", 0, "cat\n1\n"},
		{"printf %4001s | tr ' ' x | cat | wc -c; printf 'a\\nb\\n' | env cat", 0, "4001\na\nb\n"},
	} {
		got := sh(t, box, r.cmd)
		if got.Code != r.code || got.stdout != r.stdout {
			t.Errorf("%s: exit %d, %q (stderr %q); want exit %d, %q", r.cmd, got.Code, got.stdout, got.stderr, r.code, r.stdout)
		}
	}
	r := sh(t, box, "seq 300; seq 400; seq 300 | wc -l; echo end")
	if !strings.HasSuffix(r.stdout, "\n200\n...[truncated]\n300\nend\n") {
		t.Errorf("a call prints to the run's own output: %q", r.stdout)
	}
	if got := r.run.Limited(); got != (sandbox.Limited{Calls: 2, Bytes: 4000, Lines: 200}) {
		t.Errorf("of two calls the output was cut: %+v", got)
	}
	if r := sh(t, box, "seq 200"); r.run.Limited().Calls != 0 {
		t.Errorf("no output was cut: %+v", r.run.Limited())
	}
	if r := sh(t, box, "touch f"); r.stderr != "warmbox: touch: Use the tool for files.\n" {
		t.Errorf("%q", r.stderr)
	}
	for _, dir := range []string{"", "/tmp"} { // with a new shell, and on a spare one
		c := sandbox.Command{Cmd: "touch f", Dir: dir, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
		if r := do(t, box, c); r.Code != 126 {
			t.Errorf("a call that sets PATH: exit %d", r.Code)
		}
	}
	run := sh(t, box, "cat /dev/null; sh -c 'exit 3'; touch x; true").run
	list, err := m.Programs(sandbox.Owner{Principal: "boxtest"}, run.ID)
	var calls []string
	for _, p := range list.List {
		if p.Shim && p.Exit != nil {
			calls = append(calls, fmt.Sprint(p.Args, *p.Exit, p.Denied))
		}
	}
	if got := strings.Join(calls, " "); err != nil || !strings.HasPrefix(got, "[cat /dev/null] 0 false [sh -c exit 3] 3 false [touch x] 126 true") {
		t.Errorf("the record has %s, %v", got, err)
	}
}
