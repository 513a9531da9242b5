package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// background starts a command, and returns its id.
func background(t *testing.T, call func(tool, args string) answer, cmd string) string {
	t.Helper()
	return call("exec", `{"cmd":"`+cmd+`","background":true}`).fields["execId"].(string)
}

// awaitEnd waits until a command has ended.
func awaitEnd(t *testing.T, s *Set, id string) {
	t.Helper()
	run, err := s.Manager.Run(sandbox.Owner{}, id)
	if err != nil {
		return // it is over
	}
	select {
	case <-run.Done():
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not end", id)
	}
}

// TestEndIsToldOnce: the next reply of any tool says that a background command has ended, and how,
// unless the caller has seen that.
func TestEndIsToldOnce(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	call := func(tool, args string) answer { t.Helper(); return callTool(t, c, tool, args) }
	const waits = `until [ -e go ]; do read -t 0.01 x; done; exit 3`
	for _, next := range []struct{ tool, args string }{
		{"exec", `{"cmd":"echo hi"}`}, {"start", `{"name":"x"}`}, {"list", `{}`}, {"exec", `{"zebra":1}`}, {"stop", `{"execId":"e-none"}`},
	} {
		call("exec", `{"cmd":"rm -f go"}`)
		id := background(t, call, waits)
		call("exec", `{"cmd":"true"}`).has(t, map[string]any{"ended": nil})
		answers := []answer{call("exec", `{"cmd":"touch go"}`)} // which may see the end
		awaitEnd(t, s, id)
		want := id + " exit 3 · " + waits
		told := 0
		for _, a := range append(answers, call(next.tool, next.args), call("exec", `{"cmd":"true"}`), call("exec", `{"cmd":"true"}`)) {
			if strings.Contains(a.text, "ended: ") {
				told++
				a.has(t, map[string]any{"ended": []any{want}})
				if !strings.HasPrefix(a.text, "ended: "+want+"\n") {
					t.Errorf("%s", a.text)
				}
			}
		}
		if told != 1 && !(told == 0 && next.tool == "list") { // which has the command itself
			t.Errorf("after %s: told %d times", next.tool, told)
		}
	}
}

// TestSeenEndIsNotTold: logs, stop and list say themselves how a command ended.
func TestSeenEndIsNotTold(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	call := func(tool, args string) answer { t.Helper(); return callTool(t, c, tool, args) }
	for _, see := range []string{"logs", "stop", "list"} {
		id := background(t, call, "sleep 60")
		args := `{"execId":"` + id + `"}`
		switch see {
		case "logs", "list":
			run, err := s.Manager.Run(sandbox.Owner{}, id)
			if err != nil {
				t.Fatal(err)
			}
			run.Kill()
			awaitEnd(t, s, id)
			if see == "list" {
				args = `{}`
			}
		}
		call(see, args).has(t, map[string]any{"ended": nil})
		call("exec", `{"cmd":"true"}`).has(t, map[string]any{"ended": nil})
	}
	id := call("start", `{"name":"second"}`).fields["containerId"].(string)
	call("exec", `{"cmd":"sleep 60","background":true,"containerId":"`+id+`"}`)
	call("stop", `{"containerId":"`+id+`"}`).has(t, map[string]any{"ended": nil})
	call("exec", `{"cmd":"true"}`).has(t, map[string]any{"ended": nil})
}

// TestEndIsToldToItsOwner: other sessions do not hear of it, and many ends are counted.
func TestEndIsToldToItsOwner(t *testing.T) {
	s := newSet(t)
	type key struct{}
	s.Owner = func(ctx context.Context) sandbox.Owner {
		return sandbox.Owner{Principal: "p", Session: fmt.Sprint(ctx.Value(key{}))}
	}
	one, two := s.Owner(context.WithValue(t.Context(), key{}, 1)), s.Owner(context.WithValue(t.Context(), key{}, 2))
	for range 8 {
		r, err := s.exec(t.Context(), one, execCall{ExecArgs: ExecArgs{Cmd: "read x", Background: true}, follows: true}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Manager.Run(one, r.ExecID)
		if err != nil {
			t.Fatal(err)
		}
		run.CloseInput()
		<-run.Done()
	}
	all := slices.Clone(s.told.of[one].running)
	if got := s.ended(two, ""); got != nil {
		t.Errorf("another session is told %q", got)
	}
	first := s.told.of[one].running[0].id
	if got := s.ended(one, first); len(got) != maxEnded+1 || got[maxEnded] != "and 2 more" || strings.Contains(got[0], first) {
		t.Errorf("the reply about %s: %q", first, got)
	}
	s.told.of[one].running = append(s.told.of[one].running, all[1:]...)
	got := s.ended(one, "")
	if len(got) != maxEnded+1 || got[maxEnded] != "and 3 more" || !strings.Contains(got[0], " exit 1 · read x") {
		t.Errorf("%q", got)
	}
	if again := s.ended(one, ""); again != nil {
		t.Errorf("told again: %q", again)
	}
}
