package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warmbox/warmbox/sandbox"
)

// TestNoIDReachesTheSessionOfAName: in protocol versions without sessions the client's name,
// which is not secret, identifies its session. A client of an older version cannot use or end
// that session by any id made of the name.
func TestNoIDReachesTheSessionOfAName(t *testing.T) {
	s := newServer(t)
	base := listen(t, s, HTTP{SSE: true})
	url := base + "/mcp"
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "start"}
	call := `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"start","arguments":{},` + modernMeta + `}}`
	if _, body := post(t, url, call, modern...); !strings.Contains(body, `"id":"b-`) {
		t.Fatalf("%s", body)
	}
	sum := sha256.Sum256([]byte("test")) // the client's name
	name := "client-" + hex.EncodeToString(sum[:16])
	owner := ownerOf(testToken, name)
	if n := len(s.Manager.Boxes(owner)); n != 1 {
		t.Fatalf("%d boxes", n)
	}
	for _, id := range []string{name, owner.Principal + "." + name, "tester." + name, "local." + name, hex.EncodeToString(sum[:16]), hex.EncodeToString(sum[:]), "test"} {
		if resp, body := post(t, url, toolCall(4, "list", `{}`), "Mcp-Session-Id", id); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a call with the id %q: %s: %s", id, resp.Status, body)
		}
		if resp, _ := send(t, "DELETE", url, "", "Mcp-Session-Id", id); resp.StatusCode != http.StatusNotFound {
			t.Errorf("the end of %q: %s", id, resp.Status)
		}
		if resp, body := post(t, base+"/message?sessionId="+id, toolCall(5, "list", `{}`)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("a message to %q: %s: %s", id, resp.Status, body)
		}
	}
	if n := len(s.Manager.Boxes(owner)); n != 1 {
		t.Errorf("%d boxes are left", n)
	}
}

// TestNoTokenIsTheLocalPrincipal: no token can have the name or the principal of stdio.
func TestNoTokenIsTheLocalPrincipal(t *testing.T) {
	for _, name := range []string{"local", "Local", "LOCAL"} {
		if err := checkTokens(map[string]string{name: "some token"}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot have the name %q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, token := range []string{"local", "", "some token"} {
		if p := principalOf(token); len(p) != len("token:")+2*sha256.Size || !strings.HasPrefix(p, "token:") || strings.Contains(p, ".") {
			t.Errorf("%q is the principal %q", token, p)
		}
	}
	sum := sha256.Sum256([]byte("a token"))
	if strings.Contains(principalOf("a token"), hex.EncodeToString(sum[:])) {
		t.Error("the hash on containers is the one by which tokens are compared")
	}
}

// TestTokenIdentifiesThePrincipal: persistent boxes belong to the token, also under another
// name, and not to its name.
func TestTokenIdentifiesThePrincipal(t *testing.T) {
	before := (&Server{Manager: &sandbox.Manager{}}).principals(HTTP{Tokens: map[string]string{"alice": "the first token"}})[0]
	for name, token := range map[string]string{"alice": "the second token", "bob": "the first token"} {
		now := (&Server{Manager: &sandbox.Manager{}}).principals(HTTP{Tokens: map[string]string{name: token}})[0]
		if same := now.sessions.principal == before.sessions.principal; same != (token == "the first token") {
			t.Errorf("%s with %q: the same principal: %v", name, token, same)
		}
	}
}
