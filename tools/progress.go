package tools

import (
	"context"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

const (
	// firstProgress is when the first progress notification is sent; most commands
	// end earlier.
	firstProgress = 2 * time.Second

	// nextProgress is well within the time after which a host cancels a call without
	// progress.
	nextProgress = 5 * time.Second
)

// progressOf returns a function that sends progress notifications of a call, or nil if the client
// did not ask for them. The progress is the number of seconds since the call began: the
// protocol requires a number that rises, and the progress of a command is unknown. Since
// notifications may get lost, everything in them is also in the result.
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
		// The call goes on if the notification cannot be sent.
		_ = server.SendNotificationToClient(ctx, string(mcp.MethodNotificationProgress), map[string]any{
			"progressToken": token, "progress": last, "message": message,
		})
	}
}
