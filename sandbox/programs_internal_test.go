package sandbox

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// TestAuditRecordsPrograms: the audit record has each program, in both forms, with secrets
// masked and without a line of its own making.
func TestAuditRecordsPrograms(t *testing.T) {
	box := &Box{ID: "b-1", owner: Owner{Principal: "token:1", Session: "s"}, shared: &shared{}}
	run := &Run{ID: "e-1", Box: box}
	code := 3
	for name, tt := range map[string]struct {
		program    wire.Program
		json, line string
	}{
		"ended": {
			wire.Program{Seq: 2, Pid: 7, Parent: 1, Path: "/bin/x|y", Args: []string{"x", "--password=hunter2SECRET", "a\nb"}, More: 5, Exit: &code},
			`"number":2,"began":"T","pid":7,"parent":1,"path":"/bin/x|y","args":["x","--password=‹password›","a\nb"],"moreArgs":5,"code":3}`,
			`|program|/bin/x\x7cy|failed|exit_code:3,box:b-1,exec:e-1,number:2,began:T,pid:7,parent:1,args:["x" "--password=‹password›" "a\\nb"],moreArgs:5`,
		},
		"runs": {
			wire.Program{Seq: 3, Pid: 8, Path: "/bin/sleep", Unsure: true},
			`"number":3,"began":"T","pid":8,"parent":0,"path":"/bin/sleep","args":null,"unsure":true}`,
			`|program|/bin/sleep|started|box:b-1,exec:e-1,number:3,began:T,pid:8,parent:0,args:[],unsure:true`,
		},
		"end": {
			wire.Program{Seq: 3, End: true, Exit: new(int)},
			`"msg":"programEnd","session":"` + box.owner.mark() + `","box":"b-1","exec":"e-1","number":3,"code":0}`,
			`|programEnd||success|exit_code:0,box:b-1,exec:e-1,number:3`,
		},
		"named end": {
			wire.Program{Seq: 3, End: true, Path: "/bin/sleep", Exit: new(int)},
			`"msg":"programEnd","session":"` + box.owner.mark() + `","box":"b-1","exec":"e-1","number":3,"path":"/bin/sleep","code":0}`,
			`|programEnd|/bin/sleep|success|exit_code:0,box:b-1,exec:e-1,number:3`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var record bytes.Buffer
			json := &audit{log: slog.New(slog.NewJSONHandler(&record, nil)), mask: strings.Clone, command: strings.Clone}
			json.executed(box, run, tt.program)
			lines, text := lineAudit()
			lines.names = nil
			lines.executed(box, run, tt.program)
			if got := timeless(record.String()); !strings.HasSuffix(got, tt.json+"\n") {
				t.Errorf("%s want %s", got, tt.json)
			}
			if got := timeless(text.String()); !strings.HasSuffix(got, tt.line+"\n") || strings.Count(got, "\n") != 1 {
				t.Errorf("%s want %s", got, tt.line)
			}
		})
	}
}

// timeless replaces the time at which a program began.
func timeless(line string) string {
	for _, from := range []string{`"began":"`, "began:"} {
		if before, after, ok := strings.Cut(line, from); ok {
			return before + from + "T" + after[strings.IndexAny(after, `",`):]
		}
	}
	return line
}

// TestProgramTimesCountFromTheStart: a record is of the time at which the call began, by the
// clock of this program.
func TestProgramTimesCountFromTheStart(t *testing.T) {
	now := time.Now()
	r := &Run{Started: now.Add(-time.Minute), resumed: nil}
	if got := r.beganAt(); !got.Equal(r.Started) {
		t.Errorf("%v", got)
	}
	r.resumed = &resumption{began: now.Add(-time.Hour)}
	if got := r.beganAt(); !got.Equal(r.resumed.began) {
		t.Errorf("%v", got)
	}
}
