package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A standIn is a model on loopback, for hosts. It speaks the APIs of Anthropic, OpenAI (chat and
// responses) and Gemini. It makes the calls of a script, one in each turn, then says "done", and
// records what it is shown. It is the hosts' proxy too, so what they would reach elsewhere is
// recorded and refused.
type standIn struct {
	script []scripted
	url    string

	mu        sync.Mutex
	prompt    string      // the first request that offers tools of warmbox
	tools     []shownTool // that it offers
	turns     int         // requests until the first call of the script
	results   []string    // of the calls of the script, as they are shown
	elsewhere []string    // what a host tried to reach besides its model
}

// A scripted call of a tool.
type scripted struct{ tool, args string }

// A shownTool is a definition as a model reads it.
type shownTool struct {
	name, description string
	namespace         string // of the responses API
}

// A turn is a request to the model, in terms that all APIs share.
type turn struct {
	tools   []shownTool
	results []string
}

// A dialect is one API.
type dialect struct {
	read  func(q request) turn
	reply func(w http.ResponseWriter, q request, use *toolUse)
}

// A toolUse is a call as a model makes it.
type toolUse struct {
	shownTool
	args json.RawMessage
	id   string
}

// useID begins the ids of calls of the script.
const useID = "call_warmbox"

func newStandIn(t *testing.T, script []scripted) *standIn {
	s := &standIn{script: script}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.IsAbs() && "http://"+r.URL.Host != s.url {
		s.mu.Lock()
		s.elsewhere = append(s.elsewhere, r.Host)
		s.mu.Unlock()
		http.Error(w, "only loopback", http.StatusForbidden)
		return
	}
	var body bytes.Buffer
	body.ReadFrom(r.Body)
	var q request
	json.Unmarshal(body.Bytes(), &q)
	d, ok := dialectOf(r.URL.Path)
	if !ok { // a list of models, the size of a prompt
		writeJSON(w, map[string]any{"object": "list", "data": []any{}, "models": []any{}, "input_tokens": 1, "totalTokens": 1})
		return
	}
	d.reply(w, q, s.next(d.read(q), body.String()))
}

// next records a turn and returns the call that answers it, nil for "done".
func (s *standIn) next(t turn, prompt string) *toolUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	var own []shownTool
	for _, tool := range t.tools {
		if ourTool.MatchString(tool.namespace + "/" + tool.name) {
			own = append(own, tool)
		}
	}
	if len(own) == 0 && len(s.results) == 0 {
		return nil // it asks for a title or the like
	}
	if s.prompt == "" {
		s.prompt, s.tools = prompt, own
	}
	if n := len(s.results); n < len(t.results) {
		s.results = append(s.results, t.results[n:]...)
	}
	n := len(t.results)
	if n == 0 {
		s.turns++
	}
	if n >= len(s.script) {
		return nil
	}
	for _, tool := range own {
		if strings.HasSuffix(tool.name, s.script[n].tool) {
			args := strings.ReplaceAll(s.script[n].args, "LAST", s.lastExec())
			return &toolUse{tool, json.RawMessage(args), fmt.Sprintf("%s_%d", useID, n)}
		}
	}
	return nil
}

// lastExec returns the last execId in the results, as it is in a result that says how to go on.
func (s *standIn) lastExec() string {
	ids := execID.FindAllString(strings.Join(s.results, "\n"), -1)
	if len(ids) == 0 {
		return ""
	}
	return ids[len(ids)-1]
}

var execID = regexp.MustCompile(`\be-[0-9a-z]{10}\b`)

// ourTool matches the names that hosts give the tools of a server named warmbox.
var ourTool = regexp.MustCompile(`warmbox.*(start|exec|logs|input|list|stop)$`)

// dialectOf returns the API of a path.
func dialectOf(path string) (dialect, bool) {
	for end, d := range map[string]dialect{
		"/messages": {readMessages, replyMessages}, "/chat/completions": {readChat, replyChat}, "/responses": {readResponses, replyResponses},
		":generateContent": {readGemini, replyGemini}, ":streamGenerateContent": {readGemini, replyGemini},
	} {
		if strings.HasSuffix(path, end) {
			return d, true
		}
	}
	return dialect{}, false
}

// A request has the fields of all APIs that the stand-in reads.
type request struct {
	Stream   bool
	Tools    []toolEntry
	Messages []struct {
		Role       string
		Content    json.RawMessage
		ToolCallID string `json:"tool_call_id"`
	}
	Input    json.RawMessage // of the responses API
	Contents []struct {
		Parts []struct {
			FunctionResponse struct {
				Name     string
				Response json.RawMessage
			}
		}
	}
}

// A toolEntry is a tool, or several, in any API.
type toolEntry struct {
	Type, Name, Description string
	Function                struct{ Name, Description string }
	Tools                   []toolEntry
	FunctionDeclarations    []toolEntry
}

// shown lists the tools of an entry.
func (e toolEntry) shown() (list []shownTool) {
	switch {
	case e.Function.Name != "":
		return []shownTool{{name: e.Function.Name, description: e.Function.Description}}
	case len(e.FunctionDeclarations) > 0:
		for _, f := range e.FunctionDeclarations {
			list = append(list, f.shown()...)
		}
		return list
	case len(e.Tools) > 0:
		for _, f := range e.Tools {
			list = append(list, shownTool{f.Name, f.Description, e.Name})
		}
		return list
	}
	return []shownTool{{name: e.Name, description: e.Description}}
}

func (q request) tools() (list []shownTool) {
	for _, e := range q.Tools {
		list = append(list, e.shown()...)
	}
	return list
}

// textOf renders content: a string, or parts with text.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct{ Text *string }
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var list []string
	for _, p := range parts {
		if p.Text == nil {
			return string(raw)
		}
		list = append(list, *p.Text)
	}
	return strings.Join(list, "\n-- part --\n")
}

func readMessages(q request) turn {
	t := turn{tools: q.tools()}
	for _, m := range q.Messages {
		var blocks []struct {
			Type    string
			ID      string `json:"tool_use_id"`
			Content json.RawMessage
			IsError bool `json:"is_error"`
		}
		json.Unmarshal(m.Content, &blocks)
		for _, b := range blocks {
			if b.Type == "tool_result" && strings.HasPrefix(b.ID, useID) {
				text := textOf(b.Content)
				if b.IsError {
					text = "(is_error) " + text
				}
				t.results = append(t.results, text)
			}
		}
	}
	return t
}

func replyMessages(w http.ResponseWriter, q request, use *toolUse) {
	block, delta, stop := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": "done"}, "end_turn"
	if use != nil {
		block = object{"type": "tool_use", "id": use.id, "name": use.name, "input": object{}}
		delta, stop = object{"type": "input_json_delta", "partial_json": string(use.args)}, "tool_use"
	}
	message := object{"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil,
		"stop_sequence": nil, "usage": object{"input_tokens": 1, "output_tokens": 1}}
	if !q.Stream {
		message["content"], message["stop_reason"] = []any{object{"type": "text", "text": "done"}}, "end_turn"
		writeJSON(w, message)
		return
	}
	writeEvents(w, true,
		object{"type": "message_start", "message": message},
		object{"type": "content_block_start", "index": 0, "content_block": block},
		object{"type": "content_block_delta", "index": 0, "delta": delta},
		object{"type": "content_block_stop", "index": 0},
		object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 5}},
		object{"type": "message_stop"})
}

func readChat(q request) turn {
	t := turn{tools: q.tools()}
	for _, m := range q.Messages {
		if m.Role == "tool" && strings.HasPrefix(m.ToolCallID, useID) {
			t.results = append(t.results, textOf(m.Content))
		}
	}
	return t
}

func replyChat(w http.ResponseWriter, q request, use *toolUse) {
	message, finish := object{"role": "assistant", "content": "done"}, "stop"
	if use != nil {
		message = object{"role": "assistant", "content": nil, "tool_calls": []any{object{"index": 0, "id": use.id, "type": "function",
			"function": object{"name": use.name, "arguments": string(use.args)}}}}
		finish = "tool_calls"
	}
	usage := object{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
	chunk := func(choices ...any) object {
		return object{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": append([]any{}, choices...)}
	}
	if !q.Stream {
		whole := chunk(object{"index": 0, "message": message, "finish_reason": finish})
		whole["object"], whole["usage"] = "chat.completion", usage
		writeJSON(w, whole)
		return
	}
	last := chunk()
	last["usage"] = usage
	writeEvents(w, false, chunk(object{"index": 0, "delta": message, "finish_reason": nil}),
		chunk(object{"index": 0, "delta": object{}, "finish_reason": finish}), last, "[DONE]")
}

func readResponses(q request) turn {
	t := turn{tools: q.tools()}
	var items []struct {
		Type   string
		CallID string `json:"call_id"`
		Output json.RawMessage
	}
	json.Unmarshal(q.Input, &items)
	for _, i := range items {
		if i.Type == "function_call_output" && strings.HasPrefix(i.CallID, useID) {
			t.results = append(t.results, textOf(i.Output))
		}
	}
	return t
}

func replyResponses(w http.ResponseWriter, _ request, use *toolUse) {
	item := object{"type": "message", "id": "m_1", "role": "assistant", "status": "completed",
		"content": []any{object{"type": "output_text", "text": "done", "annotations": []any{}}}}
	if use != nil {
		item = object{"type": "function_call", "id": "f_" + use.id, "call_id": use.id, "name": use.name, "arguments": string(use.args), "status": "completed"}
		if use.namespace != "" {
			item["namespace"] = use.namespace
		}
	}
	response := func(status string, output ...any) object {
		return object{"id": "resp_1", "object": "response", "status": status, "model": "m", "output": append([]any{}, output...),
			"usage": object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
				"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}
	}
	writeEvents(w, true,
		object{"type": "response.created", "response": response("in_progress")},
		object{"type": "response.output_item.added", "output_index": 0, "item": item},
		object{"type": "response.output_item.done", "output_index": 0, "item": item},
		object{"type": "response.completed", "response": response("completed", item)})
}

func readGemini(q request) turn {
	t := turn{tools: q.tools()}
	for _, c := range q.Contents {
		for _, p := range c.Parts {
			if f := p.FunctionResponse; ourTool.MatchString(f.Name) {
				t.results = append(t.results, geminiText(f.Response))
			}
		}
	}
	return t
}

// geminiText renders the response of a function: an object with a text as output or error.
func geminiText(raw json.RawMessage) string {
	var r map[string]any
	if json.Unmarshal(raw, &r) == nil && len(r) == 1 {
		for name, value := range r {
			if text, ok := value.(string); ok {
				return name + ": " + text
			}
		}
	}
	return string(raw)
}

func replyGemini(w http.ResponseWriter, q request, use *toolUse) {
	part := object{"text": "done"}
	if use != nil {
		part = object{"functionCall": object{"name": use.name, "args": use.args}}
	}
	o := object{
		"candidates":    []any{object{"content": object{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": object{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}
	if len(q.Tools) == 0 {
		writeJSON(w, o)
		return
	}
	writeEvents(w, false, o)
}

type object = map[string]any

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// writeEvents writes server-sent events: objects, or a text as it is.
func writeEvents(w http.ResponseWriter, named bool, events ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if text, ok := e.(string); ok {
			fmt.Fprintf(w, "data: %s\n\n", text)
			continue
		}
		if named {
			fmt.Fprintf(w, "event: %s\n", e.(object)["type"])
		}
		data, _ := json.Marshal(e)
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
}
