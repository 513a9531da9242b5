package tools

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// TestBackgroundCommandIsNotWaitedFor: a server starts, answers while other commands run, and is
// stopped.
func TestBackgroundCommandIsNotWaitedFor(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	server := callTool(t, c, "exec", `{"cmd":"mkfifo ask; while :; do read word <ask && echo got $word; done","background":true}`)
	server.has(t, map[string]any{"status": "running", "exitCode": nil, "code": nil})
	server.says(t, "It has no time limit; stop ends it.", `logs {"execId": `, "Its stdin is open: input ")
	id := server.fields["execId"].(string)
	callTool(t, c, "exec", `{"cmd":"until [ -p ask ]; do :; done; echo hello >ask"}`).has(t, map[string]any{"exitCode": 0})
	callTool(t, c, "logs", `{"execId":"`+id+`","grep":"got","waitSeconds":30}`).has(t, map[string]any{"status": "running", "matches": 1})

	stopped := callTool(t, c, "stop", `{"execId":"`+id+`"}`)
	stopped.has(t, map[string]any{"status": "killed", "execId": id, "containerId": server.fields["containerId"]})
	stopped.says(t, "killed (SIGTERM) · execId "+id)
	callTool(t, c, "logs", `{"execId":"`+id+`"}`).has(t, map[string]any{"status": "killed", "signal": "SIGTERM"})
	again := callTool(t, c, "stop", `{"execId":"`+id+`"}`)
	again.has(t, map[string]any{"status": "killed", "signal": "SIGTERM", "containerId": server.fields["containerId"], "code": nil})
	again.says(t, "killed (SIGTERM) · ", "hint: The command had ended before")
	failed := callTool(t, c, "exec", `{"cmd":"exit 7"}`).fields["execId"].(string)
	over := callTool(t, c, "stop", `{"execId":"`+failed+`"}`)
	over.has(t, map[string]any{"status": "exited", "exitCode": 7})
	over.says(t, "exit 7 · execId "+failed)
	callTool(t, c, "exec", `{"cmd":"true"}`).has(t, map[string]any{"containerId": server.fields["containerId"]})
}

// TestStartOfABackgroundCommandIsShown: the first output of a server that started, and the error
// of one that did not, are in the reply to its start.
func TestStartOfABackgroundCommandIsShown(t *testing.T) {
	c := connect(t, newSet(t))
	callTool(t, c, "exec", `{"cmd":"echo listening; sleep 1000","background":true}`).has(t, map[string]any{"status": "running", "stdout": "listening\n"})
	callTool(t, c, "exec", `{"cmd":"echo the port is taken >&2; exit 3","background":true}`).has(t, map[string]any{"status": "exited", "exitCode": 3, "stderr": "the port is taken\n"})
}

func TestBackgroundTimeoutKills(t *testing.T) {
	c := connect(t, newSet(t))
	a := callTool(t, c, "exec", `{"cmd":"sleep 60","background":true,"timeoutSeconds":0.1,"waitSeconds":60}`)
	a.has(t, map[string]any{"status": "timeout", "code": "EXEC_TIMEOUT"})
	for _, args := range []string{`{"execId":"e-1","containerId":"b-1"}`} {
		callTool(t, c, "stop", args).has(t, map[string]any{"code": sandbox.InvalidArgument})
	}
	callTool(t, c, "stop", `{"execId":"e-1"}`).has(t, map[string]any{"code": sandbox.ExecNotFound})
	callTool(t, c, "exec", `{"cmd":"true","background":"yes"}`).says(t, "background must be true or false")
}

// TestDisconnectKillsUnlessItRunsOn: a call that ends kills the command that it waits for, unless
// the command runs in the background, or commands of clients that disconnect are to run on.
func TestDisconnectKillsUnlessItRunsOn(t *testing.T) {
	for _, test := range []struct {
		name       string
		background bool
		runOn      bool
		cause      error
		want       sandbox.Status
	}{
		{"cancelled", false, false, context.Canceled, sandbox.Killed},
		{"disconnected", false, false, ErrDisconnected, sandbox.Killed},
		{"cancelled, run on", false, true, context.Canceled, sandbox.Killed},
		{"disconnected, run on", false, true, ErrDisconnected, sandbox.Running},
		{"cancelled in the background", true, false, context.Canceled, sandbox.Running},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSet(t)
			s.RunOn = test.runOn
			ctx, cancel := context.WithCancelCause(t.Context())
			results := make(chan ExecResult, 1)
			go func() {
				r, err := s.Exec(ctx, sandbox.Owner{Principal: "me"}, ExecArgs{Cmd: "echo begun; touch begun; sleep 60", Background: test.background, WaitSeconds: new(60.0)}, nil)
				if err != nil {
					t.Error(err)
				}
				results <- r
			}()
			begun(t, s, sandbox.Owner{Principal: "me"})
			cancel(test.cause)
			r := <-results
			if run, err := s.Manager.Record(sandbox.Owner{Principal: "me"}, r.ExecID); r.Status != test.want || err != nil || run.Exit.Status != test.want {
				t.Errorf("%s, later %s, want %s; %v", r.Status, run.Exit.Status, test.want, err)
			}
		})
	}
}

// TestLeftoverProcessesAreReported: also those that do not hold the output open; stop kills them.
func TestLeftoverProcessesAreReported(t *testing.T) {
	c := connect(t, newSet(t))
	left := callTool(t, c, "exec", `{"cmd":"setsid sleep 86413 >/dev/null 2>&1 </dev/null &`+
		` until read -r name </proc/$!/comm; [ $name = sleep ]; do :; done; setsid -f sleep 0.5"}`)
	left.has(t, map[string]any{"status": "exited", "exitCode": 0, "leftoverCount": nil})
	id := left.fields["execId"].(string)
	left.says(t, `"sleep" (pid `, `stop {"execId": "`+id+`"} ends them`)
	if list, _ := left.fields["leftover"].([]any); len(list) != 2 {
		t.Error(left.json)
	}
	callTool(t, c, "list", `{}`).says(t, "command "+id+" · exit 0 · ", `still running: "`, `"sleep" (pid `)
	callTool(t, c, "stop", `{"execId":"`+id+`"}`).has(t, map[string]any{"status": "exited"})
	list := callTool(t, c, "list", `{}`)
	if strings.Contains(list.text, "still running") {
		t.Error(list.text)
	}
	callTool(t, c, "exec", `{"cmd":"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 8641[3]'"}`).has(t, map[string]any{"exitCode": 1})

	// Without stop, the run is over when its processes have ended.
	brief := callTool(t, c, "exec", `{"cmd":"setsid -f sleep 0.3 >/dev/null 2>&1"}`)
	if list, _ := brief.fields["leftover"].([]any); len(list) != 1 {
		t.Error(brief.json)
	}
	callTool(t, c, "logs", `{"execId":"`+brief.fields["execId"].(string)+`","grep":"never","waitSeconds":30}`)
	callTool(t, c, "stop", `{"execId":"`+brief.fields["execId"].(string)+`"}`).has(t, map[string]any{"status": "exited", "exitCode": 0})
}

// TestLogsAddTheSummaryAtTheEnd: for a call that waited for a long output, or reads its end.
func TestLogsAddTheSummaryAtTheEnd(t *testing.T) {
	c := connect(t, newSet(t))
	a := callTool(t, c, "exec", `{"cmd":`+strconv.Quote("until [ -e go ]; do :; done; "+failing)+`,"background":true}`)
	id := a.fields["execId"].(string)
	callTool(t, c, "exec", `{"cmd":"touch go"}`)
	waited := callTool(t, c, "logs", `{"execId":"`+id+`","grep":"^never$","waitSeconds":30}`)
	waited.has(t, map[string]any{"status": "exited", "exitCode": 1})
	waited.says(t, "\nsummary (builtin): exit 1, ", "got 4, want 5")
	callTool(t, c, "logs", `{"execId":"`+id+`"}`).says(t, "\nsummary (builtin): exit 1, ")
	callTool(t, c, "logs", `{"execId":"`+id+`","fromLine":3100,"waitSeconds":1}`).says(t, "\nsummary (builtin): exit 1, ")
	callTool(t, c, "logs", `{"execId":"`+id+`","fromLine":1,"lines":2,"waitSeconds":1}`).has(t, map[string]any{"summary": nil})
	callTool(t, c, "logs", `{"execId":"`+id+`","fromLine":1,"lines":2}`).has(t, map[string]any{"summary": nil})
	callTool(t, c, "logs", `{"execId":"`+id+`","grep":"FAIL"}`).has(t, map[string]any{"summary": nil})
	small := callTool(t, c, "exec", `{"cmd":"seq 10"}`)
	callTool(t, c, "logs", `{"execId":"`+small.fields["execId"].(string)+`"}`).has(t, map[string]any{"summary": nil})
}
