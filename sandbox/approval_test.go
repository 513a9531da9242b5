package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/policy"
)

// listed returns a manager with an allowlist, and its audit record.
func listed(t *testing.T) (*sandbox.Manager, *bytes.Buffer) {
	var record bytes.Buffer
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Commands = policy.Commands{Allow: []string{"true"}, Deny: []string{"true false"}}
	m.Audit = slog.New(slog.NewJSONHandler(&record, nil))
	return m, &record
}

func TestApprovalAdmitsExactlyOneCommand(t *testing.T) {
	m, record := listed(t)
	one, other := sandbox.Owner{Principal: "a"}, sandbox.Owner{Principal: "b"}
	say := func(what string) sandbox.Command { return sandbox.Command{Cmd: "echo " + what} }
	with := func(c sandbox.Command, change func(c *sandbox.Command)) sandbox.Command { change(&c); return c }
	once := func(c *sandbox.Command) { c.Approval = sandbox.ApprovedOnce }
	session := func(c *sandbox.Command) { c.Approval = sandbox.ApprovedForSession }
	// The rows build on each other: an approval for the session stays.
	for _, test := range []struct {
		name  string
		owner sandbox.Owner
		c     sandbox.Command
		want  bool
	}{
		{"no approval", one, say("a"), false},
		{"approved once", one, with(say("a"), once), true},
		{"the same again", one, say("a"), false},
		{"approved for the session", one, with(say("b"), session), true},
		{"the same in the session", one, say("b"), true},
		{"one byte more", one, say("b "), false},
		{"another directory", one, with(say("b"), func(c *sandbox.Command) { c.Dir = "/" }), false},
		{"another variable", one, with(say("b"), func(c *sandbox.Command) { c.Env = map[string]string{"X": "y"} }), false},
		{"another owner", other, say("b"), false},
		{"with input", one, with(say("c"), func(c *sandbox.Command) { session(c); c.Stdin = strings.NewReader("x") }), true},
		{"with other input", one, with(say("c"), func(c *sandbox.Command) { c.Stdin = strings.NewReader("y") }), false},
		{"a variable that loads code", one, with(say("d"), func(c *sandbox.Command) { once(c); c.Env = map[string]string{"LD_PRELOAD": "x"} }), false},
		{"in the background of the shell", one, with(say("d &"), once), false},
		{"in a named shell", one, with(say("d"), func(c *sandbox.Command) { once(c); c.Shell = "s" }), false},
		{"on the denylist", one, with(say("; true false"), session), false},
		{"on the allowlist", one, sandbox.Command{Cmd: "true"}, true},
	} {
		if got := runs(t, m, test.owner, test.c); got != test.want {
			t.Errorf("%s: ran is %v, want %v", test.name, got, test.want)
		}
	}
	m.Release(one)
	if runs(t, m, one, say("b")) {
		t.Error("a new session has an approval of the previous one")
	}
	m.Close()
	for want, n := range map[string]int{`"userAllowed":"once"`: 1, `"userAllowed":"session"`: 3, `"userAllowed":""`: 1} {
		if got := strings.Count(record.String(), want); got != n {
			t.Errorf("the record has %s %d times, want %d:\n%s", want, got, n, record)
		}
	}
}

// runs reports whether a command may run in the default box of an owner, and waits for its
// end.
func runs(t *testing.T, m *sandbox.Manager, owner sandbox.Owner, c sandbox.Command) bool {
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

func TestUserIsAskedOnceForWhatMayBeApproved(t *testing.T) {
	for name, test := range map[string]struct {
		cmd    string
		answer sandbox.Approval
		asked  int
		ran    bool
	}{
		"on the allowlist":     {"true", sandbox.ApprovedOnce, 0, true},
		"approved":             {"echo a", sandbox.ApprovedOnce, 1, true},
		"no approval":          {"echo a", "", 1, false},
		"on the denylist":      {"true false", sandbox.ApprovedOnce, 0, false},
		"cannot be judged":     {"echo (", sandbox.ApprovedOnce, 0, false},
		"denied within a line": {"echo a; true false", sandbox.ApprovedOnce, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, record := listed(t)
			asked := 0
			c := sandbox.Command{Cmd: test.cmd, Approve: func(context.Context, error) (sandbox.Approval, error) {
				asked++
				return test.answer, nil
			}}
			if ran := runs(t, m, sandbox.Owner{Principal: "a"}, c); ran != test.ran || asked != test.asked {
				t.Errorf("ran is %v, asked %d times; want %v and %d", ran, asked, test.ran, test.asked)
			}
			want := 1 // also before the user is asked
			if test.asked == 0 && test.ran {
				want = 0
			}
			m.Close()
			if got := strings.Count(record.String(), `"msg":"denied"`); got != want {
				t.Errorf("the record has %d denials, want %d:\n%s", got, want, record)
			}
		})
	}
}

func TestTimeOfTheUserCountsAgainstTheWaitLimit(t *testing.T) {
	for name, test := range map[string]struct{ limit, takes, least, most time.Duration }{
		"most is left":         {time.Hour, 10 * time.Millisecond, time.Hour - time.Minute, time.Hour - 10*time.Millisecond},
		"a short limit stays":  {time.Second, 10 * time.Millisecond, time.Second, time.Second},
		"the least that stays": {2*time.Second + time.Millisecond, 10 * time.Millisecond, 2 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := listed(t)
			box, err := m.DefaultBox(t.Context(), sandbox.Owner{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := box.Exec(t.Context(), sandbox.Command{Cmd: "echo a", WaitLimit: test.limit, Approve: func(context.Context, error) (sandbox.Approval, error) {
				time.Sleep(test.takes) // is what is measured
				return sandbox.ApprovedOnce, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			<-r.Done()
			if left := r.Command.WaitLimit; left < test.least || left > test.most {
				t.Errorf("%v is left of %v, want %v to %v", left, test.limit, test.least, test.most)
			}
		})
	}
}

func TestOldestApprovalIsDroppedFirst(t *testing.T) {
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
			t.Fatal("an approved command was denied")
		}
	}
	if ran(0, "") || !ran(1, "") || !ran(most, "") {
		t.Error("another approval than the oldest was dropped")
	}
}
