package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A progressLog has the progress notifications of a client, by token.
type progressLog struct {
	mu   sync.Mutex
	seen map[any][]sdk.ProgressNotificationParams
}

func (b *progressLog) connect(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	b.seen = map[any][]sdk.ProgressNotificationParams{}
	c := sdk.NewClient(&sdk.Implementation{Name: t.Name(), Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.seen[r.Params.ProgressToken] = append(b.seen[r.Params.ProgressToken], *r.Params)
		},
	})
	session, err := c.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// TestProgressArrivesOnEachTransport: each call gets the elapsed time and the last line of its
// command, first after 2 s, then every 5 s.
func TestProgressArrivesOnEachTransport(t *testing.T) {
	for name, transport := range map[string]func(*testing.T) sdk.Transport{
		"stdio": func(t *testing.T) sdk.Transport {
			return &sdk.CommandTransport{Command: stdioCommand(t), TerminateDuration: 10 * time.Second}
		},
		"HTTP": func(t *testing.T) sdk.Transport {
			return &sdk.StreamableClientTransport{Endpoint: listen(t, newServer(t), HTTP{}) + "/mcp", HTTPClient: httpClient()}
		},
		"SSE": func(t *testing.T) sdk.Transport {
			return &sdk.SSEClientTransport{Endpoint: listen(t, newServer(t), HTTP{SSE: true}) + "/sse", HTTPClient: httpClient()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b progressLog
			session := b.connect(t, transport(t))
			var calls sync.WaitGroup
			for i := range 2 {
				calls.Go(func() {
					params := &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"cmd": fmt.Sprintf("echo step %d; sleep 9", i)}}
					params.SetProgressToken(fmt.Sprint("token", i))
					if _, err := session.CallTool(t.Context(), params); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			b.mu.Lock()
			defer b.mu.Unlock()
			for i := range 2 {
				got := b.seen[fmt.Sprint("token", i)]
				rising := slices.IsSortedFunc(got, func(x, y sdk.ProgressNotificationParams) int {
					if x.Progress < y.Progress {
						return -1
					}
					return 1
				})
				if len(got) != 2 || !rising || got[0].Message != fmt.Sprint("step ", i) || got[0].Progress < 2 {
					t.Errorf("call %d got %+v", i, got)
				}
			}
		})
	}
}
