package sandbox_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

func begin(t *testing.T, b *sandbox.Box, cmd string) *sandbox.Run {
	t.Helper()
	run, err := b.Exec(t.Context(), sandbox.Command{Cmd: cmd, WaitLimit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// One command too many is refused, with an error that says what runs; another gets the
// slot of one that has ended, however that came.
func TestTooManyRunsAreQueuedOrRefused(t *testing.T) {
	for name, limit := range map[string]struct {
		spec  sandbox.Spec
		all   int
		where string
	}{
		"of a box":     {sandbox.Spec{Pids: 16}, 0, "at most 2 commands in box "},
		"of all boxes": {sandbox.Spec{}, 2, "at most 2 commands of all clients can run at the same time (exec.max_runs); yours: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := boxtest.Manager(t, boxtest.Agent(t), limit.spec)
			m.MaxRuns = limit.all
			box, err := m.DefaultBox(t.Context(), me, nil)
			if err != nil {
				t.Fatal(err)
			}
			first, second := begin(t, box, "sleep 1000"), begin(t, box, "exec sleep 1001")
			_, err = box.Exec(t.Context(), sandbox.Command{Cmd: "true"})
			if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.LimitReached ||
				!strings.Contains(e.Text, limit.where) || !strings.Contains(e.Text, first.ID+` "sleep 1000" (0 s), `+second.ID+` "exec sleep 1001"`) {
				t.Errorf("%v", err)
			}
			first.Kill()
			<-first.Done()
			third := begin(t, box, "true")
			<-third.Done()
			second.Kill()
			<-second.Done()
			refused, err := box.Exec(t.Context(), sandbox.Command{Cmd: "true", Dir: "/no/such/dir"})
			if err == nil {
				<-refused.Done()
			}
			a, b := begin(t, box, "sleep 1000"), begin(t, box, "sleep 1000") // every slot was freed
			box.Close()
			<-a.Done()
			<-b.Done()
			if box, err = m.DefaultBox(t.Context(), me, nil); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				<-begin(t, box, "true").Done()
			}
		})
	}
}
