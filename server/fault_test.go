package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// faults are refused messages, with the code and the id of the error. Over stdio a message is a
// line, over HTTP a body.
var faults = []struct {
	name, message string
	code          int
	id            string
}{
	{"no JSON", `no`, -32700, "null"},
	{"half", `{"jsonrpc":"2.0","id":1`, -32700, "null"},
	{"two", ping + ping, -32700, "null"},
	{"not UTF-8", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + "\xff" + `"}}`, -32700, "null"},
	{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, -32700, "null"},
	{"null", `null`, -32600, "null"},
	{"string", `"ping"`, -32600, "null"},
	{"batch", `[` + ping + `]`, -32600, "null"},
	{"empty batch", `[]`, -32600, "null"},
	{"id null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600, "null"},
	{"id object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
	{"id array", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, -32600, "null"},
	{"id true", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600, "null"},
	{"id that no number holds", `{"jsonrpc":"2.0","id":1e999,"method":"ping"}`, -32600, "null"},
	{"long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"ping"}`, -32600, "null"},
	{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32600, "null"},
	{"two methods", `{"jsonrpc":"2.0","method":"ping","method":"tools/call","id":1}`, -32600, "null"},
	{"method is a number", `{"jsonrpc":"2.0","method":7,"id":9007199254740993}`, -32600, "9007199254740993"},
	{"method in another case", `{"jsonrpc":"2.0","id":"a","Method":"ping"}`, -32600, `"a"`},
	{"no method", `{"jsonrpc":"2.0","id":7}`, -32600, "7"},
	{"version", `{"jsonrpc":"1.0","id":7,"method":"ping"}`, -32600, "7"},
	{"no version", `{"id":7,"method":"ping"}`, -32600, "7"},
	{"version is a number", `{"jsonrpc":2.0,"id":7,"method":"ping"}`, -32600, "7"},
	{"request and answer", `{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}`, -32600, "null"},
	{"answer in another version", `{"jsonrpc":"1.0","id":7,"result":{}}`, -32600, "null"},
	{"no such method", `{"jsonrpc":"2.0","id":7,"method":"no/such"}`, -32601, "7"},
	{"cancel with an id", `{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled","params":{"requestId":7}}`, -32601, "7"},
	{"params is an array", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}`, -32602, "7"},
	{"params is a string", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":"x"}`, -32602, "7"},
	{"params is a number", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":5}`, -32602, "7"},
	{"name is a number", `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":5}}`, -32602, "9007199254740993"},
	{"a number that is none", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"exec","arguments":{"x":1e999}}}`, -32602, "7"},
	{"capabilities is a list", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":{}}}`, -32602, "7"},
	{"cursor is a number", `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":5}}`, -32602, "7"},
	{"_meta is a list", `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":[]}}`, -32602, "7"},
	{"a parameter twice", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list","name":"exec"}}`, -32602, "7"},
	{"a parameter in another case", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"list","Name":"exec"}}`, -32602, "7"},
	{"an argument twice", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"true","cmd":"false"}}}`, -32602, "7"},
	{"no tool", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, -32602, "7"},
	{"no such resource", `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"warmbox://logs/r-none"}}`, -32002, "7"},
	{"no such tool", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"none"}}`, -32602, "7"},
}

// A rawMessage has its id as it was written.
type rawMessage struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  struct {
		Code    int
		Message string
	}
}

// ids must be returned as they were sent: no number loses digits.
var ids = []string{`0`, `-1`, `9007199254740993`, `-9007199254740995`, `123456789012345678901234567890`, `1.50`, `1e3`, `""`, `"a"`, `"9007199254740993"`, `"\u0061"`}

func checkFault(t *testing.T, text string, code int, id string) {
	t.Helper()
	var m rawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Error.Code != code || string(m.ID) != id || m.Error.Message == "" {
		t.Errorf("%.300s (%v): want the error %d of the request %s", text, err, code, id)
	}
}

func checkAnswer(t *testing.T, text, id string) {
	t.Helper()
	var m rawMessage
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result == nil || string(m.ID) != id {
		t.Errorf("%.300s (%v): want the answer to %s", text, err, id)
	}
}

func TestFaultsOverStdio(t *testing.T) {
	w := serveStdio(t, newServer(t))
	w.ask(initialize(1, legacy))
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			w.t = t
			w.send(f.message)
			checkFault(t, w.line(), f.code, f.id)
		})
	}
	w.t = t
	for _, id := range ids {
		w.send(strings.Replace(ping, "7", id, 1))
		checkAnswer(t, w.line(), id)
		w.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"list","arguments":{}}}`)
		checkAnswer(t, w.line(), id)
	}
	// Notifications and answers get no reply, whatever is wrong with them.
	for _, silent := range []string{
		"", " ", "\r", "\t \r",
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`,
		`{"jsonrpc":"2.0","id":true,"result":null}`, `{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","method":"no/such"}`, `{"jsonrpc":"2.0","method":"tools/call","params":7}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
	} {
		w.send(silent)
		w.send(ping)
		checkAnswer(t, w.line(), "7")
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	url := listen(t, newServer(t), HTTP{}) + "/mcp"
	session := connect(t, url)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			resp, body := post(t, url, f.message, "Mcp-Session-Id", session)
			if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusBadRequest {
				t.Error(resp.Status)
			}
			checkFault(t, body, f.code, f.id)
		})
	}
	for _, id := range ids {
		_, body := post(t, url, strings.Replace(ping, "7", id, 1), "Mcp-Session-Id", session)
		checkAnswer(t, body, id)
	}
	if resp, body := post(t, url, `{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Session-Id", session); resp.StatusCode != http.StatusAccepted || body != "" {
		t.Errorf("an answer to nothing: %s %s", resp.Status, body)
	}
}
