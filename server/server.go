// Package server speaks MCP, the Model Context Protocol, to the clients of a
// sandbox.Manager: over stdio, over streamable HTTP and, when asked for, over
// the older HTTP with server-sent events. It holds the door (who may come in
// over HTTP), knows whose call each one is, and leaves nothing behind when it
// ends.
//
// It starts no box and runs no command: that is the tools', which it is given.
// It reads no configuration and handles no signals: it serves until its
// context is done. The caller must see to it that nothing but the server
// writes to the standard output that it was given, and that SIGPIPE does not
// end the process, so that a client that hangs up is noticed as an error of
// Write and the boxes can still be ended.
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
	// boxesTimeout bounds how long the end of a server waits for its boxes. A
	// box ends within two or three seconds; one that does not is left to its
	// agent's lease. With endTimeout it stays well below the ten seconds after
	// which supervisors lose their patience.
	boxesTimeout = 6 * time.Second

	// endTimeout bounds how long it waits for what still writes to a client.
	endTimeout = 2 * time.Second
)

// A Server serves tools over a Manager. It is used like http.Server: set its
// fields, then call one of ServeStdio and ListenAndServe, once. Manager and
// what it owns are the server's from then on: the boxes end when it does.
type Server struct {
	Manager   *sandbox.Manager
	Tools     []mcpserver.ServerTool             // in the order in which clients are to see them
	Resources []mcpserver.ServerResourceTemplate // what clients can read
	Version   string                             // of the program, told to clients
	Logger    *slog.Logger                       // nil: nobody is told anything

	metrics *metrics // nil on stdio
}

// mcp returns what all transports serve. Nothing in it depends on a client, so
// that hosts may cache the list of tools, and nothing needs an engine.
func (s *Server) mcp() *mcpserver.MCPServer {
	m := mcpserver.NewMCPServer("warmbox", s.Version,
		mcpserver.WithInstructions(instructions),
		mcpserver.WithToolCapabilities(false),
		mcpserver.WithResourceCapabilities(false, false),
		mcpserver.WithResourceRecovery(),
		mcpserver.WithHooks(s.hooks()),
		mcpserver.WithToolFilter(s.inOrder),
		mcpserver.WithToolHandlerMiddleware(s.observed),
		mcpserver.WithToolHandlerMiddleware(s.recovered),
		mcpserver.WithToolHandlerMiddleware(s.admitted),
	)
	m.AddTools(s.Tools...)
	if len(s.Resources) > 0 {
		m.AddResourceTemplates(s.Resources...)
	}
	return m
}

// hooks has boxes stand ready for a client from its first words on, whatever
// protocol they follow, and starts none before. A resource that is not there is no
// failure of ours, which is all that mcp-go knows of errors.
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

// inOrder undoes that mcp-go sorts tools by name.
func (s *Server) inOrder(_ context.Context, list []mcp.Tool) []mcp.Tool {
	rank := func(t mcp.Tool) int {
		return slices.IndexFunc(s.Tools, func(mine mcpserver.ServerTool) bool { return mine.Tool.Name == t.Name })
	}
	slices.SortFunc(list, func(a, b mcp.Tool) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// closeBoxes ends every box. When they take too long it gives up waiting, not
// ending: the caller is about to exit, and what is left then ends by itself.
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
		return errors.New("the boxes did not end within " + boxesTimeout.String() + "; their agents end them when their leases are over")
	}
}

func (s *Server) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
