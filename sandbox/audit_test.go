package sandbox

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
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
		a := &audit{log: slog.New(slog.NewJSONHandler(&record, nil)), mask: strings.Clone, names: map[string]string{"token:1SECRET": "alice", "token:2SECRET": "j.doe"}}
		a.write("start", owner, "box", "b")
		if got := record.String(); !strings.Contains(got, want) || strings.Contains(got, "SECRET") {
			t.Errorf("%v: %s", owner, got)
		}
	}
}
