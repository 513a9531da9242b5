package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// logScheme begins the URI of a log.
const logScheme = "warmbox://logs/"

// resourceBytes bounds the text of a log as a resource. As JSON it stays below maxResult,
// whatever it consists of.
const resourceBytes = 32_000

// sinceLinks is the protocol version that introduced links in results. A client of an older
// version may refuse the whole result for one.
const sinceLinks = "2025-06-18"

// Resources returns the resources that a client can read: the logs of its commands.
func (s *Set) Resources() []mcpserver.ServerResourceTemplate {
	return []mcpserver.ServerResourceTemplate{{
		Template: mcp.NewResourceTemplate(logScheme+"{execId}", "log",
			mcp.WithTemplateTitle("Output of a command"),
			mcp.WithTemplateDescription("What a command printed, both streams in order; of a long output the end. The tool logs reads any part of it."),
			mcp.WithTemplateMIMEType("text/plain")),
		Handler: s.readLog,
	}}
}

// readLog returns the end of a log.
func (s *Set) readLog(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	id := clip(strings.TrimPrefix(req.Params.URI, logScheme))
	// Each line has a cost besides its bytes, so the limit of lines never counts.
	owner := s.owner(ctx)
	var v sandbox.Lines
	err := s.whenReattached(ctx, owner, func() (err error) {
		v, err = s.lines(ctx, owner, id, sandbox.LineQuery{Most: resourceBytes, Bytes: resourceBytes})
		return err
	})
	if err != nil {
		return nil, err
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: req.Params.URI, MIMEType: "text/plain", Text: endText(v)}}, nil
}

// endText renders the end of a log as it was printed, below a line of ours if that is not the
// whole log.
func endText(v sandbox.Lines) string {
	var b strings.Builder
	for i, l := range v.Page.Lines {
		if i == 0 && (l.Number > 1 || l.Omitted > 0) {
			fmt.Fprintf(&b, "[… %s of %s come before; the tool logs reads them …]\n", excerpt.Count(l.Number-1, "line"), excerpt.Count(v.Count, "line"))
		}
		b.WriteString(excerpt.Inert(excerpt.Settle(l.Text)))
		if l.Omitted > 0 {
			fmt.Fprintf(&b, " [… %s]", excerpt.Count(l.Omitted, "byte"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// addLink adds a link to the log if the result does not show all that the command has printed or
// will print.
func addLink(ctx context.Context, res *mcp.CallToolResult, r ExecResult) {
	version := mcpserver.RequestProtocolVersion(ctx)
	old := version != "" && version < sinceLinks
	if old || r.LogPath == "" || !r.Truncated && r.Status != sandbox.Running && len(r.Leftover) == 0 {
		return
	}
	res.Content = append(res.Content, mcp.NewResourceLink(logScheme+r.ExecID, r.ExecID, "all that the command printed", "text/plain"))
}
