package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// discreet masks the secrets in what a tool says of a mistake, which repeats some
// of what it was given: the client knows that, and who reads its history may not.
func (s *Set) discreet(handle mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r, err := handle(ctx, req)
		if r == nil || err != nil {
			return r, err
		}
		if f, ok := r.StructuredContent.(Failure); ok {
			f.Error, f.Hint = s.Manager.Mask(f.Error), s.Manager.Mask(f.Hint)
			r.StructuredContent, r.Content = f, []mcp.Content{mcp.NewTextContent(f.text())}
		}
		return r, nil
	}
}
