package server

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/tools"
)

// recovering is middleware that turns a panic in a tool into a result that a model can
// read. mcp-go's own middleware makes a protocol error of it, which hosts do not show.
func (s *Server) recovering(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.logger().ErrorContext(ctx, "tool panicked", "tool", req.Params.Name, "panic", p, "stack", string(debug.Stack()))
				result, err = tools.Failed(sandbox.Errorf(sandbox.Internal,
					"This is a bug in warmbox, and its log has the details. Try once more, or do it another way.",
					"the tool %s panicked", req.Params.Name)), nil
			}
		}()
		return next(ctx, req)
	}
}

// observing is middleware that gives a call the trace id of its log lines, and counts it
// in the metrics.
func (s *Server) observing(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		began := time.Now()
		ctx = sandbox.WithTrace(ctx, sandbox.NewID("t"))
		result, err := next(ctx, req)
		took := time.Since(began)
		s.metrics.count(req.Params.Name, result, took)
		s.logger().DebugContext(ctx, "call", "tool", req.Params.Name, "took", took)
		return result, err
	}
}

// stopTool is the tool that stops commands.
const stopTool = "stop"

// limiting is middleware that admits a session's calls up to its limit, and ends them with
// the session.
func (s *Server) limiting(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		session, ok := ctx.Value(sessionCtxKey{}).(*session)
		if !ok {
			return next(ctx, req)
		}
		most := maxCalls
		switch {
		case overLimit(ctx):
			most = 0
		case req.Params.Name == stopTool:
			most = math.MaxInt // a session with too many calls must be able to stop some
		}
		ctx, leave, err := session.enter(ctx, most)
		if err != nil {
			return tools.Failed(err), nil
		}
		defer leave()
		return next(ctx, req)
	}
}
