package sandbox

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lineAudit returns an audit in the line form, whose record has one time, and its text.
func lineAudit() (*audit, *bytes.Buffer) {
	var text bytes.Buffer
	return &audit{log: slog.New(NewAuditLines(&text)), mask: strings.Clone, command: strings.Clone, names: map[string]string{"token:1": "alice"}, lines: true}, &text
}

// parseLine takes a line of the audit apart, as a reader does. Its pairs are unescaped.
func parseLine(t *testing.T, line string) (fields []string, pairs map[string]string) {
	t.Helper()
	line, ok := strings.CutSuffix(line, "\n")
	fields = strings.Split(line, "|")
	if !ok || strings.Contains(line, "\n") || len(fields) != 6 {
		t.Fatalf("%d fields: %q", len(fields), line)
	}
	unescape := func(s string) string {
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return text
	}
	pairs = map[string]string{}
	for pair := range strings.SplitSeq(fields[5], ",") {
		if key, value, ok := strings.Cut(pair, ":"); ok {
			pairs[unescape(key)] = unescape(value)
		}
	}
	for i := range fields {
		fields[i] = unescape(fields[i])
	}
	return fields, pairs
}

// TestAuditLineOfEachEvent: each event of the JSON form has a line, which begins as those of
// the guide do.
func TestAuditLineOfEachEvent(t *testing.T) {
	owner := Owner{Principal: "token:1", Session: "s"}
	box := &Box{ID: "b-1", Name: "one", owner: owner, Place: Place{Image: "img:1"}, Started: time.Now()}
	run := &Run{ID: "e-1", Box: box, Command: Command{Cmd: "go test ./... | tail"}}
	exit := func(e Exit) func(*audit) { return func(a *audit) { a.ended(run, e) } }
	const took = 1234567 * time.Microsecond
	for name, tt := range map[string]struct {
		write func(*audit)
		want  string // after the time and the session
	}{
		"start":        {func(a *audit) { a.started(owner, Request{}, box, nil) }, "start|img:1|success|owner:alice,box:b-1,name:one"},
		"denied image": {func(a *audit) { a.started(owner, Request{Image: "x|y"}, nil, Errorf(ImageDenied, "", "x|y, no")) }, `start|x\x7cy|failed|IMAGE_DENIED: x\x7cy\x2c no,owner:alice`},
		"exec":         {func(a *audit) { a.asked(box, run.Command, run, nil) }, `exec|go test ./... \x7c tail|started|owner:alice,box:b-1,exec:e-1`},
		"in a shell":   {func(a *audit) { a.asked(box, Command{Cmd: "ls", Dir: "a,b", Shell: "s"}, run, nil) }, `exec|ls|started|owner:alice,box:b-1,exec:e-1,workdir:a\x2cb,shell:s`},
		"denied command": {
			func(a *audit) {
				a.asked(box, Command{Cmd: "rm -rf /"}, nil, Errorf(ExecValidation, "", "command not in whitelist: rm"))
			},
			"exec|rm -rf /|failed|EXEC_VALIDATION: command not in whitelist: rm,owner:alice,box:b-1",
		},
		"exit 0":  {exit(Exit{Status: Exited, Took: took}), `exec|go test ./... \x7c tail|success|exit_code:0,duration:1.235s,owner:alice,box:b-1,exec:e-1`},
		"exit 3":  {exit(Exit{Status: Exited, Code: 3, Took: took}), `exec|go test ./... \x7c tail|failed|exit_code:3,duration:1.235s,owner:alice,box:b-1,exec:e-1`},
		"timeout": {exit(Exit{Status: TimedOut, Code: -1, Signal: "SIGTERM", Took: took}), `exec|go test ./... \x7c tail|failed|duration:1.235s,status:timeout,owner:alice,box:b-1,exec:e-1,signal:SIGTERM`},
		"lost":    {exit(Exit{Status: Lost, Code: -1, Err: errors.New("the box\nis gone")}), `exec|go test ./... \x7c tail|failed|duration:0.000s,status:lost,why:the box\nis gone,owner:alice,box:b-1,exec:e-1`},
	} {
		t.Run(name, func(t *testing.T) {
			a, text := lineAudit()
			tt.write(a)
			fields, _ := parseLine(t, text.String())
			if written, err := time.Parse("2006-01-02T15:04:05Z", fields[0]); err != nil || time.Since(written).Abs() > time.Hour {
				t.Errorf("time %q: %v", fields[0], err)
			}
			want := fields[0] + "|session:" + owner.mark() + "|" + tt.want + "\n"
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
	a, text := lineAudit()
	a.stopped(box)
	if fields, pairs := parseLine(t, text.String()); fields[2] != "stop" || fields[4] != "success" || pairs["box"] != "b-1" || pairs["after"] == "" {
		t.Errorf("stop: %q", text)
	}
	// The record of an event that these lines do not know has its values too.
	a, text = lineAudit()
	a.write("programs", owner, "box", "b-1", "count", 2)
	if fields, pairs := parseLine(t, text.String()); fields[2] != "programs" || pairs["count"] != "2" {
		t.Errorf("another event: %q", text)
	}
}

// FuzzAuditLine: no text adds a line, a field or a pair, and all of it can be read back.
func FuzzAuditLine(f *testing.F) {
	for _, s := range []string{"", "go test", "a|b", "a\nb", `a\b\x7c`, "a,b:c", "\xff|\xfe", "\x00\x1b[2K\r", "\u202e\u2028", `"'`, "é世界\U0001f600", "\ufffd"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, cmd, dir, shell string) {
		owner := Owner{Principal: "p"}
		a, text := lineAudit()
		a.asked(&Box{ID: "b-1", owner: owner}, Command{Cmd: cmd, Dir: dir, Shell: shell}, &Run{ID: "e-1"}, nil)
		fields, pairs := parseLine(t, text.String())
		if fields[1] != "session:"+owner.mark() || fields[2] != "exec" || fields[3] != cmd || fields[4] != "started" {
			t.Errorf("%q", fields)
		}
		want := map[string]string{"box": "b-1", "exec": "e-1"}
		if dir != "" {
			want["workdir"] = dir
		}
		if shell != "" {
			want["shell"] = shell
		}
		if diff := cmp.Diff(want, pairs); diff != "" {
			t.Error(diff)
		}
		for _, r := range text.String()[:text.Len()-1] {
			if !strconv.IsPrint(r) {
				t.Errorf("%q is not printable: %q", r, text)
			}
		}
	})
}
