package sandbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// AuditLines writes the audit record as lines of six fields. It is the handler of a
// Manager.Audit:
//
//	2025-12-15T10:30:46Z|session:9f8e7d6c5b4a3f2e-7c1d04ea|exec|go test|success|exit_code:0,duration:1.234s,box:b-k7fq3m9x2d,exec:e-2d9x3mk7fq
//
// The fields are the time in UTC, the marks of the session and of the Manager, the event, what it is about (a
// command, or the image of a box), the result, and pairs of a key and a value. Of a command
// there is a line with the result "started", and one with "success" or "failed" at its end;
// of a denied one there is a line with "failed", which begins its pairs with the code and the
// reason.
//
// No value can add a line, a field or a pair: a backslash, a vertical bar and what is not
// printable is written as an escape of Go (\\, \x7c, \n), and a comma in a value of a pair as
// \x2c. Each line is one Write.
type AuditLines struct {
	mu sync.Mutex
	w  io.Writer
}

// NewAuditLines returns AuditLines on w.
func NewAuditLines(w io.Writer) *AuditLines { return &AuditLines{w: w} }

// Enabled reports that every record is written.
func (*AuditLines) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns the handler itself: records of the audit bring all that they say.
func (h *AuditLines) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup returns the handler itself: records of the audit have no groups.
func (h *AuditLines) WithGroup(string) slog.Handler { return h }

// Handle writes a record as a line.
func (h *AuditLines) Handle(_ context.Context, r slog.Record) error {
	line := newAuditLine(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, line.String())
	return err
}

// An auditLine is a record of the audit, taken apart.
type auditLine struct {
	time                     time.Time
	session, event, on, done string
	pairs                    []string
}

func newAuditLine(r slog.Record) auditLine {
	l := auditLine{time: r.Time, event: r.Message, done: "success"}
	values := map[string]string{}
	var rest []string // keys of further values
	r.Attrs(func(a slog.Attr) bool {
		if values[a.Key] = a.Value.String(); !lineField[a.Key] {
			rest = append(rest, a.Key)
		}
		return true
	})
	l.session, l.on = values["session"], values["cmd"]
	switch r.Message {
	case "exec":
		l.done = "started"
	case "exit":
		l.ended(values)
	case "denied":
		l.denied(values)
	case "start":
		l.on = values["image"]
	case "program", "programEnd":
		l.program(values)
	}
	for _, key := range rest {
		l.pair(key, values[key])
	}
	return l
}

// lineField are the attributes that do not become pairs of their own name.
var lineField = map[string]bool{
	"session": true, "cmd": true, "image": true, "code": true, "took": true, "status": true, "denial": true, "why": true,
	"path": true,
}

// program says what a program is and how it ended, if that is known.
func (l *auditLine) program(v map[string]string) {
	l.on, l.done = v["path"], "started"
	switch {
	case v["failed"] != "" || v["denied"] != "" || v["code"] != "" && v["code"] != "0":
		l.done = "failed"
	case v["code"] != "":
		l.done = "success"
	}
	l.pair("exit_code", v["code"])
}

func (l *auditLine) ended(v map[string]string) {
	l.event = "exec"
	if v["status"] != string(Exited) || v["code"] != "0" {
		l.done = "failed"
	}
	if v["code"] != "-1" {
		l.pair("exit_code", v["code"])
	}
	if took, err := time.ParseDuration(v["took"]); err == nil {
		l.pair("duration", fmt.Sprintf("%.3fs", took.Seconds()))
	}
	if v["status"] != string(Exited) {
		l.pair("status", v["status"])
	}
	l.pair("why", v["why"])
}

func (l *auditLine) denied(v map[string]string) {
	l.event, l.done = "exec", "failed"
	if l.on == "" {
		l.event, l.on = "start", v["image"]
	}
	l.pair(v["denial"], " "+v["why"])
}

// pair adds a key and its value, if it has one.
func (l *auditLine) pair(key, value string) {
	if value != "" {
		l.pairs = append(l.pairs, escapeField(key, ",:")+":"+escapeField(value, ","))
	}
}

func (l auditLine) String() string {
	return strings.Join([]string{
		l.time.UTC().Format(time.RFC3339), "session:" + escapeField(l.session, ""), escapeField(l.event, ""),
		escapeField(l.on, ""), l.done, strings.Join(l.pairs, ","),
	}, "|") + "\n"
}

// escapeField makes text one field, or a part of one in which the given characters separate.
func escapeField(text, separators string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1, r == '|', strings.ContainsRune(separators, r):
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\\', !strconv.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		text = text[n:]
	}
	return b.String()
}
