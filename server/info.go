package server

import (
	"context"
	_ "embed"
	"encoding/base64"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// serverName is the server's name for programs.
const serverName = "warmbox"

// icon is what hosts show beside the name. It travels within the message: a host may have no network.
//
//go:embed icon.svg
var icon []byte

// sinceServerInfo is the protocol version from which on every result names its server.
const sinceServerInfo = "2026-07-28"

// about describes the server to hosts and their users. No model reads it.
func about() []mcpserver.ServerOption {
	return []mcpserver.ServerOption{
		mcpserver.WithTitle("warmbox"),
		mcpserver.WithDescription("Runs shell commands in hardened containers that are already running."),
		mcpserver.WithWebsiteURL("https://github.com/warmbox/warmbox"),
		mcpserver.WithIcons(mcp.Icon{
			Src: "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(icon), MIMEType: "image/svg+xml", Sizes: []string{"any"},
		}),
	}
}

// signing is middleware that signs the result of a call with name and version alone. mcp-go would
// add all of about to every reply.
func (s *Server) signing(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := next(ctx, req)
		if result != nil && mcpserver.RequestProtocolVersion(ctx) >= sinceServerInfo {
			result.EnsureResultMeta().SetServerInfo(mcp.Implementation{Name: serverName, Version: s.Version})
		}
		return result, err
	}
}
