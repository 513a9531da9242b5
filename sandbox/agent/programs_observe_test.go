//go:build linux

package agent_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// auditor is a host that is sent the programs of runs.
type auditor struct {
	*host
	programs []wire.Program
	over     map[wire.ID]bool
}

// startAudited starts an agent that records programs, and skips the test if it cannot.
func startAudited(t testing.TB, env ...string) *auditor {
	t.Helper()
	h := launch(t)
	h.sendJSON(wire.Hello, wire.ID{}, wire.HelloBody{Dir: t.TempDir(), Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...), AuditPrograms: true, Spares: 1})
	f, err := h.r.Read()
	var hello wire.HelloBody
	if err == nil {
		err = wire.Decode(f, &hello)
	}
	if err != nil || hello.Audited == nil {
		t.Fatalf("%v %s, %v", f.Kind, f.Payload, err)
	}
	if !hello.Audited.On {
		t.Skipf("the agent sees no programs here: %+v", *hello.Audited)
	}
	return &auditor{host: h, over: map[wire.ID]bool{}}
}

// exec runs a command to the end of the run, and returns its output and the records of its
// programs, by their numbers.
func (a *auditor) exec(cmd string) (out string, list []wire.Program) {
	a.t.Helper()
	run := a.run(wire.StartBody{Cmd: cmd})
	return a.wait(run), a.of(run)
}

// wait reads until nothing is left of a run, and returns its output.
func (a *auditor) wait(run wire.ID) (out string) {
	a.t.Helper()
	for !a.over[run] {
		f, err := a.r.Read()
		if err != nil {
			a.t.Fatalf("%v after %q", err, out)
		}
		switch f.Kind {
		case wire.Refused:
			a.t.Fatalf("refused: %s", f.Payload)
		case wire.Stdout, wire.Stderr:
			if f.Run == run {
				out += string(f.Payload)
			}
		case wire.Exit:
			var body wire.ExitBody
			if err := wire.Decode(f, &body); err != nil {
				a.t.Fatal(err)
			}
			a.over[f.Run] = !body.Open
		case wire.Closed:
			a.over[f.Run] = true
		case wire.Programs:
			var body wire.ProgramsBody
			if err := wire.Decode(f, &body); err != nil {
				a.t.Fatal(err)
			}
			a.programs = append(a.programs, body.List...)
		}
	}
	return out
}

// of returns the records of a run, amended by later ones.
func (a *auditor) of(run wire.ID) []wire.Program {
	a.t.Helper()
	byNumber := map[int64]wire.Program{}
	for _, p := range a.programs {
		if p.Run != hex.EncodeToString(run[:]) {
			continue
		}
		was, known := byNumber[p.Seq]
		switch {
		case p.Total:
			continue
		case p.End:
			was.Failed, was.Exit, was.Unsure = p.Failed, p.Exit, false
			p = was
		case known:
			a.t.Errorf("two records %d: %v and %v", p.Seq, was, p)
		}
		byNumber[p.Seq] = p
	}
	list := make([]wire.Program, len(byNumber))
	for n, p := range byNumber {
		if n < 1 || n > int64(len(list)) {
			a.t.Fatalf("record %d of %d", n, len(list))
		}
		list[n-1] = p
	}
	return list
}

// said renders records for a comparison: path, arguments and how they ended.
func said(list []wire.Program) string {
	var b strings.Builder
	for _, p := range list {
		fmt.Fprintf(&b, "%s %q", p.Path, p.Args)
		if p.More != 0 {
			fmt.Fprintf(&b, " +%d", p.More)
		}
		for i, set := range []bool{p.Cut, p.Unread, p.Failed, p.Unsure} {
			if set {
				b.WriteString([]string{" cut", " unread", " failed", " unsure"}[i])
			}
		}
		if p.Exit != nil {
			fmt.Fprintf(&b, " = %d", *p.Exit)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestProgramsOfARun: each program is recorded once with its arguments and exit code. A search
// of PATH is one record.
func TestProgramsOfARun(t *testing.T) {
	a := startAudited(t)
	for _, c := range []struct{ cmd, want string }{
		{`true`, ``},
		{`ls / >/dev/null; sh -c 'exit 3'; /bin/echo hi >/dev/null; cat /dev/null; :`, `LS ["ls" "/"] = 0
SH ["sh" "-c" "exit 3"] = 3
/bin/echo ["/bin/echo" "hi"] = 0
CAT ["cat" "/dev/null"] = 0
`},
		{`PATH=/no:/nor:$PATH env cat /dev/null`, `ENV ["env" "cat" "/dev/null"]
CAT ["cat" "/dev/null"] = 0
`},
		{`env nosuch; /bin/sh -c 'exec cat </dev/null'`, `ENV ["env" "nosuch"] = 127
LAST/nosuch ["nosuch"] failed
/bin/sh ["/bin/sh" "-c" "exec cat </dev/null"]
CAT ["cat"] = 0
`},
		{`printf '#!/bin/cat\n' >script; chmod +x script; ./script x 2>/dev/null; (exit 4); /dev/null; :`, `CHMOD ["chmod" "+x" "script"] = 0
./script ["./script" "x"] = 1
/dev/null ["/dev/null"] failed
`},
		{`sh -c 'kill -9 $$' 2>/dev/null; find / -maxdepth 0 -exec cat /dev/null ';'`, `SH ["sh" "-c" "kill -9 $$"]
FIND ["find" "/" "-maxdepth" "0" "-exec" "cat" "/dev/null" ";"] = 0
CAT ["cat" "/dev/null"] = 0
`},
	} {
		_, list := a.exec(c.cmd)
		want := fmt.Sprintf("SHELL [%q \"-c\" %q]", shellOf(list), c.cmd)
		if strings.HasSuffix(c.cmd, ":") || c.cmd == "true" {
			want += " = 0"
		} // else the shell becomes its last program
		want += "\n"
		// A program that is killed at once may be gone before the agent can see that it ran.
		if got := strings.ReplaceAll(said(list), " unsure", ""); got != resolved(t, list, want+c.want) {
			t.Errorf("%s:\n%swant\n%s", c.cmd, got, resolved(t, list, want+c.want))
		}
	}
}

func shellOf(list []wire.Program) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Path
}

// resolved replaces the names in upper case by the paths of this machine's programs.
func resolved(t *testing.T, list []wire.Program, text string) string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	old := []string{"SHELL ", shellOf(list) + " ", "LAST/", dirs[len(dirs)-1] + "/"}
	for _, name := range []string{"ls", "sh", "cat", "env", "chmod", "find"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		old = append(old, strings.ToUpper(name)+" ", path+" ")
	}
	return strings.NewReplacer(old...).Replace(text)
}
