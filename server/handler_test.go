package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/tools"
)

// post sends a message and returns the response with its body.
func post(t testing.TB, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	return send(t, http.MethodPost, url, body, header...)
}

// send sends a valid request, changed by headers: names and values. An empty value removes a
// header.
func send(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
	defer cancel()
	resp, text, err := trySend(ctx, method, url, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func trySend(ctx context.Context, method, url, body string, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+testToken)
	for pair := range slices.Chunk(header, 2) {
		switch {
		case pair[0] == "Host":
			req.Host = pair[1]
		case pair[1] == "":
			req.Header.Del(pair[0])
		case pair[0] == "Authorization" || pair[0] == "Content-Type":
			req.Header.Set(pair[0], pair[1])
		default:
			req.Header.Add(pair[0], pair[1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// connect initializes and returns the id of the new session.
func connect(t testing.TB, url string, header ...string) string {
	t.Helper()
	resp, body := post(t, url, initialize(1, "2025-11-25"), header...)
	id := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %s: %s", resp.Status, body)
	}
	return id
}

// ownerOf returns the owner of a session of a token.
func ownerOf(token, session string) sandbox.Owner {
	return sandbox.Owner{Principal: principalOf(token), Session: session}
}

const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`

func TestRequestsAreCheckedBeforeTheyAreServed(t *testing.T) {
	const token = "open sesame"
	h := HTTP{
		Tokens: map[string]string{"alice": token, "bob": "open barley", "carol": "open rice"},
		SSE:    true, AllowHosts: []string{"box.example"}, AllowOrigins: []string{"https://app.example"},
	}
	base := listen(t, newServer(t), h)
	authorized := []string{"Authorization", "Bearer " + token}
	session := connect(t, base+"/mcp", authorized...)
	mine := append(authorized, "Mcp-Session-Id", session)
	deep := strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000)
	noToken := []string{"Authorization", ""}
	with := func(headers []string, more ...string) []string { return append(slices.Clip(headers), more...) }

	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"as it should be", "POST", "/mcp", ping, mine, 200},
		{"scheme in small letters", "POST", "/mcp", ping, []string{"Authorization", "bearer " + token, "Mcp-Session-Id", session}, 200},
		{"allowed host", "POST", "/mcp", ping, with(mine, "Host", "box.example:8811"), 200},
		{"localhost", "POST", "/mcp", ping, with(mine, "Host", "LOCALHOST"), 200},
		{"loopback of version 6", "POST", "/mcp", ping, with(mine, "Host", "[::1]:8811"), 200},
		{"allowed origin", "POST", "/mcp", ping, with(mine, "Origin", "https://app.example"), 200},
		{"own origin", "POST", "/mcp", ping, with(mine, "Origin", base), 200},
		{"charset", "POST", "/mcp", ping, with(mine, "Content-Type", "application/json; charset=utf-8"), 200},
		{"health", "GET", "/healthz", "", noToken, 200},

		{"evil host", "POST", "/mcp", ping, with(mine, "Host", "evil.example"), 403},
		{"evil host that looks right", "POST", "/mcp", ping, with(mine, "Host", "127.0.0.1.evil.example"), 403},
		{"other address", "POST", "/mcp", ping, with(mine, "Host", "192.0.2.1:8811"), 403},
		{"evil origin", "POST", "/mcp", ping, with(mine, "Origin", "https://evil.example"), 403},
		{"origin of a file", "POST", "/mcp", ping, with(mine, "Origin", "null"), 403},
		{"origin of another port", "POST", "/mcp", ping, with(mine, "Origin", "http://127.0.0.1:1"), 403},
		{"two origins", "POST", "/mcp", ping, with(mine, "Origin", base, "Origin", "https://evil.example"), 403},
		{"evil host of the stream", "GET", "/sse", "", with(authorized, "Host", "evil.example"), 403},
		{"evil origin of the stream", "GET", "/sse", "", with(authorized, "Origin", "https://evil.example"), 403},
		{"evil origin of a message", "POST", "/message?sessionId=x", ping, with(authorized, "Origin", "https://evil.example"), 403},

		{"no token", "POST", "/mcp", ping, []string{"Authorization", "", "Mcp-Session-Id", session}, 401},
		{"empty token", "POST", "/mcp", ping, []string{"Authorization", "Bearer ", "Mcp-Session-Id", session}, 401},
		{"wrong token", "POST", "/mcp", ping, []string{"Authorization", "Bearer open", "Mcp-Session-Id", session}, 401},
		{"other scheme", "POST", "/mcp", ping, []string{"Authorization", "Basic " + token, "Mcp-Session-Id", session}, 401},
		{"token in the URL", "POST", "/mcp?token=open+sesame&access_token=open+sesame", ping, []string{"Authorization", "", "Mcp-Session-Id", session}, 401},
		{"no token to the stream", "GET", "/sse", "", noToken, 401},
		{"no token to a message", "POST", "/message?sessionId=x", ping, noToken, 401},
		{"no token to end a session", "DELETE", "/mcp", "", []string{"Authorization", "", "Mcp-Session-Id", session}, 401},

		{"stream of its own", "GET", "/mcp", "", mine, 405},
		{"head", "HEAD", "/mcp", "", mine, 405},
		{"put", "PUT", "/mcp", ping, mine, 405},
		{"options without an origin", "OPTIONS", "/mcp", "", mine, 405},
		{"end a session where there are none", "DELETE", "/mcp", "", with(mine, "Mcp-Protocol-Version", "2026-07-28"), 405},

		{"text", "POST", "/mcp", ping, with(mine, "Content-Type", "text/plain"), 415},
		{"no type", "POST", "/mcp", ping, with(mine, "Content-Type", ""), 415},
		{"form to a message", "POST", "/message?sessionId=x", ping, with(authorized, "Content-Type", "text/plain"), 415},
		{"too large", "POST", "/mcp", strings.Repeat(" ", maxBody+1), mine, 413},
		{"6 MB that are a message", "POST", "/mcp", toolCall(2, "exec", `{"cmd":"true","stdin":"`+strings.Repeat("x", 6_000_000)+`"}`), mine, 413},
		{"too large a message", "POST", "/message?sessionId=x", strings.Repeat(" ", maxBody+1), authorized, 413},

		{"no session", "POST", "/mcp", ping, authorized, 400},
		{"unknown session", "POST", "/mcp", ping, with(authorized, "Mcp-Session-Id", "nosuch"), 404},
		{"unknown session to end", "DELETE", "/mcp", "", with(authorized, "Mcp-Session-Id", "nosuch"), 404},
		{"unknown stream", "POST", "/message?sessionId=nosuch", ping, authorized, 404},
		{"unknown path", "POST", "/", ping, mine, 404},
		{"registration of a client", "POST", "/register", "{}", noToken, 404},
		{"an authorization server", "GET", "/.well-known/oauth-authorization-server", "", noToken, 404},
		{"a protected resource", "GET", "/.well-known/oauth-protected-resource/mcp", "", noToken, 404},
		{"metrics by POST", "POST", "/metrics", ping, mine, 405},
		{"health by POST", "POST", "/healthz", ping, mine, 405},
		{"no JSON", "POST", "/mcp", "no", mine, 400},
		{"deep", "POST", "/mcp", strings.Repeat("[", 1_000_000), mine, 400},
		{"deep parameters", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + deep + `}`, mine, 400},
		{"deep arguments", "POST", "/mcp", toolCall(1, "exec", `{"cmd":`+deep+`}`), mine, 400},
		{"a name twice", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`, mine, 400},
		{"a name in another case", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}`, mine, 400},
		{"a name with a NUL", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping","method\u0000":"tools/call"}`, mine, 400},
		{"a name twice in a message", "POST", "/message?sessionId=x", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, authorized, 400},
		{"several messages", "POST", "/mcp", "[" + ping + "]", mine, 400},
		{"unknown version", "POST", "/mcp", ping, with(mine, "Mcp-Protocol-Version", "1999-01-01"), 400},
		{"notification", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, mine, 202},
		{"notification where there are no sessions", "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
			with(authorized, "Mcp-Protocol-Version", "2026-07-28"), 202},
	} {
		t.Run(test.name, func(t *testing.T) {
			resp, body := send(t, test.method, base+test.path, test.body, test.header...)
			if resp.StatusCode != test.want {
				t.Errorf("%s: %s, want %d", resp.Status, body, test.want)
			}
			if resp.StatusCode == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate: %q", resp.Header.Get("WWW-Authenticate"))
			}
			tellsToken := resp.StatusCode == 401 || strings.HasPrefix(test.path, "/.well-known/") || test.path == "/register"
			if tellsToken && !strings.Contains(body, "add the header Authorization: Bearer TOKEN") {
				t.Errorf("%s does not say what to configure", body)
			}
			if resp.StatusCode == 405 && resp.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
			if test.path == "/" && !strings.Contains(body, "/mcp") {
				t.Errorf("%q does not name /mcp", body)
			}
			if acao := resp.Header.Get("Access-Control-Allow-Origin"); acao == "*" || strings.Contains(acao, "evil") {
				t.Errorf("Access-Control-Allow-Origin: %q", acao)
			}
		})
	}
	if resp, _ := send(t, "OPTIONS", base+"/mcp", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST"); resp.StatusCode != 204 ||
		resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("the preflight request of an allowed page: %s %v", resp.Status, resp.Header)
	}
	if resp, _ := post(t, base+"/mcp", ping, mine...); resp.StatusCode != 200 {
		t.Errorf("after all that: %s", resp.Status)
	}
}

func TestInsecureSettingsAreRefused(t *testing.T) {
	tokens := map[string]string{"x": testToken}
	for listen, safe := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.0.0.2:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "192.0.2.1:0": false, "localhost.evil.example:0": false, "nonsense": false,
	} {
		if err := (HTTP{Listen: listen, Tokens: tokens}).check(); (err == nil) != safe {
			t.Errorf("listen on %s without TLS: %v", listen, err)
		}
		for _, tokens := range []map[string]string{nil, {"x": ""}, {"": testToken}, {"x y": testToken}, {"x\r\ny": testToken}, {"x": testToken, "y": testToken}} {
			if err := (HTTP{Listen: listen, Tokens: tokens, Insecure: true}).check(); err == nil {
				t.Errorf("listens on %s with the tokens %q", listen, tokens)
			}
		}
	}
	for _, h := range []HTTP{{Insecure: true}, {Cert: "cert.pem", Key: "key.pem"}} {
		h.Listen, h.Tokens = "0.0.0.0:0", tokens
		if err := h.check(); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
	s := newServer(t)
	if err := s.ListenAndServe(t.Context(), HTTP{Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "without a token") {
		t.Errorf("ListenAndServe: %v", err)
	}
}

func TestAnyAddressIsAllowedWhereAllAreServed(t *testing.T) {
	d := &httpHandler{HTTP: HTTP{Listen: "0.0.0.0:8811"}}
	for host, want := range map[string]bool{"192.0.2.1:8811": true, "[2001:db8::1]:8811": true, "localhost": true, "evil.example": false, "": false} {
		if d.hostAllowed(host) != want {
			t.Errorf("Host %q: allowed %v, want %v", host, !want, want)
		}
	}
}

func TestEveryProtocolVersionOverHTTP(t *testing.T) {
	url := listen(t, newServer(t), HTTP{}) + "/mcp"
	for _, version := range legacyVersions {
		resp, body := post(t, url, initialize(1, version))
		if !strings.Contains(body, `"protocolVersion":"`+version+`"`) {
			t.Errorf("initialize with %s: %s", version, body)
		}
		header := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", version}
		if _, body := post(t, url, toolCall(2, "exec", `{"cmd":"echo hi"}`), header...); !strings.Contains(body, `"stdout":"hi\n"`) {
			t.Errorf("exec with %s: %s", version, body)
		}
	}
	_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
	if !strings.Contains(body, "2026-07-28") || strings.Contains(body, `"error"`) {
		t.Errorf("server/discover: %s", body)
	}
}

// TestSessionsAreSeparate: boxes of one session do not exist for another. In protocol versions
// without sessions the client's name separates them.
func TestSessionsAreSeparate(t *testing.T) {
	s := newServer(t)
	url := listen(t, s, HTTP{}) + "/mcp"
	a, b := connect(t, url), connect(t, url)
	_, body := post(t, url, toolCall(2, "start", `{}`), "Mcp-Session-Id", a)
	id := s.Manager.Boxes(ownerOf(testToken, a))[0].ID
	if !strings.Contains(body, id) {
		t.Errorf("start: %s", body)
	}
	if _, body := post(t, url, toolCall(2, "stop", fmt.Sprintf(`{"containerId":%q}`, id)), "Mcp-Session-Id", b); !strings.Contains(body, sandbox.BoxNotFound) {
		t.Errorf("stop by another session: %s", body)
	}
	modern := func(name, tool, args string) string {
		meta := strings.Replace(modernMeta, `"test"`, `"`+name+`"`, 1)
		_, body := post(t, url, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+args+`,`+meta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)
		return body
	}
	modern("alice", "exec", `{"cmd":"echo mine >file"}`)
	if body := modern("alice", "exec", `{"cmd":"cat file"}`); !strings.Contains(body, `"stdout":"mine\n"`) {
		t.Errorf("the same client's next call: %s", body)
	}
	if body := modern("bob", "exec", `{"cmd":"cat file"}`); strings.Contains(body, `"stdout":"mine\n"`) {
		t.Errorf("another client's call: %s", body)
	}
	if body := modern("bob", "exec", fmt.Sprintf(`{"cmd":"true","containerId":%q}`, id)); !strings.Contains(body, sandbox.BoxNotFound) {
		t.Errorf("another client's call in a session's box: %s", body)
	}
}

// TestCancelStaysInItsSession: clients use the same request ids, and one must not cancel the
// call of another.
func TestCancelStaysInItsSession(t *testing.T) {
	s := newServer(t)
	arrived, letGo := make(chan struct{}), make(chan struct{})
	s.Tools = []mcpserver.ServerTool{{Tool: mcp.NewTool("wait"), Handler: func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		arrived <- struct{}{}
		select {
		case <-ctx.Done():
			return mcp.NewToolResultText("cancelled"), nil
		case <-letGo:
			return mcp.NewToolResultText("survived"), nil
		}
	}}}
	url := listen(t, s, HTTP{}) + "/mcp"
	a, b := connect(t, url), connect(t, url)
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "wait"}
	modernCall := `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"wait",` + modernMeta + `}}`
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":42}}`
	cancelModern := strings.Replace(cancel, `"params":{`, `"params":{`+modernMeta+`,`, 1)

	begin := func(call string, header ...string) <-chan string {
		answer := make(chan string, 1)
		go func() {
			_, body := post(t, url, call, header...)
			answer <- body
		}()
		<-arrived
		return answer
	}
	bs := begin(toolCall(42, "wait", `{}`), "Mcp-Session-Id", b)
	modernOnes := begin(modernCall, modern...)
	as := begin(toolCall(42, "wait", `{}`), "Mcp-Session-Id", a)
	post(t, url, cancel, "Mcp-Session-Id", a)
	post(t, url, cancelModern, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "notifications/cancelled")
	if body := <-as; !strings.Contains(body, "cancelled") {
		t.Errorf("a call that its own session cancelled: %s", body)
	}
	close(letGo)
	for _, answer := range []<-chan string{bs, modernOnes} {
		if body := <-answer; !strings.Contains(body, "survived") {
			t.Errorf("a call whose id another session cancelled: %s", body)
		}
	}
}

// TestDeletedSessionEndsItsBoxes: and its calls, and those of no other session.
func TestDeletedSessionEndsItsBoxes(t *testing.T) {
	s := newServer(t)
	url := listen(t, s, HTTP{}) + "/mcp"
	a, b := connect(t, url), connect(t, url)
	post(t, url, toolCall(2, "start", `{}`), "Mcp-Session-Id", b)
	answer := make(chan string, 1)
	go func() {
		_, body := post(t, url, toolCall(2, "exec", `{"cmd":"sleep 1000"}`), "Mcp-Session-Id", a)
		answer <- body
	}()
	await(t, func() bool {
		boxes := s.Manager.Boxes(ownerOf(testToken, a))
		return len(boxes) == 1 && boxes[0].Live() == 1
	})
	box := s.Manager.Boxes(ownerOf(testToken, a))[0]
	start := time.Now()
	if resp, body := send(t, "DELETE", url, "", "Mcp-Session-Id", a); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s: %s", resp.Status, body)
	}
	t.Logf("DELETE took %v", time.Since(start))
	<-answer
	if box.Gone() == nil {
		t.Error("its box is still there")
	}
	if resp, _ := post(t, url, ping, "Mcp-Session-Id", a); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a call of a session that ended: %s", resp.Status)
	}
	if n := len(s.Manager.Boxes(ownerOf(testToken, b))); n != 1 {
		t.Errorf("%d boxes of another session run, want 1", n)
	}
}

// openStream opens a stream of the older transport until ctx or the test ends, and returns the
// path for its messages.
func openStream(t *testing.T, ctx context.Context, base string, header ...string) (endpoint string) {
	t.Helper()
	resp := getStream(t, ctx, base, header...)
	buf := make([]byte, 1024)
	n, err := resp.Body.Read(buf)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", resp.Status, buf[:n], err)
	}
	_, endpoint, _ = strings.Cut(strings.TrimSpace(string(buf[:n])), "data: ")
	return endpoint
}

// getStream requests a stream; the response may be a refusal.
func getStream(t *testing.T, ctx context.Context, base string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	for pair := range slices.Chunk(header, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestClosedStreamEndsItsSession: over SSE the connection is the session.
func TestClosedStreamEndsItsSession(t *testing.T) {
	s := newServer(t)
	base := listen(t, s, HTTP{SSE: true})
	ctx, hangUp := context.WithCancel(t.Context())
	endpoint := openStream(t, ctx, base)
	_, id, _ := strings.Cut(endpoint, "sessionId=")
	if resp, body := post(t, base+endpoint, toolCall(2, "exec", `{"cmd":"sleep 1000"}`)); resp.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %s", resp.Status, body)
	}
	await(t, func() bool {
		boxes := s.Manager.Boxes(ownerOf(testToken, id))
		return len(boxes) == 1 && boxes[0].Live() == 1
	})
	hangUp()
	await(t, func() bool { return len(s.Manager.Boxes(ownerOf(testToken, id))) == 0 })
	await(t, func() bool { resp, _ := post(t, base+endpoint, ping); return resp.StatusCode == http.StatusNotFound })
}

// TestDisconnectCancelsUnlessConfigured: a client that disconnects cancels its call, unless
// commands are configured to run on; a later call then finds the command. A cancelled call
// always ends its command.
func TestDisconnectCancelsUnlessConfigured(t *testing.T) {
	for _, test := range []struct {
		name                  string
		runOn, modern, cancel bool
		want                  sandbox.Status
	}{
		{"legacy", false, false, false, sandbox.Killed},
		{"modern", false, true, false, sandbox.Killed},
		{"legacy, run on", true, false, false, sandbox.Running},
		{"modern, run on", true, true, false, sandbox.Running},
		{"legacy, run on, cancelled", true, false, true, sandbox.Killed},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := listen(t, serverOf(t, &tools.Set{RunOn: test.runOn}), HTTP{}) + "/mcp"
			session := ""
			if !test.modern {
				session = connect(t, url)
			}
			do := func(ctx context.Context, id int, tool, args string) string {
				call, header := toolCall(id, tool, args), []string{"Mcp-Session-Id", session}
				if test.modern {
					call = strings.Replace(call, `"name"`, modernMeta+`,"name"`, 1)
					header = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool}
				}
				_, body, _ := trySend(ctx, http.MethodPost, url, call, header...)
				return body
			}
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			go do(ctx, 2, "exec", `{"cmd":"sleep 1000"}`)
			var run string
			await(t, func() bool {
				_, rest, _ := strings.Cut(do(t.Context(), 3, "list", `{}`), `"execId":"`)
				run, _, _ = strings.Cut(rest, `"`)
				return run != ""
			})
			if test.cancel {
				post(t, url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, "Mcp-Session-Id", session)
			} else {
				hangUp()
			}
			wait := `,"waitSeconds":0.5}` // a kill takes milliseconds
			if test.want != sandbox.Running {
				wait = `,"waitSeconds":30}`
			}
			if body := do(t.Context(), 4, "logs", `{"execId":"`+run+`"`+wait); !strings.Contains(body, `"status":"`+string(test.want)+`"`) {
				t.Errorf("want %s: %s", test.want, body)
			}
		})
	}
}

// TestShutdownEndsCallsAndStreams: neither a call nor a stream delays the end of the server.
func TestShutdownEndsCallsAndStreams(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	ready, served := make(chan string, 1), make(chan error, 1)
	h := HTTP{Listen: "127.0.0.1:0", Tokens: map[string]string{"tester": testToken}, SSE: true, Ready: func(addr net.Addr) { ready <- "http://" + addr.String() }}
	go func() { served <- s.ListenAndServe(ctx, h) }()
	base := <-ready
	openStream(t, context.WithoutCancel(t.Context()), base)
	id := connect(t, base+"/mcp")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		req, _ := http.NewRequest("POST", base+"/mcp", strings.NewReader(toolCall(2, "exec", `{"cmd":"trap '' TERM; sleep 1000"}`)))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+testToken)
		req.Header.Set("Mcp-Session-Id", id)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	await(t, func() bool {
		boxes := s.Manager.Boxes(ownerOf(testToken, id))
		return len(boxes) == 1 && boxes[0].Live() == 1
	})
	start := time.Now()
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("serves on after ten seconds")
	}
	t.Logf("ended after %v", time.Since(start).Round(time.Millisecond))
	<-answered
	if n := len(s.Manager.Boxes(ownerOf(testToken, id))); n != 0 {
		t.Errorf("%d boxes are left", n)
	}
}

// TestProgressGoesToItsOwnCall: concurrent calls of one session each get their own progress.
func TestProgressGoesToItsOwnCall(t *testing.T) {
	s := newServer(t)
	s.Tools = []mcpserver.ServerTool{{Tool: mcp.NewTool("report"), Handler: func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 20 {
			err := mcpserver.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": req.Params.Meta.ProgressToken, "progress": 1})
			if err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("done"), nil
	}}}
	url := listen(t, s, HTTP{}) + "/mcp"
	id := connect(t, url)
	answers := make(chan string, 10)
	for i := range cap(answers) {
		go func() {
			_, body := post(t, url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"report","_meta":{"progressToken":"p%d"}}}`, i, i), "Mcp-Session-Id", id)
			answers <- body
		}()
	}
	for range cap(answers) {
		tokens := map[string]int{}
		for line := range bytes.Lines([]byte(<-answers)) {
			var m struct {
				Params struct{ ProgressToken string }
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && json.Unmarshal(data, &m) == nil && m.Params.ProgressToken != "" {
				tokens[m.Params.ProgressToken]++
			}
		}
		if len(tokens) != 1 {
			t.Errorf("a call got the progress of %v", tokens)
		}
	}
}

// TestHeadersThatIdentifyAreGivenOnce: a request with two tokens or two sessions is refused, as a
// proxy may read the other one.
func TestHeadersThatIdentifyAreGivenOnce(t *testing.T) {
	for _, name := range singleHeaders {
		for _, values := range []int{1, 2} {
			r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", nil)
			for range values {
				r.Header.Add(name, "x")
			}
			_, err := new(httpHandler).check(r)
			if refused := strings.Contains(err.Error(), name+" twice"); refused != (values == 2) {
				t.Errorf("%d values of %s: %v", values, name, err)
			}
		}
	}
}
