package sandbox

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// The record says who it was, and nothing that lets its reader into a session.
func TestAuditNamesWho(t *testing.T) {
	for owner, want := range map[string]string{
		"token:1SECRET.KJ3F2SECRET":      `"msg":"start","owner":"alice","session":"` + ownerMark("token:1SECRET.KJ3F2SECRET") + `","box":"b"}`,
		"token:1SECRET":                  `"msg":"start","owner":"alice","session":"` + ownerMark("token:1SECRET") + `","box":"b"}`,
		"token:2SECRET.client-0f2SECRET": `"msg":"start","owner":"j.doe","session":"` + ownerMark("token:2SECRET.client-0f2SECRET") + `","box":"b"}`,
		"token:3SECRET.KJ3F2SECRET":      `"msg":"start","session":"` + ownerMark("token:3SECRET.KJ3F2SECRET") + `","box":"b"}`,
		"local":                          `"msg":"start","session":"` + ownerMark("local") + `","box":"b"}`,
		".SECRET":                        `"msg":"start","session":"` + ownerMark(".SECRET") + `","box":"b"}`,
	} {
		var record bytes.Buffer
		a := &audit{slog.New(slog.NewJSONHandler(&record, nil)), strings.Clone, map[string]string{"token:1SECRET": "alice", "token:2SECRET": "j.doe"}}
		a.note("start", owner, "box", "b")
		if got := record.String(); !strings.Contains(got, want) || strings.Contains(got, "SECRET") {
			t.Errorf("%s: %s", owner, got)
		}
	}
}
