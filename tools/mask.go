package tools

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// masked returns a handler that masks the secrets in the text of a Failure. That text repeats
// some of the arguments: the client knows them, but others may read its history.
func (s *Set) masked(handle mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
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
