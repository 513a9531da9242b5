package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// TestRepliesMatchTheSnapshots: testdata/replies has the reply of exec to each kind of end, as a
// model reads it.
func TestRepliesMatchTheSnapshots(t *testing.T) {
	s := newSet(t)
	s.Manager.Secrets = secrets()
	c := connect(t, s)
	callTool(t, c, "exec", `{"cmd":"true"}`) // the first reply of a session may say more
	for name, args := range map[string]string{
		"success":         `{"cmd":"echo hi"}`,
		"silent":          `{"cmd":"true"}`,
		"success-both":    `{"cmd":"echo warning: slow >&2; echo done"}`,
		"failure":         `{"cmd":"echo main.c:7: error >&2; exit 2"}`,
		"failure-both":    `{"cmd":"echo broken >&2; echo cleaning up; exit 3"}`,
		"failure-long":    `{"cmd":"seq 300; echo main.c:7: error: expected expression >&2; exit 2","maxBytes":100}`,
		"success-long":    `{"cmd":"seq 300","maxBytes":100}`,
		"signal":          `{"cmd":"kill -SEGV $$"}`,
		"not-found":       `{"cmd":"no-such-program"}`,
		"timeout":         `{"cmd":"echo begun; sleep 60","timeoutSeconds":0.5}`,
		"background":      `{"cmd":"sleep 60","background":true}`,
		"leftover":        `{"cmd":"sleep 60 >/dev/null 2>&1 & until read -r name </proc/$!/comm; [ $name = sleep ]; do :; done; echo hi"}`,
		"secrets":         `{"cmd":"echo TOKEN=` + token + `; echo ` + setting + ` >&2; exit 1"}`,
		"no-such-box":     `{"cmd":"ls","containerId":"b-none"}`,
		"control-strings": `{"cmd":"printf '\\033[31mred\\033[0m\\n'"}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := callTool(t, c, "exec", args)
			matchReply(t, name, "exec "+args, a.text, a.json)
		})
	}
	const id, path = "e-aaaaaaaaaa", "/logs/e-aaaaaaaaaa.log"
	base := ExecResult{ContainerID: "b-aaaaaaaaaa", ExecID: id, LogPath: path, took: 3200 * time.Millisecond, DurationMs: 3200}
	for name, change := range map[string]func(r *ExecResult){
		"running": func(r *ExecResult) {
			r.Status, r.logged, r.Hint = sandbox.Running, 1, runningHint(10*time.Minute)
		},
		"oom": func(r *ExecResult) {
			r.Status, r.ExitCode, r.Signal = sandbox.OOM, new(137), "SIGKILL"
			r.hint(memoryHint(sandbox.Exit{Status: sandbox.OOM, Code: 137, MemoryKill: &sandbox.MemoryKill{Limit: 2 << 30}})...)
		},
		"lost": func(r *ExecResult) {
			r.Status, r.Code = sandbox.Lost, sandbox.BoxGone
			r.hint(lostHint(sandbox.Errorf(sandbox.BoxGone, "The log has what the command printed before. Run it again in another box.", "box b-aaaaaaaaaa ended while the command ran: it was killed")))
		},
		"log-incomplete": func(r *ExecResult) {
			r.Status, r.ExitCode = sandbox.Exited, new(0)
			r.Log = &LogGap{LostBytes: 1234, Reason: "the disk is full"}
		},
		"changed": func(r *ExecResult) {
			n := sandbox.Changes{Paths: []string{".envrc"}, During: []string{id}}
			r.Status, r.ExitCode, r.Changed = sandbox.Exited, new(0), changedPaths(n)
			r.hint(changedHint(n)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := base
			change(&r)
			r.show(excerpt.Excerpt{Text: "begun\n", Bytes: 6, Lines: 1}, excerpt.Excerpt{})
			reply := execReply(t.Context(), r)
			raw, err := json.Marshal(reply.StructuredContent)
			if err != nil {
				t.Fatal(err)
			}
			matchReply(t, name, "a command that printed begun", reply.Content[0].(mcp.TextContent).Text, string(raw))
		})
	}
}

// The parts of a reply that differ from run to run.
var (
	ids       = regexp.MustCompile(`\b([be])-[0-9a-z]{10}\b`)
	durations = regexp.MustCompile(`(?m)( · )[0-9.]+ m?s\b`)
	millis    = regexp.MustCompile(`"durationMs": \d+`)
	pids      = regexp.MustCompile(`(\(pid |"pid": )\d+`)
	logPaths  = regexp.MustCompile(`/[^ "]*/(e-[0-9a-z]{10}\.log)`)
)

// matchReply compares a reply in both forms with its snapshot.
func matchReply(t *testing.T, name, call, text, structured string) {
	t.Helper()
	var fields strings.Builder
	if !t.Failed() {
		var v any
		if err := json.Unmarshal([]byte(structured), &v); err != nil {
			t.Fatal(err)
		}
		enc := json.NewEncoder(&fields)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	got := "# " + call + "\n\n-- text --\n" + text + "\n-- structuredContent --\n" + fields.String()
	got = logPaths.ReplaceAllString(got, "/home/user/.local/state/warmbox/logs/$1")
	got = ids.ReplaceAllString(got, "$1-k7fq3m9x2d")
	got = durations.ReplaceAllString(got, "${1}5 ms")
	got = millis.ReplaceAllString(got, `"durationMs": 5`)
	got = pids.ReplaceAllString(got, "${1}7")
	got = strings.ReplaceAll(got, token, "$TOKEN") // of the call: scanners of repositories would report it
	file := filepath.Join("testdata", "replies", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s has changed; if that is meant, run this test with -update:\n%s", file, d)
	}
}

// TestFrameOfWholeOutputIsSmall: what a reply adds to an output that it shows whole costs at most
// 15 tokens of four bytes as text, and 60 as structured content.
func TestFrameOfWholeOutputIsSmall(t *testing.T) {
	const text, structured = 60, 240
	c := connect(t, newSet(t))
	callTool(t, c, "exec", `{"cmd":"true"}`) // the first reply of a session may say more
	for cmd, output := range map[string]string{
		"true":                    "",
		"echo hi":                 "hi\n",
		"seq 500":                 "",
		"echo no >&2; exit 1":     "no\n",
		"echo a; echo b; exit 99": "a\nb\n",
	} {
		a := callTool(t, c, "exec", `{"cmd":"`+cmd+`"}`)
		if cmd == "seq 500" {
			output = a.fields["stdout"].(string)
		}
		if n := len(a.text) - len(output); n > text {
			t.Errorf("%s: %d bytes of text besides the output, want at most %d:\n%s", cmd, n, text, a.text)
		}
		a.fields["logPath"] = "/home/user/.local/state/warmbox/logs/" + filepath.Base(a.fields["logPath"].(string))
		delete(a.fields, "stdout")
		delete(a.fields, "stderr")
		raw, err := json.Marshal(a.fields)
		const streams = len(`,"stdout":""`)
		if n := len(raw) + streams; err != nil || n > structured {
			t.Errorf("%s: %d bytes of structured content besides the output, want at most %d: %s, %v", cmd, n, structured, raw, err)
		}
		for _, name := range []string{"status", "exitCode", "summary", "truncated", "logPath", "containerId", "execId"} {
			if a.fields[name] == nil {
				t.Errorf("%s: no %s in %s", cmd, name, a.json)
			}
		}
	}
}
