package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

var twoTokens = map[string]string{"alice": "a token of alice's", "bob": "a token of bob's"}

// bearing returns the headers of a client with a token of twoTokens.
func bearing(name string, header ...string) []string {
	return append([]string{"Authorization", "Bearer " + twoTokens[name]}, header...)
}

// TestPrincipalsAreSeparate: sessions and boxes of one token do not exist for another, even
// if its client knows their ids.
func TestPrincipalsAreSeparate(t *testing.T) {
	s := newServer(t)
	base := listen(t, s, HTTP{Tokens: twoTokens, SSE: true})
	url := base + "/mcp"
	alices := connect(t, url, bearing("alice")...)
	post(t, url, toolCall(2, "start", `{}`), bearing("alice", "Mcp-Session-Id", alices)...)
	box := s.Manager.Boxes(ownerOf(twoTokens["alice"], alices))[0]
	running := make(chan string, 1)
	go func() {
		_, body := post(t, url, toolCall(42, "exec", fmt.Sprintf(`{"cmd":"sleep 1000","containerId":%q}`, box.ID)), bearing("alice", "Mcp-Session-Id", alices)...)
		running <- body
	}()
	await(t, func() bool { return box.Live() == 1 })

	stolen := bearing("bob", "Mcp-Session-Id", alices)
	for name, body := range map[string]string{
		"call":   toolCall(3, "list", `{}`),
		"cancel": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":42}}`,
	} {
		if resp, body := post(t, url, body, stolen...); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s in another's session: %s: %s", name, resp.Status, body)
		}
	}
	if resp, _ := send(t, "DELETE", url, "", stolen...); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the end of another's session: %s", resp.Status)
	}
	bobs := connect(t, url, bearing("bob")...)
	for _, tool := range []string{"exec", "stop"} {
		args := fmt.Sprintf(`{"containerId":%q,"cmd":"true"}`, box.ID)
		if tool == "stop" {
			args = fmt.Sprintf(`{"containerId":%q}`, box.ID)
		}
		if _, body := post(t, url, toolCall(4, tool, args), bearing("bob", "Mcp-Session-Id", bobs)...); !strings.Contains(body, sandbox.BoxNotFound) {
			t.Errorf("%s in another's box: %s", tool, body)
		}
	}
	if _, body := post(t, url, toolCall(5, "list", `{}`), bearing("bob", "Mcp-Session-Id", bobs)...); strings.Contains(body, box.ID) {
		t.Errorf("another's list: %s", body)
	}
	if box.Live() != 1 || box.Gone() != nil {
		t.Errorf("%d commands run: that of another principal was ended", box.Live())
	}
	send(t, "DELETE", url, "", bearing("alice", "Mcp-Session-Id", alices)...)
	<-running
}

// TestClientsOfOneNameAreSeparatedByToken: in protocol versions without sessions, clients of
// one name share boxes only if they have the same token.
func TestClientsOfOneNameAreSeparatedByToken(t *testing.T) {
	url := listen(t, newServer(t), HTTP{Tokens: twoTokens}) + "/mcp"
	exec := func(name, cmd string) string {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"`+cmd+`"},`+modernMeta+`}}`,
			bearing(name, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "exec")...)
		return body
	}
	exec("alice", "echo mine >file")
	if body := exec("alice", "cat file"); !strings.Contains(body, `"stdout":"mine\n"`) {
		t.Errorf("her next call: %s", body)
	}
	if body := exec("bob", "cat file"); strings.Contains(body, `"stdout":"mine\n"`) || !strings.Contains(body, `"exitCode":1`) {
		t.Errorf("his: %s", body)
	}
}

// TestStreamsAreSeparatedByToken: over SSE the id of a session is in the URL, where others may
// see it.
func TestStreamsAreSeparatedByToken(t *testing.T) {
	base := listen(t, newServer(t), HTTP{Tokens: twoTokens, SSE: true})
	endpoint := openStream(t, t.Context(), base, bearing("alice")...)
	if resp, _ := post(t, base+endpoint, ping, bearing("bob")...); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a message to another's stream: %s", resp.Status)
	}
	if resp, _ := post(t, base+endpoint, ping, bearing("alice")...); resp.StatusCode != http.StatusAccepted {
		t.Errorf("a message to her own: %s", resp.Status)
	}
}

// TestRateLimitIsPerToken: the limit of one token does not slow down another, and neither do
// unauthenticated requests, whose refusals have a limit too.
func TestRateLimitIsPerToken(t *testing.T) {
	url := listen(t, newServer(t), HTTP{Tokens: twoTokens, MaxRate: 2}) + "/mcp"
	alices, bobs := connect(t, url, bearing("alice")...), connect(t, url, bearing("bob")...)
	refused := 0
	for range 2 * burst {
		resp, _ := post(t, url, ping, bearing("alice", "Mcp-Session-Id", alices)...)
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
			if resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused == 0 {
		t.Error("no request was refused")
	}
	statuses := map[int]int{}
	// A slow machine sends more until the burst is used up, since the limiter refills.
	for n := 0; n < maxRefusals*burst+50 || statuses[http.StatusTooManyRequests] == 0 && n < 4*maxRefusals*burst; n++ {
		resp, _ := post(t, url, ping, "Authorization", "Bearer of nothing")
		statuses[resp.StatusCode]++
	}
	if statuses[http.StatusUnauthorized] < maxRefusals || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("unauthenticated requests were answered with %v", statuses)
	}
	if resp, body := post(t, url, ping, bearing("bob", "Mcp-Session-Id", bobs)...); resp.StatusCode != http.StatusOK {
		t.Errorf("another token: %s: %s", resp.Status, body)
	}
}

func TestRateLimiterAllowsBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRateLimiter(10)
		admitted := func() (n int) {
			for b.allow() {
				n++
			}
			return n
		}
		for _, test := range []struct {
			after time.Duration
			want  int
		}{{0, 10 * burst}, {0, 0}, {time.Second, 10}, {50 * time.Millisecond, 0}, {50 * time.Millisecond, 1}, {time.Hour, 10 * burst}} {
			time.Sleep(test.after)
			if got := admitted(); got != test.want {
				t.Errorf("%d were admitted after %v, want %d", got, test.after, test.want)
			}
		}
	})
}
