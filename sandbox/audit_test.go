package sandbox

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox/policy"
)

// TestAuditNamesWho: the record names principals, and nothing by which its reader could use a
// session.
func TestAuditNamesWho(t *testing.T) {
	for owner, want := range map[Owner]string{
		{"token:1SECRET", "KJ3F2SECRET"}:      `"msg":"start","owner":"alice","session":"` + Owner{"token:1SECRET", "KJ3F2SECRET"}.mark() + `","box":"b"}`,
		{"token:1SECRET", ""}:                 `"msg":"start","owner":"alice","session":"` + Owner{"token:1SECRET", ""}.mark() + `","box":"b"}`,
		{"token:2SECRET", "client-0f2SECRET"}: `"msg":"start","owner":"j.doe","session":"` + Owner{"token:2SECRET", "client-0f2SECRET"}.mark() + `","box":"b"}`,
		{"token:3SECRET", "KJ3F2SECRET"}:      `"msg":"start","session":"` + Owner{"token:3SECRET", "KJ3F2SECRET"}.mark() + `","box":"b"}`,
		{"local", ""}:                         `"msg":"start","session":"` + Owner{"local", ""}.mark() + `","box":"b"}`,
		{"", "SECRET"}:                        `"msg":"start","session":"` + Owner{"", "SECRET"}.mark() + `","box":"b"}`,
	} {
		var record bytes.Buffer
		a := &audit{log: slog.New(slog.NewJSONHandler(&record, nil)), mask: strings.Clone, command: strings.Clone, names: map[string]string{"token:1SECRET": "alice", "token:2SECRET": "j.doe"}}
		a.write("start", owner, "box", "b")
		if got := record.String(); !strings.Contains(got, want) || strings.Contains(got, "SECRET") {
			t.Errorf("%v: %s", owner, got)
		}
	}
}

// TestAuditTellsManagersApart: two processes with one owner and one file have sessions of their
// own, in both forms, and the records of one have the same.
func TestAuditTellsManagersApart(t *testing.T) {
	var text, object bytes.Buffer
	session := regexp.MustCompile(`session"?:"?(` + Owner{}.mark() + `-[0-9a-f]{8})["|]`)
	for _, log := range []*slog.Logger{slog.New(NewAuditLines(&text)), slog.New(slog.NewJSONHandler(&object, nil))} {
		for range 2 {
			m := &Manager{Commands: policy.Commands{Allow: []string{"ls"}}, Audit: log}
			for range 2 {
				if err := m.Check(Owner{}, Command{Cmd: "rm x"}); err == nil {
					t.Error("rm was allowed")
				}
			}
			if _, _, err := m.Start(t.Context(), Owner{}, Request{Image: "no/such:image"}); err == nil {
				t.Error("the image was allowed")
			}
		}
	}
	for _, record := range []string{text.String(), object.String()} {
		of := map[string]int{}
		for _, match := range session.FindAllStringSubmatch(record, -1) {
			of[match[1]]++
		}
		if len(of) != 2 || slices.Max(slices.Collect(maps.Values(of))) != 3 {
			t.Errorf("sessions %v in\n%s", of, record)
		}
	}
	for line := range strings.Lines(text.String()) {
		if strings.Count(line, "|") != 5 {
			t.Errorf("%q has not six fields", line)
		}
	}
}

// TestCheckNeedsNoBox: a command that no box may run is refused, and recorded, without one.
func TestCheckNeedsNoBox(t *testing.T) {
	var record bytes.Buffer
	m := &Manager{Commands: policy.Commands{Allow: []string{"ls"}}, Audit: slog.New(slog.NewJSONHandler(&record, nil))}
	for cmd, code := range map[string]string{"rm -rf /": ExecValidation, "": InvalidArgument, "a\x00": InvalidArgument, "ls": ""} {
		record.Reset()
		err := m.Check(Owner{}, Command{Cmd: cmd})
		if e, _ := errors.AsType[*Error](err); (err == nil) != (code == "") || err != nil && e.Code != code {
			t.Errorf("%q: %v, want %q", cmd, err, code)
		}
		denied := strings.Contains(record.String(), `"msg":"denied","session":"`+Owner{}.mark()+"-"+m.share().audit.manager+`","cmd":"rm -rf /","why":"command not in whitelist: rm"}`)
		if denied != (code == ExecValidation) || !denied && record.Len() > 0 {
			t.Errorf("%q: the record is %q", cmd, record.String())
		}
	}
}

// TestAuditMasksSecretOptions: the command line is masked like the arguments of its programs.
func TestAuditMasksSecretOptions(t *testing.T) {
	var record bytes.Buffer
	m := &Manager{Commands: policy.Commands{Allow: []string{"ls"}}, Audit: slog.New(slog.NewJSONHandler(&record, nil))}
	m.Check(Owner{}, Command{Cmd: "tool --password correcthorse 2>&1"})
	if !strings.Contains(record.String(), `"cmd":"tool --password ‹password› 2>&1"`) {
		t.Errorf("the record is %q", record.String())
	}
}
