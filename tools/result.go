package tools

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// reply answers a call with both of its forms.
func reply(structured any, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.NewTextContent(text)},
		StructuredContent: structured,
	}
}

// A Failure is what comes of a call that did nothing.
type Failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	Hint  string `json:"hint,omitempty"`
}

// maxSentence bounds the text of a failure: some hosts cut what is longer, and
// with it the hint. A sentence may repeat what the caller gave.
const maxSentence = 4000

// Failed answers a call that did nothing. It is a result and not an error of
// the protocol, for the model is the one who can put it right.
func Failed(err error) *mcp.CallToolResult {
	f := FailureOf(err)
	r := reply(f, f.text())
	r.IsError = true
	return r
}

// FailureOf tells of an error what there is to tell a caller.
func FailureOf(err error) Failure {
	f := Failure{Error: err.Error(), Code: sandbox.Internal}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		f.Code, f.Hint = e.Code, e.Hint
	}
	f.Error = excerpt.Inert([]byte(excerpt.Clip(f.Error, maxSentence)))
	return f
}

// Outcome tells of a result of one of the tools what to count it under: "ok" or
// its code, and who made its summary, "" where it has none.
func Outcome(r *mcp.CallToolResult) (code, summaryBy string) {
	if r == nil {
		return sandbox.Internal, ""
	}
	switch told := r.StructuredContent.(type) {
	case Failure:
		code = told.Code
	case ExecResult:
		code, summaryBy = told.Code, told.SummaryBy
	}
	return cmp.Or(code, "ok"), summaryBy
}

func (f Failure) text() string {
	lines := []string{f.Error}
	if f.Hint != "" {
		lines = append(lines, "hint: "+f.Hint)
	}
	return strings.Join(append(lines, "code: "+f.Code), "\n")
}

// took renders a duration as a person reads it.
func took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// exitCode is the code of a command that ended by itself, nil of any other.
func exitCode(e sandbox.Exit) *int {
	if (e.Status == sandbox.Exited || e.Status == sandbox.OOM) && e.Code >= 0 {
		return new(e.Code)
	}
	return nil
}

// ending is how a command stands in a word or three: "exit 1", "exit 139
// (SIGSEGV)", "timeout (SIGTERM)".
func ending(status sandbox.Status, code *int, signal string) string {
	s := string(status)
	if code != nil {
		s = strings.TrimPrefix(fmt.Sprintf("%s, exit %d", s, *code), "exited, ")
	}
	if signal != "" {
		s += " (" + signal + ")"
	}
	return s
}

// oneLine renders a stranger's words as one line that does nothing, of so many
// characters at most.
func oneLine(s string, most int) string {
	return excerpt.ClipRunes(strings.NewReplacer("\n", "␊", "\t", "␉").Replace(excerpt.Inert([]byte(s))), most)
}

// seconds turns an argument into a duration.
func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// fact is one line of a text, left out where there is nothing to say.
func fact(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s: %s\n", name, value)
	}
}
