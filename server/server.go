// Package server serves MCP, the Model Context Protocol, to the clients of a
// sandbox.Manager: over stdio, over streamable HTTP and, if configured, over the older HTTP
// transport with server-sent events. It authenticates HTTP clients, assigns each call to
// its owner, and ends all boxes when it ends.
//
// It starts no box and runs no command: its tools do. It reads no configuration and handles
// no signals: it serves until its context is done. The caller makes sure that only the
// server writes to its standard output, and that SIGPIPE does not end the process: the
// server notices a client that disconnects by an error of Write, and then ends the boxes.
package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// boxesTimeout bounds how long a server that ends waits for its boxes. A box
	// ends within two or three seconds; the lease of its agent ends one that does
	// not. With endTimeout it stays well below the ten seconds after which
	// supervisors kill a process.
	boxesTimeout = 6 * time.Second

	// endTimeout bounds how long it waits for replies that are being written.
	endTimeout = 2 * time.Second
)

// A Server serves tools over a Manager. It is used like http.Server: set its fields, then
// call one of ServeStdio and ListenAndServe, once. It then owns the Manager: all boxes end
// when it ends.
type Server struct {
	Manager   *sandbox.Manager
	Tools     []mcpserver.ServerTool             // in the order in which clients see them
	Resources []mcpserver.ServerResourceTemplate // that clients can read
	Version   string                             // of the program
	Logger    *slog.Logger                       // nil: nothing is logged

	metrics *metrics // nil on stdio
}

// mcp returns the server of all transports. It depends on no client, so hosts may cache
// the list of tools, and needs no engine.
func (s *Server) mcp() *mcpserver.MCPServer {
	m := mcpserver.NewMCPServer(serverName, s.Version, append(about(),
		mcpserver.WithInstructions(instructions),
		mcpserver.WithToolCapabilities(false),
		mcpserver.WithResourceCapabilities(false, false),
		mcpserver.WithResourceRecovery(),
		mcpserver.WithHooks(s.hooks()),
		mcpserver.WithToolFilter(s.sortTools),
		mcpserver.WithToolHandlerMiddleware(s.observing),
		mcpserver.WithToolHandlerMiddleware(s.recovering),
		mcpserver.WithToolHandlerMiddleware(s.limiting),
		mcpserver.WithToolHandlerMiddleware(s.signing),
	)...)
	m.AddTools(s.Tools...)
	if len(s.Resources) > 0 {
		m.AddResourceTemplates(s.Resources...)
	}
	return m
}

// hooks fills the pool of idle boxes with the first message of a client, whatever protocol
// version it follows, and not before. They also mark resources that do not exist: mcp-go
// reports every error of a resource as an internal one.
func (s *Server) hooks() *mcpserver.Hooks {
	var h mcpserver.Hooks
	h.AddBeforeInitialize(func(ctx context.Context, _ any, _ *mcp.InitializeRequest) { s.Manager.Warm(Owner(ctx)) })
	h.AddBeforeDiscover(func(ctx context.Context, _ any, _ *mcp.DiscoverRequest) { s.Manager.Warm(Owner(ctx)) })
	h.AddBeforeListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest) { s.Manager.Warm(Owner(ctx)) })
	h.AddOnError(func(ctx context.Context, _ any, method mcp.MCPMethod, _ any, err error) {
		x, ok := mcpserver.ClientSessionFromContext(ctx).(*exchange)
		if e, known := errors.AsType[*sandbox.Error](err); ok && known && method == mcp.MethodResourcesRead && e.Code == sandbox.ExecNotFound {
			x.notFound = true
		}
	})
	return &h
}

// sortTools restores the order of the tools, which mcp-go sorts by name.
func (s *Server) sortTools(_ context.Context, list []mcp.Tool) []mcp.Tool {
	rank := func(t mcp.Tool) int {
		return slices.IndexFunc(s.Tools, func(mine mcpserver.ServerTool) bool { return mine.Tool.Name == t.Name })
	}
	slices.SortFunc(list, func(a, b mcp.Tool) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// closeBoxes ends every box. It stops waiting after boxesTimeout: the program is about to
// exit, and the leases of the agents end the remaining boxes.
func (s *Server) closeBoxes() error {
	done := make(chan struct{})
	go func() {
		s.Manager.Close()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(boxesTimeout):
		return errors.New("the boxes did not end within " + boxesTimeout.String() + "; the agent of each box ends the box when its lease expires")
	}
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
