package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

// execID runs a command and returns its id.
func execID(t *testing.T, c *client.Client, args string) string {
	t.Helper()
	return callTool(t, c, "exec", args).fields["execId"].(string)
}

func logsOf(t *testing.T, c *client.Client, id, args string) answer {
	t.Helper()
	return callTool(t, c, "logs", `{"execId":"`+id+`"`+args+`}`)
}

func TestLogsReadsRangesAndSearches(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"seq 1 1001; exit 3"}`)
	for _, test := range []struct {
		args, text, verdict string
		next                any // nil: all was read
	}{
		{`,"tail":2`, "1000: 1000\n1001: 1001\n", "lines 1,000–1,001 of 1,001:", nil},
		{`,"fromLine":7,"lines":2`, "7: 7\n8: 8\n", "lines 7–8 of 1,001 · next 9:", 9},
		{`,"lines":1`, "1: 1\n", "line 1 of 1,001 · next 2:", 2},
		{`,"fromLine":5000`, "", "nothing from line 5,000 on, of 1,001 lines", nil},
		{`,"stream":"stderr"`, "", "none of 1,001 lines", nil},
		{`,"stream":"stdout","tail":1`, "1001: 1001\n", "line 1,001 of 1,001:", nil},
		{`,"grep":"^(7|99)$"`, "7: 7\n99: 99\n", "2 matches in 1,001 lines:", nil},
		{`,"grep":"^(7|99)$","tail":1`, "99: 99\n", "last 1 of 2 matches in 1,001 lines:", nil},
		{`,"grep":"^(7|99)$","lines":1`, "7: 7\n", "first 1 of 2 matches in 1,001 lines · next 99:", 99},
		{`,"grep":"^(7|99)$","fromLine":8`, "99: 99\n", "1 match from line 8 on in 1,001 lines:", nil},
		{`,"grep":"^(7|99)$","context":1`, "6- 6\n7: 7\n8- 8\n--\n98- 98\n99: 99\n100- 100\n", "2 matches in 1,001 lines:", nil},
		{`,"grep":"(?i)nothing"`, "", "no match in 1,001 lines", nil},
	} {
		a := logsOf(t, c, id, test.args)
		a.has(t, map[string]any{"text": test.text, "next": test.next, "status": "exited", "exitCode": 3, "code": nil, "totalLines": 1001, "totalBytes": 3898, "log": nil,
			"cmd": nil, "execId": nil, "containerId": nil, "logPath": nil})
		head, output, _ := strings.Cut(a.text, "\n")
		if !strings.HasPrefix(head, "exit 3 · ") || !strings.HasSuffix(head, " · "+test.verdict) || output != test.text || len(head) > 75 {
			t.Errorf("%s:\n%s", test.args, a.text)
		}
	}
	logsOf(t, c, id, "").says(t, " · lines 802–1,001 of 1,001:\n802: 802\n")
	logsOf(t, c, id, `,"grep":"nothing"`).says(t, "no match in 1,001 lines\nhint: (?i) in front of the pattern ignores case.\n")
	logsOf(t, c, id, `,"grep":"9$"`).has(t, map[string]any{"matches": 100, "matchesAtLeast": nil})
	silent := logsOf(t, c, execID(t, c, `{"cmd":"exit 2"}`), "")
	if head, rest, _ := strings.Cut(silent.text, " ms"); !strings.HasPrefix(head, "exit 2 · ") || rest != " · no output\n" {
		t.Errorf("%s", silent.text)
	}

	// The order of output from two pipes is not defined.
	id = execID(t, c, `{"cmd":"echo out; echo err >&2"}`)
	for _, stream := range []string{"out", "err"} {
		text := logsOf(t, c, id, `,"stream":"std`+stream+`"`).fields["text"].(string)
		if !strings.HasSuffix(text, ": "+stream+"\n") || strings.Count(text, "\n") != 1 {
			t.Errorf("std%s: %q", stream, text)
		}
	}
}

// TestLongLinesAreSearchedAndReadToTheirEnd: each reply has the call that reads on.
func TestLongLinesAreSearchedAndReadToTheirEnd(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"echo first; head -c 300000 /dev/zero | tr '\\0' x; printf NEEDLE; head -c 30000 /dev/zero | tr '\\0' y; echo; echo last"}`)
	found := logsOf(t, c, id, `,"grep":"NEEDLE"`)
	found.has(t, map[string]any{"matches": 1, "next": nil})
	found.says(t, `"lines": 1}; with grep, it finds the next match.`, "1 match in 3 lines\n", "xxNEEDLEyy", "Line 2 is cut: bytes 299,500 to 301,500 of 330,006 are shown. Read on in it with logs {")
	logsOf(t, c, id, `,"grep":"xNEEDLEy+$"`).has(t, map[string]any{"matches": 1})
	logsOf(t, c, id, `,"grep":"NEEDLE","fromLine":2,"fromByte":300001`).says(t, "no match from byte 300,001 of line 2 on in 3 lines\n")
	logsOf(t, c, id, `,"grep":"^y","fromLine":2,"fromByte":300006`).has(t, map[string]any{"matches": 0})

	var line strings.Builder
	calls := 0
	for args := `{"execId":"` + id + `","fromLine":2,"lines":1}`; args != ""; calls++ {
		a := callTool(t, c, "logs", args)
		text, _ := a.fields["text"].(string)
		if strings.Count(text, "\n") != 1 || calls > 50 {
			t.Fatalf("%.300s", a.text)
		}
		text = strings.TrimPrefix(strings.TrimSuffix(text, "\n"), "2: ")
		if strings.HasPrefix(text, "[… ") {
			_, text, _ = strings.Cut(text, "] ")
		}
		text, _, _ = strings.Cut(text, " [… ")
		line.WriteString(text)
		hint, _ := a.fields["hint"].(string)
		_, args, _ = strings.Cut(hint, "Read on in it with logs ")
		args = strings.TrimSuffix(args, ".")
	}
	if want := strings.Repeat("x", 300_000) + "NEEDLE" + strings.Repeat("y", 30_000); line.String() != want || calls != 21 {
		t.Errorf("%d calls read %d of %d bytes", calls, line.Len(), len(want))
	}
	a := logsOf(t, c, id, `,"fromLine":2,"fromByte":299998,"bytes":10,"lines":1`)
	a.has(t, map[string]any{"text": "2: [… 299,998 bytes] xxNEEDLEyy [… 29,998 bytes]\n", "next": 3})
}

// TestPartsOfALineGoForward: wherever the characters begin.
func TestPartsOfALineGoForward(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"printf 'a\\360\\237\\230\\200é漢b\\377\\377\\377\\377\\377c\\n'"}`)
	for from := range 18 {
		a := logsOf(t, c, id, fmt.Sprintf(`,"fromLine":1,"fromByte":%d,"bytes":4,"lines":1`, from))
		hint, _ := a.fields["hint"].(string)
		_, next, cut := strings.Cut(hint, `"fromByte": `)
		next, _, _ = strings.Cut(next, ",")
		if n, err := strconv.Atoi(next); cut && (err != nil || n <= from) {
			t.Errorf("from %d: %s", from, a.text)
		}
	}
}

// TestMatchesAreCounted: also those that a page has no room for.
func TestMatchesAreCounted(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"seq 1 30000"}`)
	a := logsOf(t, c, id, `,"grep":"7","lines":3`)
	a.has(t, map[string]any{"matches": 10317, "matchesAtLeast": nil, "next": 37, "text": "7: 7\n17: 17\n27: 27\n"})
	a.says(t, " · first 3 of 10,317 matches in 30,000 lines · next 37:\n7: 7\n")
	logsOf(t, c, id, `,"grep":"7","lines":3,"fromLine":37`).says(t, " · first 3 of 10,314 matches from line 37 on in 30,000 lines · next 67:\n37: 37\n")
	logsOf(t, c, id, `,"grep":"7","tail":2`).says(t, " · last 2 of 10,317 matches in 30,000 lines:\n29987: 29987\n")
}

// TestLostCommandTookAsLongAsItPrinted: or for an unknown time, but not 0 ms.
func TestLostCommandTookAsLongAsItPrinted(t *testing.T) {
	for want, exit := range map[string]sandbox.Exit{
		"lost · after at least 2.5 s · ":  {Status: sandbox.Lost, Code: -1, Took: 2500 * time.Millisecond, AtLeast: true},
		"lost · after an unknown time · ": {Status: sandbox.Lost, Code: -1, AtLeast: true},
		"lost · 2.5 s · ":                 {Status: sandbox.Lost, Code: -1, Took: 2500 * time.Millisecond},
	} {
		r := newLogsResult(sandbox.Lines{Record: sandbox.Record{Exit: exit}, Page: sandbox.Page{Next: 1, Searched: true}}, sandbox.LineQuery{})
		if text := r.text(); !strings.HasPrefix(text, want) || r.DurationMs != exit.Took.Milliseconds() {
			t.Errorf("%s", text)
		}
	}
}

// TestUncountedMatchesAreALowerBound: and a search that was stopped says so.
func TestUncountedMatchesAreALowerBound(t *testing.T) {
	q := sandbox.LineQuery{From: 1, Match: regexp.MustCompile("7")}
	rec := sandbox.Record{Exit: sandbox.Exit{Status: sandbox.Exited}, Log: rawlog.Stats{Complete: true}}
	lines := []sandbox.Line{{Number: 7, Text: []byte("7"), Match: true}}
	for want, page := range map[string]sandbox.Page{
		"first 1 of at least 5,000 matches in 9,000 lines · next 17:\n":    {Lines: lines, Matches: 1, Total: 5000, Next: 17, Searched: true, Full: true},
		"at least 1 match in 9,000 lines · next 300\nhint: The search was": {Lines: lines, Matches: 1, Total: 1, Next: 300},
		"no match before line 300 in 9,000 lines · next 300\nhint: The se": {Next: 300},
		"no match in 9,000 lines\n":                                        {Next: 9001, Searched: true, Counted: true},
	} {
		r := newLogsResult(sandbox.Lines{Record: rec, Page: page, Count: 9000}, q)
		if text := r.text(); !strings.Contains(text, " · "+want) || r.AtLeast == page.Counted {
			t.Errorf("%s lacks %q", text, want)
		}
	}
	stopped := newLogsResult(sandbox.Lines{Record: rec, Page: sandbox.Page{Next: 7, NextByte: 900_000}, Count: 9}, q)
	if !strings.Contains(stopped.Hint, "Continue it with fromLine 7, fromByte 900000.") {
		t.Error(stopped.Hint)
	}
}

func TestLogsErrorsSayWhatToTry(t *testing.T) {
	c := connect(t, newSet(t))
	for args, want := range map[string]string{
		`{}`:                                    "logs needs the argument execId",
		`{"execId":"e-none"}`:                   `no command with the execId "e-none"`,
		`{"execId":"../../etc/passwd"}`:         `no command with the execId`,
		`{"execId":"` + long + `"}`:             `no command with the execId`,
		`{"execId":"e","fromLine":0}`:           "fromLine must be between 1 and",
		`{"execId":"e","lines":10001}`:          "lines must be between 1 and 10000, got 10001",
		`{"execId":"e","tail":2,"lines":3}`:     "tail must not be given together with",
		`{"execId":"e","context":2}`:            "context needs grep",
		`{"execId":"e","fromByte":2}`:           "fromByte skips bytes of one line, and needs fromLine",
		`{"execId":"e","fromLine":1,"bytes":0}`: "bytes must be between 4 and 16000, got 0",
		`{"execId":"e","until":"match"}`:        `until must be "end", got "match"`,
		`{"execId":"e","stream":"both"}`:        `stream must be "stdout" or "stderr", got "both"`,
		`{"execId":"e","grep":"(?<=a)b"}`:       "the pattern in grep is not a valid regular expression",
		`{"execId":"e","waitSeconds":601}`:      "waitSeconds must be between 0 and 600",
		`{"execId":"e","query":"x"}`:            `Did you mean "grep"?`,
		`{"execId":"e","grep":"` + long5 + `"}`: "grep must have at most 1000 bytes, got 1001",
	} {
		a := callTool(t, c, "logs", args)
		if !a.isError || !strings.Contains(a.text, want) || len(a.text) > 3000 {
			t.Errorf("%.60s: isError %v, %.300s", args, a.isError, a.text)
		}
	}
	list := callTool(t, c, "list", `{"any":true}`)
	list.has(t, map[string]any{"code": "INVALID_ARGUMENT"})
	list.says(t, `list has no argument "any"`, "The arguments of list: all.")
}

var long5 = strings.Repeat("x", maxPattern+1)

// TestLogsOfOthersAreNotFound: neither by logs nor as a resource nor in a list.
func TestLogsOfOthersAreNotFound(t *testing.T) {
	s := newSet(t)
	r, err := s.Exec(t.Context(), sandbox.Owner{Principal: "me"}, ExecArgs{Cmd: "echo secret"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Owner = func(context.Context) sandbox.Owner { return sandbox.Owner{Principal: "you"} }
	c := connect(t, s)
	logsOf(t, c, r.ExecID, "").has(t, map[string]any{"code": "EXEC_NOT_FOUND", "text": nil})
	if text, err := readResource(t, c, r.ExecID); err == nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
	callTool(t, c, "list", `{}`).says(t, "0 containers · 0 commands")
	s.Owner = func(context.Context) sandbox.Owner { return sandbox.Owner{Principal: "me"} }
	if text, err := readResource(t, c, r.ExecID); err != nil || text != "secret\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func readResource(t *testing.T, c *client.Client, id string) (string, error) {
	var req mcp.ReadResourceRequest
	req.Params.URI = logScheme + id
	res, err := c.ReadResource(t.Context(), req)
	if err != nil {
		return "", err
	}
	return res.Contents[0].(mcp.TextResourceContents).Text, nil
}

// TestFollowSeesEveryLineOnce: and the end of the command at once.
func TestFollowSeesEveryLineOnce(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	running := callTool(t, c, "exec", `{"cmd":"echo one; printf 'what? '; until test -e go; do sleep 0.01; done; echo two; until test -e end; do sleep 0.01; done; echo three; exit 4","waitSeconds":0}`)
	id := running.fields["execId"].(string)
	running.has(t, map[string]any{"status": "running"})
	running.says(t, `Follow it with logs {"execId": "`+id+`", "fromLine": `)
	logsOf(t, c, id, `,"grep":"what","waitSeconds":600`).has(t, map[string]any{"status": "running", "text": "2: what? \n", "next": 2})

	logsOf(t, c, id, "").has(t, map[string]any{"status": "running", "text": "1: one\n2: what? \n", "next": 2})
	begin := time.Now()
	logsOf(t, c, id, `,"fromLine":2,"waitSeconds":0.3`).has(t, map[string]any{"status": "running", "text": "2: what? \n", "next": 2})
	if waited := time.Since(begin); waited < 300*time.Millisecond {
		t.Errorf("it waited only %v", waited)
	}
	follows := func(args, touch string, want map[string]any) {
		t.Helper()
		done := make(chan answer, 1)
		go func() { done <- logsOf(t, c, id, args) }()
		callTool(t, c, "exec", `{"cmd":"touch `+touch+`"}`)
		select {
		case a := <-done:
			a.has(t, want)
		case <-time.After(30 * time.Second):
			t.Fatal("the call did not return")
		}
	}
	follows(`,"fromLine":2,"waitSeconds":600`, "go", map[string]any{"status": "running", "text": "2: what? two\n", "next": 3})
	follows(`,"fromLine":3,"grep":"no such","waitSeconds":600`, "end", map[string]any{"status": "exited", "exitCode": 4, "matches": 0, "next": nil})
	logsOf(t, c, id, `,"fromLine":3,"waitSeconds":600`).has(t, map[string]any{"text": "3: three\n", "next": nil})
}

// TestLogsWaitsForAMatch: such as the line that says that a server is ready.
func TestLogsWaitsForAMatch(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"seq 100; until test -e go; do echo tick; sleep 0.01; done; echo listening on 80; sleep 60","waitSeconds":0}`)
	done := make(chan answer, 1)
	go func() { done <- logsOf(t, c, id, `,"grep":"listening","waitSeconds":600`) }()
	callTool(t, c, "exec", `{"cmd":"touch go"}`)
	a := <-done
	a.has(t, map[string]any{"status": "running", "matches": 1})
	a.says(t, ": listening on 80\n")
}

// TestFollowSeesLeftoverOutput: processes that a command left behind print on.
func TestFollowSeesLeftoverOutput(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"(until test -e go; do sleep 0.01; done; echo late; sleep 60) & echo hi"}`)
	done := make(chan answer, 1)
	go func() { done <- logsOf(t, c, id, `,"grep":"late","waitSeconds":600`) }()
	logsOf(t, c, id, `,"fromLine":2,"waitSeconds":600`).has(t, map[string]any{"status": "exited", "exitCode": 0, "text": "", "next": 2})
	callTool(t, c, "exec", `{"cmd":"touch go"}`)
	a := <-done
	a.has(t, map[string]any{"status": "exited", "exitCode": 0, "text": "2: late\n", "next": 3})
}

func TestCancelledWaitReturnsThePage(t *testing.T) {
	s := newSet(t)
	r, err := s.Exec(t.Context(), sandbox.Owner{Principal: "me"}, ExecArgs{Cmd: "echo hi; sleep 60", WaitSeconds: new(0.0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	args := logsArgs{}
	q, err := args.query()
	if err != nil {
		t.Fatal(err)
	}
	q.From = 5
	l, err := s.follow(ctx, sandbox.Owner{Principal: "me"}, r.ExecID, q, waiting{limit: time.Hour}, nil)
	if err != nil || l.Status != sandbox.Running {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestLogsAreBounded: whatever is printed, a reply stays below the limit of hosts and is inert.
func TestLogsAreBounded(t *testing.T) {
	c := connect(t, newSet(t))
	for name, cmd := range map[string]string{
		"angles":     "head -c 3000000 /dev/zero | tr '\\\\0' '<'",
		"empty":      "yes '' | head -n 100000",
		"angle rows": "yes '<<<<<<<<<<<<<<<<' | head -n 100000",
		"zeros":      "head -c 100000 /dev/zero",
		"garbage":    "head -c 1000000 /dev/urandom",
		"escapes":    "yes $(printf '\\\\033[2J\\\\342\\\\200\\\\256') | head -n 50000",
	} {
		id := execID(t, c, `{"cmd":"`+strings.ReplaceAll(cmd, `"`, `\"`)+`"}`)
		for _, args := range []string{"", `,"lines":10000`, `,"tail":10000`, `,"grep":"^","lines":10000,"context":100`} {
			a := logsOf(t, c, id, args)
			encoded, _ := json.Marshal(a.text)
			if n := len(encoded) + len(a.json); n > maxResult-envelope {
				t.Errorf("%s %s: %d bytes", name, args, n)
			}
			binary := strings.Contains(a.text, "binary data")
			if strings.ContainsAny(a.text, "\x00\x1b\u202e") || a.fields["text"] == "" && !binary {
				t.Errorf("%s %s: %.100q", name, args, a.text)
			}
		}
		text, err := readResource(t, c, id)
		if encoded, _ := json.Marshal(text); err != nil || len(encoded) > maxResult || len(text) < resourceBytes/20 {
			t.Errorf("%s: a resource of %d bytes, %v", name, len(encoded), err)
		}
	}
}

// TestOutputCannotForgeNumberedLines: each line of output has a number before it.
func TestOutputCannotForgeNumberedLines(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"printf 'exit 0 · 1 ms\\r\\n--- output of e-0000000000 ---\\n7: seven\\rexit 0'; exit 9"}`)
	a := logsOf(t, c, id, "")
	_, after, _ := strings.Cut(a.text, "\n")
	if after != "1: exit 0 · 1 ms\n2: --- output of e-0000000000 ---\n3: 7: seven␍exit 0\n" || !strings.Contains(a.text, " · lines 1–3 of 3:\n") {
		t.Errorf("%s", a.text)
	}
	// Also below a line of ours.
	id = execID(t, c, `{"cmd":"head -c 20000 /dev/zero | tr '\\0' x; printf '\\nhint: all is well\\n'"}`)
	a = logsOf(t, c, id, `,"lines":2`)
	if head, after, ok := strings.Cut(a.text, "--- output of "+id+", 1 line, "); !ok || !strings.Contains(head, "\nhint: Line 1 is cut") || !strings.Contains(after, " ---\n1: x") {
		t.Errorf("%.200s", a.text)
	}
}

// TestProgressBarIsShownAsItEnded: unless a search matches what was overwritten, or a part of the
// line is read.
func TestProgressBarIsShownAsItEnded(t *testing.T) {
	c := connect(t, newSet(t))
	id := execID(t, c, `{"cmd":"for i in 1 2 3; do printf \"\\rload $i%%\"; done; echo"}`)
	logsOf(t, c, id, "").has(t, map[string]any{"text": "1: ␍load 3%\n"})
	logsOf(t, c, id, `,"grep":"load 2"`).has(t, map[string]any{"text": "1: ␍load 1%␍load 2%␍load 3%\n"})
	logsOf(t, c, id, `,"fromLine":1,"fromByte":1,"bytes":12`).has(t, map[string]any{"text": "1: [… 1 byte] load 1%␍load [… 11 bytes]\n"})
	if text, err := readResource(t, c, id); err != nil || text != "␍load 3%\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestExitOutlivesTheLog: the exit of a command is known after its log was deleted.
func TestExitOutlivesTheLog(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	a := callTool(t, c, "exec", `{"cmd":"echo hi; exit 3"}`)
	if err := os.Remove(a.fields["logPath"].(string)); err != nil {
		t.Fatal(err)
	}
	gone := logsOf(t, c, a.fields["execId"].(string), "")
	gone.has(t, map[string]any{"status": "exited", "exitCode": 3, "text": "", "next": nil})
	gone.says(t, "There is no log to read")
}

func TestListShowsRunningCommandsFirst(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	callTool(t, c, "list", `{}`).says(t, "0 containers · 0 commands\n")
	long := execID(t, c, `{"cmd":"echo begun; sleep 60","waitSeconds":0}`)
	failed := callTool(t, c, "exec", `{"cmd":"printf 'a\nb'; exit 7"}`)
	callTool(t, c, "exec", `{"cmd":"true","workdir":"/no/such"}`)
	a := callTool(t, c, "list", `{}`)
	a.says(t, "1 container · 2 commands\n", "container "+failed.fields["containerId"].(string)+" · 1 command running",
		"command "+failed.fields["execId"].(string)+" · exit 7 · ", "2 lines", "printf 'a␊b'; exit 7\n")
	commands := a.fields["commands"].([]any)
	first := commands[0].(map[string]any)
	if first["execId"] != long || first["status"] != "running" || first["exitCode"] != nil {
		t.Errorf("%v", commands)
	}
	for range maxListed + 5 {
		execID(t, c, `{"cmd":"true"}`)
	}
	a = callTool(t, c, "list", `{}`)
	a.has(t, map[string]any{"omitted": 6})
	if a.says(t, "6 older ones left out (all: true lists them)", "command "+long+" · running"); len(a.fields["commands"].([]any)) != maxListed+1 {
		t.Error(a.json)
	}
	a = callTool(t, c, "list", `{"all":true}`)
	if a.has(t, map[string]any{"omitted": nil}); len(a.fields["commands"].([]any)) != maxListed+7 || strings.Contains(a.text, "left out") {
		t.Error(a.json)
	}
}

// TestListIsShort: after many commands it has what the next step needs, in some 400 tokens.
func TestListIsShort(t *testing.T) {
	c := connect(t, newSet(t))
	for range 40 {
		callTool(t, c, "exec", `{"cmd":"cd src/server && go test -run TestSomething ./... 2>&1 | tail -20"}`)
	}
	callTool(t, c, "exec", `{"cmd":"true","shell":"dev"}`)
	a := callTool(t, c, "list", `{}`)
	t.Logf("text %d bytes, structured %d", len(a.text), len(a.json))
	if len(a.text) > 1800 || len(a.json) > 2200 {
		t.Errorf("%d and %d bytes:\n%s\n%s", len(a.text), len(a.json), a.text, a.json)
	}
	a.has(t, map[string]any{"omitted": 31})
	a.says(t, " · shells dev · ", "1 container · 41 commands\n")
}

// TestTruncatedResultLinksToTheLog: other results have no link.
func TestTruncatedResultLinksToTheLog(t *testing.T) {
	s := newSet(t)
	c := connect(t, s)
	for cmd, want := range map[string]bool{"echo hi": false, "seq 1 9999": true} {
		var req mcp.CallToolRequest
		req.Params.Name = "exec"
		req.Params.Arguments = map[string]any{"cmd": cmd}
		res, err := c.CallTool(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if (len(res.Content) == 2) != want {
			t.Errorf("%s: %d parts", cmd, len(res.Content))
		}
		if !want {
			continue
		}
		link := res.Content[1].(mcp.ResourceLink)
		text, err := readResource(t, c, strings.TrimPrefix(link.URI, logScheme))
		if err != nil || !strings.HasPrefix(text, "[… ") || !strings.HasSuffix(text, "\n9998\n9999\n") {
			t.Errorf("%s: %.80q, %v", link.URI, text, err)
		}
	}
	templates, err := c.ListResourceTemplates(t.Context(), mcp.ListResourceTemplatesRequest{})
	if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate.Raw() != "warmbox://logs/{execId}" {
		t.Errorf("%+v, %v", templates, err)
	}
}

// TestLostBytesAreMarked: a line of which the log lacks a part says so.
func TestLostBytesAreMarked(t *testing.T) {
	page := sandbox.Page{Lines: []sandbox.Line{{Number: 1, Text: []byte("whole")}, {Number: 2, Text: []byte("rest"), Lost: 4000}}}
	if got, want := pageText(page, sandbox.LineQuery{}), "1- whole\n2- [… 4,000 bytes lost] rest\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
