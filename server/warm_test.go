package server

import (
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox"
)

// TestGreetingFillsThePool: the first message of a client starts an idle box, in every version
// of the protocol.
func TestGreetingFillsThePool(t *testing.T) {
	for _, version := range []string{"2025-06-18", ""} {
		s := newServer(t)
		s.Manager.Pool = sandbox.Pool{Warm: 1}
		url := listen(t, s, HTTP{}) + "/mcp"
		session, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: httpClient(), DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(10 * time.Millisecond)
		for late := time.After(10 * time.Second); s.Manager.Stats().Ready == 0 && !t.Failed(); {
			select {
			case <-tick.C:
			case <-late:
				t.Errorf("the pool is empty for a client of version %q", version)
			}
		}
		tick.Stop()
		session.Close()
	}
}
