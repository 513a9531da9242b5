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

// recovered turns a panic in a tool into a result that a model can read. The
// middleware of mcp-go's own would make a protocol error of it, which hosts
// show to nobody.
func (s *Server) recovered(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (result *mcp.CallToolResult, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.logger().ErrorContext(ctx, "tool panicked", "tool", req.Params.Name, "panic", p, "stack", string(debug.Stack()))
				result, err = tools.Failed(sandbox.Errorf(sandbox.Internal,
					"This is a bug in warmbox, and its log has the details. Try once more, or do it another way.",
					"%s broke down", req.Params.Name)), nil
			}
		}()
		return next(ctx, req)
	}
}

// observed gives a call the name by which all that is logged of it is found, and
// takes it down in the metrics.
func (s *Server) observed(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
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

// stopTool is the tool that ends calls.
const stopTool = "stop"

// admitted lets a session's calls in, up to its limit, and ends them with it.
func (s *Server) admitted(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c, ok := ctx.Value(callerKey{}).(caller)
		if !ok {
			return next(ctx, req)
		}
		most := maxCalls
		switch {
		case crowded(ctx):
			most = 0
		case req.Params.Name == stopTool:
			most = math.MaxInt // the way out of too many calls must stay open
		}
		ctx, leave, err := c.session.enter(ctx, most)
		if err != nil {
			return tools.Failed(err), nil
		}
		defer leave()
		return next(ctx, req)
	}
}
