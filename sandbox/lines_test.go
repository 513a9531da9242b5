package sandbox_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/redact"
)

func TestTextLeavesTheManagerMasked(t *testing.T) {
	const secret = "kP9vWx3LmQ8sTz4RbN7yHc2D"
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	m.Secrets = &redact.Redactor{Values: []string{secret}}
	record := ran(t, m, me, "echo one; echo "+secret)
	box, _, err := m.Start(t.Context(), me, sandbox.Request{Name: secret})
	if err != nil {
		t.Fatal(err)
	}
	lines := func(q sandbox.LineQuery) sandbox.Lines {
		l, err := m.Lines(t.Context(), me, record.ID, q)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	all := lines(sandbox.LineQuery{From: 1, Most: 10, Bytes: 1000})
	if len(all.Page.Lines) != 2 || all.Count != 2 || all.Bytes != int64(len("one\n"+secret+"\n")) || all.Missing {
		t.Fatalf("%+v", all)
	}
	for name, text := range map[string]string{
		"a line":      string(all.Page.Lines[1].Text),
		"its record":  all.Record.Cmd,
		"Record":      record.Cmd,
		"Records":     m.Records(me)[0].Cmd,
		"Describe":    box.Describe().Name,
		"Mask":        m.Mask(secret),
		"the summary": m.Summary(t.Context(), me, record.ID) + "‹secret›",
	} {
		if strings.Contains(text, secret) || !strings.Contains(text, "‹secret›") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if found := lines(sandbox.LineQuery{From: 1, Most: 10, Bytes: 1000, Match: regexp.MustCompile(secret[:4])}); found.Page.Matches != 0 {
		t.Errorf("a search finds part of a secret: %+v", found.Page)
	}
	if text, err := os.ReadFile(record.LogPath); err != nil || !strings.Contains(string(text), secret) {
		t.Errorf("the raw log is masked too: %q, %v", text, err)
	}
}

func TestLinesOfOthersAndOfDeletedLogs(t *testing.T) {
	m := boxtest.Manager(t, boxtest.Agent(t), sandbox.Spec{})
	record := ran(t, m, me, "echo hi; exit 3")
	_, err := m.Lines(t.Context(), you, record.ID, sandbox.LineQuery{Most: 1, Bytes: 100})
	if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Code != sandbox.ExecNotFound {
		t.Errorf("another owner: %v", err)
	}
	if err := os.Remove(record.LogPath); err != nil {
		t.Fatal(err)
	}
	l, err := m.Lines(t.Context(), me, record.ID, sandbox.LineQuery{Most: 1, Bytes: 100})
	if err != nil || !l.Missing || l.Record.Exit.Code != 3 || l.Page.Next != 1 || !l.Page.Searched {
		t.Errorf("a deleted log: %+v, %v", l, err)
	}
}
