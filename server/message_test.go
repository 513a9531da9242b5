package server

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAmbiguousMessagesAreRefused(t *testing.T) {
	for _, good := range []string{
		ping,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"exec","arguments":{"cmd":"true","Name":"x"},"extra":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":-1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`,
		" \n" + ping + "\r\n",
	} {
		if _, err := parseMessage([]byte(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		``:                    "unexpected end",
		`null`:                "not a JSON object",
		`"ping"`:              "not a JSON object",
		"[" + ping + "]":      "not a JSON object",
		ping + ping:           "after top-level value",
		ping + "}":            "after top-level value",
		ping[:len(ping)-1]:    "unexpected end",
		`{"method":"a",}`:     "invalid",
		`{1:2}`:               "invalid",
		`{"method":7}`:        "method must be a string",
		`{"method":null}`:     "method must be a string",
		`{"id":null}`:         "id must be a string or a number",
		`{"id":[1]}`:          "id must be a string or a number",
		`{"id":true}`:         "id must be a string or a number",
		`{"id":{"a":"b"}}`:    "id must be a string or a number",
		`{"params":{"a":1,}}`: "invalid",

		`{"method":"ping","method":"tools/call"}`:      `"method" twice`,
		`{"method":"ping","m\u0065thod":"tools/call"}`: `"method" twice`,
		`{"id":1,"id":2}`:                               `"id" twice`,
		`{"params":{},"params":{}}`:                     `"params" twice`,
		`{"Method":"ping"}`:                             `has no member "Method"`,
		`{"method":"ping","METHOD":"tools/call"}`:       `has no member "METHOD"`,
		`{"method":"ping","param\u017f":{}}`:            `has no member "paramſ"`,
		`{"method":"ping","method\u0000":"tools/call"}`: `has no member "method\x00"`,
		`{"method":"ping","":1}`:                        `has no member ""`,
		`{"jsonrpc":"2.0","method":"a","params":{"name":"list","name":"exec"}}`: `"name" twice`,
		`{"jsonrpc":"2.0","method":"a","params":{"name":"list","Name":"exec"}}`: `"Name" of params must be spelled "name"`,
		`{"jsonrpc":"2.0","method":"a","params":{"name\u0000":"exec"}}`:         `of params must be spelled "name"`,
		`{"jsonrpc":"2.0","method":"a","params":{"Argument\u017f":{}}}`:         `of params must be spelled "arguments"`,
		`{"jsonrpc":"2.0","method":"a","params":{"_META":{}}}`:                  `of params must be spelled "_meta"`,
		`{"jsonrpc":"2.0","method":"a","params":{"requestID":1}}`:               `of params must be spelled "requestId"`,
		`{"x` + strings.Repeat("x", 1000) + `":1}`:                              "has no member",
		`{"id":` + strings.Repeat("[", 1_000_000):                               "depth",
		strings.Repeat(`{"params":`, 1_000_000):                                 "depth",
		`{"params":{"arguments":` + strings.Repeat("[", 20_000):                 "depth",
	} {
		_, err := parseMessage([]byte(bad))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%.80s: %v, want %s", bad, err, want)
		}
	}
}

// FuzzParseMessage: every JSON parser reads an accepted message in the same way.
// encoding/json, as mcp-go uses it, stands for parsers that ignore case and take the last of
// two members, a map for those that compare names exactly.
func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		ping, toolCall(1, "exec", `{"cmd":"true"}`), `{"method":"a","params":{"name":"x","Name":"y"}}`,
		`{"id":1.5e3,"result":null}`, `{"method":"\ud800"}`, `{"params":{"_meta":{"a":1}}}`, `{"params":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parseMessage(body)
		if err != nil {
			return
		}
		var loose struct {
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
		}
		var exact map[string]json.RawMessage
		if err := json.Unmarshal(body, &loose); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := json.Unmarshal(body, &exact); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		var method string
		json.Unmarshal(exact["method"], &method)
		if loose.Method != m.method || method != m.method || string(loose.Params) != string(exact["params"]) {
			t.Fatalf("%s: parseMessage reads the method %q, others %q and %q", body, m.method, loose.Method, method)
		}
		var tool struct {
			Name string `json:"name"`
		}
		var params map[string]json.RawMessage
		if json.Unmarshal(loose.Params, &tool) == nil && json.Unmarshal(loose.Params, &params) == nil {
			var name string
			json.Unmarshal(params["name"], &name)
			if name != tool.Name {
				t.Fatalf("%s: one reads the tool %q, another %q", body, tool.Name, name)
			}
		}
	})
}
