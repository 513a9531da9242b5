package server

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// TestServerDescribesItself: hosts list the server with a title, a description, its page and an
// icon. Replies to calls carry its name and version alone.
func TestServerDescribesItself(t *testing.T) {
	url := listen(t, newServer(t), HTTP{}) + "/mcp"
	const name = `"name":"warmbox","version":"1.2.3"`
	whole := []string{name, `"title":"warmbox"`, `"description":"Runs shell commands`, `"websiteUrl":"https://github.com/warmbox/warmbox"`,
		`"src":"data:image/svg+xml;base64,`}
	_, old := post(t, url, initialize(1, legacy))
	_, discovered := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`,
		"Mcp-Protocol-Version", modern, "Mcp-Method", "server/discover")
	for _, body := range []string{old, discovered} {
		for _, part := range whole {
			if !strings.Contains(body, part) {
				t.Errorf("no %s in %s", part, body)
			}
		}
	}
	called := modernCall(t, url, modernMeta, `{"cmd":"echo hi"}`)
	if !strings.Contains(called, name) || strings.Contains(called, "websiteUrl") || strings.Contains(called, "data:image") {
		t.Errorf("a reply has more of the server than name and version: %s", called)
	}
	if called = calledBy(t, url, legacy, "someone", "1"); strings.Contains(called, name) {
		t.Errorf("a reply of an old version has the server: %s", called)
	}
}

// TestIconIsDrawable: hosts embed the icon in pages.
func TestIconIsDrawable(t *testing.T) {
	if len(icon) > 512 {
		t.Errorf("the icon has %d bytes, want at most 512", len(icon))
	}
	for d := xml.NewDecoder(strings.NewReader(string(icon))); ; {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local != "svg" && e.Name.Local != "rect" && e.Name.Local != "path" {
			t.Errorf("the icon has an element %s", e.Name.Local)
		}
	}
}

// TestRepliesFollowTheNameOfTheClient: the name comes with initialize, or with each request.
func TestRepliesFollowTheNameOfTheClient(t *testing.T) {
	url := listen(t, newServer(t), HTTP{}) + "/mcp"
	for _, test := range []struct {
		version, name    string
		text, structured bool // which of them has the output
	}{
		{legacy, "opencode", true, false},
		{legacy, "codex-mcp-client", false, true},
		{legacy, "someone", true, true},
		{modern, "copilot-cli", true, false},
		{modern, "claude-code", false, true},
		{modern, "someone", true, true},
	} {
		body := calledBy(t, url, test.version, test.name, "999.0.0")
		var reply struct {
			Result struct {
				Content           []struct{ Text string }
				StructuredContent struct{ Stdout string }
			}
		}
		if err := json.Unmarshal([]byte(body[strings.Index(body, "{"):]), &reply); err != nil || len(reply.Result.Content) == 0 {
			t.Fatalf("%v: %s", err, body)
		}
		text, structured := strings.Contains(reply.Result.Content[0].Text, "hi\n"), reply.Result.StructuredContent.Stdout == "hi\n"
		if text != test.text || structured != test.structured {
			t.Errorf("%s with %s: output as text %v, as structured content %v; want %v, %v", test.name, test.version, text, structured, test.text, test.structured)
		}
	}
}

// calledBy returns the reply to an exec of a client with a name and a version, in a version of the
// protocol.
func calledBy(t *testing.T, url, protocol, name, version string) string {
	t.Helper()
	named := strings.NewReplacer(`"test"`, `"`+name+`"`, `"version":"1"`, `"version":"`+version+`"`)
	if protocol == modern {
		return modernCall(t, url, named.Replace(modernMeta), `{"cmd":"echo hi"}`)
	}
	resp, _ := post(t, url, named.Replace(initialize(1, protocol)))
	_, body := post(t, url, toolCall(2, "exec", `{"cmd":"echo hi"}`), "Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", protocol)
	return body
}

func modernCall(t *testing.T, url, meta, args string) string {
	t.Helper()
	_, body := post(t, url, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"exec","arguments":`+args+`,`+meta+`}}`,
		"Mcp-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "exec")
	return body
}
