package tools

import (
	"context"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

// A Form says which of its two forms a reply has whole. The other one is short, but true.
type Form string

const (
	FormBoth       Form = "both"
	FormText       Form = "text"       // structured content has the fields that its schema requires
	FormStructured Form = "structured" // the text is the verdict, in one line
)

// Hosts has, by the name that a host gives itself, the form that it shows its model, or of two the
// one that costs less, from the first version that was tried on. Older versions and all other hosts
// get both forms whole, since a model may see either. server/testdata/hosts has what models see.
var hosts = map[string]struct {
	form  Form
	since string
}{
	"claude-code":           {FormStructured, "2.1.330"},
	"codex-mcp-client":      {FormStructured, "0.169.0"},
	"copilot-cli":           {FormText, "1.0.102"}, // shows both
	"gemini-cli-mcp-client": {FormText, "0.61.0"},
	"opencode":              {FormText, "1.18.33"},
}

// form returns the form of the replies to a client.
func (s *Set) form(ctx context.Context) Form {
	if s.Replies != "" {
		return s.Replies
	}
	session, ok := mcpserver.ClientSessionFromContext(ctx).(mcpserver.SessionWithClientInfo)
	if !ok {
		return FormBoth
	}
	client := session.GetClientInfo()
	host, known := hosts[client.Name]
	if !known || !atLeast(client.Version, host.since) {
		return FormBoth
	}
	return host.form
}

// atLeast reports whether a version such as "2.1.330" is that of least or a later one. It is false
// for what is not a version.
func atLeast(version, least string) bool {
	for least != "" {
		var v, l string
		v, version, _ = strings.Cut(version, ".")
		l, least, _ = strings.Cut(least, ".")
		n, err := strconv.ParseUint(v, 10, 32)
		m, _ := strconv.ParseUint(l, 10, 32)
		if err != nil || n != m {
			return err == nil && n > m
		}
	}
	return true
}

// A shortener is a result with short forms.
type shortener interface {
	line() string // the verdict
	short() any   // the required fields, and those without which they would not be true
}

// shape shortens the form of a reply that the model of its client does not need. Hosts show a link
// to a log beside either form, where the hint already says how to read it.
func (s *Set) shape(ctx context.Context, res *mcp.CallToolResult) {
	form := s.form(ctx)
	if form == FormBoth {
		return
	}
	res.Content = res.Content[:1]
	switch r := res.StructuredContent.(type) {
	case Failure:
		if form == FormText {
			res.StructuredContent = Failure{Error: r.Error, Code: r.Code}
		} // else both stay whole: hosts that show structured content show the text of an error
	case shortener:
		if form == FormText {
			res.StructuredContent = r.short()
		} else {
			res.Content[0] = mcp.NewTextContent(r.line())
		}
	}
}

// elsewhere ends a line whose result has more, for a reader who is shown only the text.
const elsewhere = " (in structuredContent)"

func (r ExecResult) line() string {
	s := r.ended() + " · " + r.extent()
	if r.Stdout != "" || r.Stderr != "" {
		s += elsewhere
	}
	return s
}

// short keeps what Outcome needs.
func (r ExecResult) short() any {
	return ExecResult{
		Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal, Code: r.Code, Summary: r.shortSummary(), DurationMs: r.DurationMs,
		ContainerID: r.ContainerID, ExecID: r.ExecID, ShownOutput: ShownOutput{Truncated: r.Truncated}, author: r.author,
	}
}

func (r logsResult) line() string {
	s := ending(r.Status, r.ExitCode, r.Signal) + " · " + r.extent()
	if r.Text != "" {
		s += elsewhere
	}
	return s
}

func (r logsResult) short() any {
	return struct {
		Status   sandbox.Status `json:"status"`
		ExitCode *int           `json:"exitCode,omitempty"`
		Signal   string         `json:"signal,omitempty"`
		Next     int64          `json:"next,omitempty"`
		Text     string         `json:"text"`
	}{r.Status, r.ExitCode, r.Signal, r.Next, ""}
}

func (r startResult) line() string { return r.Status + " · containerId " + r.ContainerID }

func (r startResult) short() any {
	return struct {
		ContainerID string `json:"containerId"`
		Status      string `json:"status"`
	}{r.ContainerID, r.Status}
}

func (r stopResult) line() string { return firstLine(r.text()) }

func (r stopResult) short() any {
	return struct {
		ExecID      string `json:"execId,omitempty"`
		ContainerID string `json:"containerId"`
		Status      string `json:"status"`
		ExitCode    *int   `json:"exitCode,omitempty"`
		Signal      string `json:"signal,omitempty"`
	}{r.ExecID, r.ContainerID, r.Status, r.ExitCode, r.Signal}
}

func (r listResult) line() string { return firstLine(r.text()) + elsewhere }

// short names what the list has: an empty list would say that there is nothing.
func (r listResult) short() any {
	type container struct {
		ContainerID string `json:"containerId"`
	}
	type command struct {
		ExecID string         `json:"execId"`
		Status sandbox.Status `json:"status"`
	}
	s := struct {
		Containers []container `json:"containers"`
		Commands   []command   `json:"commands"`
		Omitted    int         `json:"omitted,omitempty"`
	}{[]container{}, []command{}, r.Omitted}
	for _, c := range r.Containers {
		s.Containers = append(s.Containers, container{c.ContainerID})
	}
	for _, c := range r.Commands {
		s.Commands = append(s.Commands, command{c.ExecID, c.Status})
	}
	return s
}

// firstLine returns the first line of a text, without its end.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
