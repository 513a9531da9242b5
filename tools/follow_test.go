package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// A player Launcher's agents play their commands: each line has a time to wait and a text to
// print, or "exit". So commands run by a clock of a test's own.
type player struct{}

func (player) Launch(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error) {
	host, agent := net.Pipe()
	go func() { // ends with its box
		defer agent.Close()
		over := make(chan struct{})
		defer close(over)
		r := wire.NewReader(agent, wire.FromHost)
		for {
			f, err := r.Read()
			if err != nil {
				return
			}
			switch f.Kind {
			case wire.Hello:
				agent.Write(wire.Append(nil, wire.Hello, wire.ID{}, []byte(`{}`)))
			case wire.Ping:
				agent.Write(wire.Append(nil, wire.Pong, wire.ID{}, nil))
			case wire.Start:
				var body wire.StartBody
				if json.Unmarshal(f.Payload, &body) == nil {
					go play(agent, f.Run, body.Cmd, over)
				}
			}
		}
	}()
	return host, nil
}

// play plays a command, until its box is over.
func play(agent io.Writer, run wire.ID, cmd string, over <-chan struct{}) {
	agent.Write(wire.Append(nil, wire.Started, run, []byte(`{"pid":1}`)))
	for line := range strings.Lines(cmd) {
		wait, text, _ := strings.Cut(line, " ")
		d, err := time.ParseDuration(wait)
		if err != nil {
			panic(err)
		}
		select {
		case <-time.After(d):
		case <-over:
			return
		}
		if text == "exit" {
			agent.Write(wire.Append(nil, wire.Exit, run, []byte(`{"code":3}`)))
			return
		}
		agent.Write(wire.Append(nil, wire.Stdout, run, []byte(text)))
	}
}

// played runs a test by a clock of its own. The function logs calls the tool for a command that
// has just begun, and returns its result and how long the call took.
func played(t *testing.T, cmd string, test func(t *testing.T, logs func(args string) (logsResult, time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Set{Manager: boxtest.Manager(t, player{}, sandbox.Spec{})}
		run, err := s.Exec(t.Context(), sandbox.Owner{}, ExecArgs{Cmd: cmd, WaitSeconds: new(0.0), TimeoutSeconds: new(86400.0)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		test(t, func(args string) (logsResult, time.Duration) {
			t.Helper()
			begin := time.Now()
			var req mcp.CallToolRequest
			req.Params.Name = "logs"
			req.Params.Arguments = json.RawMessage(`{"execId":"` + run.ExecID + `"` + args + `}`)
			res, err := s.handleLogs(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			r, ok := res.StructuredContent.(logsResult)
			if !ok {
				t.Fatalf("%+v", res.StructuredContent)
			}
			return r, time.Since(begin)
		})
	})
}

// every returns a command that prints so many lines at an interval, and then waits.
func every(interval string, lines int, end string) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%s line %d\n", interval, i+1)
	}
	return b.String() + end
}

// about reports whether a duration is at least d, and less than a burst and its poll longer.
func about(got, d time.Duration) bool { return got >= d && got < d+2*burst }

// TestSlowLinesAreOneReply: a command that prints a line now and then is not followed line by
// line.
func TestSlowLinesAreOneReply(t *testing.T) {
	played(t, every("500ms", 30, "100s exit"), func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
		calls, next, lines := 0, int64(1), 0
		for lines < 30 {
			r, _ := logs(fmt.Sprintf(`,"fromLine":%d,"waitSeconds":45`, next))
			calls, lines, next = calls+1, lines+r.shown, r.Next
			if calls > 40 {
				t.Fatal("too many calls")
			}
		}
		if calls != 1 {
			t.Errorf("%d calls for 30 lines in 15 s", calls)
		}
	})
	// The end of the output without new lines, which only the last lines are asked of.
	played(t, every("500ms", 30, "100s exit"), func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
		r, took := logs(`,"waitSeconds":45`)
		if r.shown != 30 || r.Status != sandbox.Running || !about(took, 15*time.Second+pauseTime) {
			t.Errorf("%d lines, %s, after %v", r.shown, r.Status, took)
		}
	})
}

// TestQuietOutputIsReturned: 2 s after the last of it, and at once if it came long before.
func TestQuietOutputIsReturned(t *testing.T) {
	played(t, "3s ready\n100s late\n100s exit", func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
		if r, took := logs(`,"fromLine":1,"waitSeconds":45`); r.Text != "1: ready\n" || !about(took, 3*time.Second+pauseTime) {
			t.Errorf("%q after %v", r.Text, took)
		}
		if r, took := logs(`,"fromLine":1,"waitSeconds":45`); r.Text != "1: ready\n" || took > burst {
			t.Errorf("old output again: %q after %v", r.Text, took)
		}
		if r, took := logs(`,"fromLine":2,"waitSeconds":45`); r.Text != "" || took != 45*time.Second || r.Next != 2 {
			t.Errorf("nothing new: %q after %v, next %d", r.Text, took, r.Next)
		}
		if r, took := logs(`,"fromLine":1`); r.Text != "1: ready\n" || took > 0 {
			t.Errorf("without a wait: %q after %v", r.Text, took)
		}
	})
}

// TestSteadyOutputReturnsInTime: when the wait is over, or a page is full.
func TestSteadyOutputReturnsInTime(t *testing.T) {
	steady := every("100ms", 5000, "1s exit")
	played(t, steady, func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
		if r, took := logs(`,"fromLine":1,"waitSeconds":10`); took != 10*time.Second || r.shown < 98 || r.shown > 100 {
			t.Errorf("%d lines after %v", r.shown, took)
		}
		if r, took := logs(`,"fromLine":1,"waitSeconds":45`); !about(took, 10*time.Second) || r.shown != pageLines || r.Next != pageLines+1 {
			t.Errorf("%d lines after %v, next %d", r.shown, took, r.Next)
		}
		if r, took := logs(`,"waitSeconds":45`); took != 45*time.Second || r.shown != pageLines {
			t.Errorf("the last %d lines after %v", r.shown, took)
		}
	})
}

// TestLogsReturnsAtTheEnd: of the command, whatever it printed last.
func TestLogsReturnsAtTheEnd(t *testing.T) {
	noisy := "1s a\n" + every("10s", 3, "5s exit")
	for args, want := range map[string]time.Duration{
		`,"until":"end"`: 36 * time.Second,
		`,"until":"end","waitSeconds":600,"fromLine":2`:    36 * time.Second,
		`,"until":"end","waitSeconds":20`:                  20 * time.Second,
		`,"until":"end","grep":"a","waitSeconds":600`:      36 * time.Second,
		`,"grep":"^never$","waitSeconds":600`:              36 * time.Second,
		`,"grep":"line 2","waitSeconds":600`:               21 * time.Second,
		`,"fromLine":5,"waitSeconds":600`:                  36 * time.Second,
		`,"until":"end","waitSeconds":0`:                   0,
		`,"fromLine":3,"stream":"stderr","waitSeconds":90`: 36 * time.Second,
	} {
		played(t, noisy, func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
			r, took := logs(args)
			if ended := want == 36*time.Second; !about(took, want) || (r.Status == sandbox.Exited) != ended {
				t.Errorf("%s: %s after %v, want %v", args, r.Status, took, want)
			}
			if again, took := logs(args); r.Status == sandbox.Exited && (took > 0 || again.Text != r.Text) {
				t.Errorf("%s: %q after %v when it had ended", args, again.Text, took)
			}
		})
	}
	played(t, "50s exit", func(t *testing.T, logs func(string) (logsResult, time.Duration)) {
		if r, took := logs(`,"until":"end"`); r.Status != sandbox.Running || took != defaultWait {
			t.Errorf("%s after %v", r.Status, took)
		}
	})
}
