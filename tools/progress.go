package tools

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

const (
	// firstBeat comes before a person wonders; most commands end earlier.
	firstBeat = 2 * time.Second

	// laterBeat is well within the time after which a host gives up a call that
	// shows no sign of life.
	laterBeat = 5 * time.Second
)

// progressOf returns what tells the client how a call goes on, or nil where it
// did not ask. The progress is the seconds since the call began, since the
// protocol wants a number that rises, and nobody knows how far a command is.
// A notification may get lost: nothing is told there only.
func progressOf(ctx context.Context, req mcp.CallToolRequest) func(string) {
	server := mcpserver.ServerFromContext(ctx)
	if server == nil || req.Params.Meta == nil || req.Params.Meta.ProgressToken == nil {
		return nil
	}
	token, begin := req.Params.Meta.ProgressToken, time.Now()
	var mu sync.Mutex
	var last float64
	return func(message string) {
		mu.Lock()
		defer mu.Unlock()
		last = max(time.Since(begin).Seconds(), last+1e-6)
		// The call goes on, whether the client hears of it or not.
		_ = server.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": token, "progress": last, "message": message,
		})
	}
}
