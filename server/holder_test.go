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

func showing(name string, header ...string) []string {
	return append([]string{"Authorization", "Bearer " + twoTokens[name]}, header...)
}

// TestHolders: what a client of one token has does not exist for those of
// another, whatever they know of it.
func TestHolders(t *testing.T) {
	s := newServer(t)
	base := listen(t, s, HTTP{Tokens: twoTokens, SSE: true})
	url := base + "/mcp"
	alices := connect(t, url, showing("alice")...)
	post(t, url, toolCall(2, "start", `{}`), showing("alice", "Mcp-Session-Id", alices)...)
	box := s.Manager.Boxes(ownerOf(twoTokens["alice"], alices))[0]
	running := make(chan string, 1)
	go func() {
		_, body := post(t, url, toolCall(42, "exec", fmt.Sprintf(`{"cmd":"sleep 1000","containerId":%q}`, box.ID)), showing("alice", "Mcp-Session-Id", alices)...)
		running <- body
	}()
	await(t, func() bool { return box.Live() == 1 })

	stolen := showing("bob", "Mcp-Session-Id", alices)
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
	bobs := connect(t, url, showing("bob")...)
	for _, tool := range []string{"exec", "stop"} {
		args := fmt.Sprintf(`{"containerId":%q,"cmd":"true"}`, box.ID)
		if tool == "stop" {
			args = fmt.Sprintf(`{"containerId":%q}`, box.ID)
		}
		if _, body := post(t, url, toolCall(4, tool, args), showing("bob", "Mcp-Session-Id", bobs)...); !strings.Contains(body, sandbox.BoxNotFound) {
			t.Errorf("%s in another's box: %s", tool, body)
		}
	}
	if _, body := post(t, url, toolCall(5, "list", `{}`), showing("bob", "Mcp-Session-Id", bobs)...); strings.Contains(body, box.ID) {
		t.Errorf("another's list: %s", body)
	}
	if box.Live() != 1 || box.Gone() != nil {
		t.Errorf("%d commands run: one that is another's was ended", box.Live())
	}
	send(t, "DELETE", url, "", showing("alice", "Mcp-Session-Id", alices)...)
	<-running
}

// TestHoldersOfOneName: where the protocol knows no sessions, clients that call
// themselves alike share boxes only if they show the same token.
func TestHoldersOfOneName(t *testing.T) {
	url := listen(t, newServer(t), HTTP{Tokens: twoTokens}) + "/mcp"
	exec := func(holder, cmd string) string {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"`+cmd+`"},`+modernMeta+`}}`,
			showing(holder, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "exec")...)
		return body
	}
	exec("alice", "echo mine >file")
	if body := exec("alice", "cat file"); !strings.Contains(body, `"stdout":"mine\n"`) {
		t.Errorf("her next call: %s", body)
	}
	if body := exec("bob", "cat file"); strings.Contains(body, `"stdout":"mine\n"`) || !strings.Contains(body, `"stdout"`) {
		t.Errorf("his: %s", body)
	}
}

// TestHoldersOfStreams: on SSE the session's id is in the address, where others
// may see it.
func TestHoldersOfStreams(t *testing.T) {
	base := listen(t, newServer(t), HTTP{Tokens: twoTokens, SSE: true})
	endpoint := openStream(t, t.Context(), base, showing("alice")...)
	if resp, _ := post(t, base+endpoint, ping, showing("bob")...); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a message to another's stream: %s", resp.Status)
	}
	if resp, _ := post(t, base+endpoint, ping, showing("alice")...); resp.StatusCode != http.StatusAccepted {
		t.Errorf("a message to her own: %s", resp.Status)
	}
}

// TestRate: one token that asks for too much slows down no other, and strangers
// slow down nobody, though their refusals have a limit too.
func TestRate(t *testing.T) {
	url := listen(t, newServer(t), HTTP{Tokens: twoTokens, MaxRate: 2}) + "/mcp"
	alices, bobs := connect(t, url, showing("alice")...), connect(t, url, showing("bob")...)
	refused := 0
	for range 2 * burst {
		resp, _ := post(t, url, ping, showing("alice", "Mcp-Session-Id", alices)...)
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
			if resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused == 0 {
		t.Error("a token is good for any number of requests")
	}
	statuses := map[int]int{}
	for range maxRefusals*burst + 50 {
		resp, _ := post(t, url, ping, "Authorization", "Bearer of nothing")
		statuses[resp.StatusCode]++
	}
	if statuses[http.StatusUnauthorized] < maxRefusals || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("strangers were answered with %v", statuses)
	}
	if resp, body := post(t, url, ping, showing("bob", "Mcp-Session-Id", bobs)...); resp.StatusCode != http.StatusOK {
		t.Errorf("another token: %s: %s", resp.Status, body)
	}
}

func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(10)
		took := func() (n int) {
			for b.take() {
				n++
			}
			return n
		}
		for _, test := range []struct {
			after time.Duration
			want  int
		}{{0, 10 * burst}, {0, 0}, {time.Second, 10}, {50 * time.Millisecond, 0}, {50 * time.Millisecond, 1}, {time.Hour, 10 * burst}} {
			time.Sleep(test.after)
			if got := took(); got != test.want {
				t.Errorf("%d passed after %v, want %d", got, test.after, test.want)
			}
		}
	})
}
