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

// reply returns a result in both forms.
func reply(structured any, text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.NewTextContent(text)},
		StructuredContent: structured,
	}
}

// A Failure is the result of a call that did nothing.
type Failure struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	Hint  string `json:"hint,omitempty"`
	news
}

// maxSentence bounds the error of a Failure, which may repeat an argument: some hosts cut longer
// texts, and with them the hint.
const maxSentence = 4000

// Failed returns the result of a call that did nothing. It is not an error of the protocol,
// since the model can correct the call.
func Failed(err error) *mcp.CallToolResult {
	f := FailureOf(err)
	r := reply(f, f.text())
	r.IsError = true
	return r
}

// FailureOf returns the Failure of an error.
func FailureOf(err error) Failure {
	f := Failure{Error: err.Error(), Code: sandbox.Internal}
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		f.Code, f.Hint = e.Code, e.Hint
	}
	f.Error = excerpt.Inert([]byte(excerpt.Clip(f.Error, maxSentence)))
	return f
}

// Outcome returns the labels of a result for metrics: "ok" or its code, and the author of its
// summary, "" without one.
func Outcome(r *mcp.CallToolResult) (code, summaryBy string) {
	if r == nil {
		return sandbox.Internal, ""
	}
	switch result := r.StructuredContent.(type) {
	case Failure:
		code = result.Code
	case ExecResult:
		code, summaryBy = result.Code, result.author
		if code == "" && result.failed() {
			code = execFailed
		}
	}
	return cmp.Or(code, "ok"), summaryBy
}

// text renders the failure as text.
func (f Failure) text() string {
	lines := []string{f.Error}
	if f.Hint != "" {
		lines = append(lines, "hint: "+f.Hint)
	}
	return strings.Join(append(lines, "code: "+f.Code), "\n")
}

// took renders a duration for people.
func took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	if d >= 100*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// exitCode returns the exit code of a command that ended by itself, else nil.
func exitCode(e sandbox.Exit) *int {
	if (e.Status == sandbox.Exited || e.Status == sandbox.OOM) && e.Code >= 0 {
		return new(e.Code)
	}
	return nil
}

// ending renders the state of a command: "exit 1", "exit 139 (SIGSEGV)", "timeout (SIGTERM)".
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

// oneLine renders untrusted text as one inert line of at most so many characters.
func oneLine(s string, most int) string {
	return excerpt.ClipRunes(strings.NewReplacer("\n", "␊", "\t", "␉").Replace(excerpt.Inert([]byte(s))), most)
}

// seconds converts an argument to a duration.
func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// fact writes a line of the text form, if it has a value.
func fact(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "%s: %s\n", name, value)
	}
}
