package sandbox_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/policy"
)

// listed returns a manager with a list of commands, and its record.
func listed(t *testing.T) (*sandbox.Manager, *bytes.Buffer) {
	var record bytes.Buffer
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Commands = policy.Commands{Allow: []string{"true"}, Deny: []string{"true false"}}
	m.Audit = slog.New(slog.NewJSONHandler(&record, nil))
	return m, &record
}

func TestAllowance(t *testing.T) {
	m, record := listed(t)
	run := func(owner sandbox.Owner, c sandbox.Command) bool {
		t.Helper()
		box, err := m.DefaultBox(t.Context(), owner, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := box.Exec(t.Context(), c)
		if err != nil {
			if e := err.(*sandbox.Error); e.Code != sandbox.ExecValidation {
				t.Errorf("%v: %v", c, err)
			}
			return false
		}
		<-r.Done()
		return true
	}
	say := func(what string) sandbox.Command { return sandbox.Command{Cmd: "echo " + what} }
	once, session := say("a"), say("b")
	once.Approval, session.Approval = sandbox.ApprovedOnce, sandbox.ApprovedForSession
	elsewhere, with, typed := say("b"), say("b"), say("c")
	elsewhere.Dir, with.Env, typed.Stdin, typed.Approval = "/", map[string]string{"X": "y"}, strings.NewReader("x"), sandbox.ApprovedForSession
	otherwise := typed
	otherwise.Stdin, otherwise.Approval = strings.NewReader("y"), ""
	evil, background, shell := say("d"), say("d &"), say("d")
	evil.Env, evil.Approval = map[string]string{"LD_PRELOAD": "x"}, sandbox.ApprovedOnce
	background.Approval, shell.Approval, shell.Shell = sandbox.ApprovedOnce, sandbox.ApprovedOnce, "s"
	for i, test := range []struct {
		owner sandbox.Owner
		c     sandbox.Command
		want  bool
	}{
		{sandbox.Owner{Principal: "a"}, say("a"), false}, {sandbox.Owner{Principal: "a"}, once, true}, {sandbox.Owner{Principal: "a"}, say("a"), false},
		{sandbox.Owner{Principal: "a"}, session, true}, {sandbox.Owner{Principal: "a"}, say("b"), true}, {sandbox.Owner{Principal: "a"}, say("b "), false}, {sandbox.Owner{Principal: "a"}, elsewhere, false}, {sandbox.Owner{Principal: "a"}, with, false},
		{sandbox.Owner{Principal: "b"}, say("b"), false},
		{sandbox.Owner{Principal: "a"}, typed, true}, {sandbox.Owner{Principal: "a"}, otherwise, false},
		{sandbox.Owner{Principal: "a"}, evil, false}, {sandbox.Owner{Principal: "a"}, background, false}, {sandbox.Owner{Principal: "a"}, shell, false},
		{sandbox.Owner{Principal: "a"}, sandbox.Command{Cmd: "echo; true false", Approval: sandbox.ApprovedForSession}, false},
		{sandbox.Owner{Principal: "a"}, sandbox.Command{Cmd: "true"}, true},
	} {
		if got := run(test.owner, test.c); got != test.want {
			t.Errorf("%d: %+v ran: %v", i, test.c, got)
		}
	}
	m.Release(sandbox.Owner{Principal: "a"})
	if run(sandbox.Owner{Principal: "a"}, say("b")) {
		t.Error("a new session has what an old one was allowed")
	}
	m.Close()
	for want, n := range map[string]int{`"userAllowed":"once"`: 1, `"userAllowed":"session"`: 3, `"userAllowed":""`: 1} {
		if got := strings.Count(record.String(), want); got != n {
			t.Errorf("%s stands %d times in the record, want %d:\n%s", want, got, n, record)
		}
	}
}

func TestAllowancesAreBounded(t *testing.T) {
	m, _ := listed(t)
	box, err := m.DefaultBox(t.Context(), sandbox.Owner{Principal: "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ran := func(n int, allowed sandbox.Approval) bool {
		r, err := box.Exec(t.Context(), sandbox.Command{Cmd: fmt.Sprintf("[ %d ]", n), Approval: allowed})
		if err == nil {
			<-r.Done()
		}
		return err == nil
	}
	const most = 256
	for n := range most + 1 {
		if !ran(n, sandbox.ApprovedForSession) {
			t.Fatal("a user's word does not count")
		}
	}
	if ran(0, "") || !ran(1, "") || !ran(most, "") {
		t.Error("it is not the oldest alone that is forgotten")
	}
}
