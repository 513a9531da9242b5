package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// A mutator changes messages of a client at a few places, the same way in each run.
type mutator struct{ *rand.Rand }

func newMutator() mutator { return mutator{rand.New(rand.NewPCG(20260728, 5000))} }

var validMessages = []string{
	`{"jsonrpc":"2.0","id":7,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"seven","method":"tools/list","params":{}}`,
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"list","arguments":{}}}`,
	`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"true","waitSeconds":1},"_meta":{"progressToken":8}}}`,
	`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"logs","arguments":{"execId":"r-none"}}}`,
	`{"jsonrpc":"2.0","id":10,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"scribe","version":"1"}}}`,
	`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"list","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	`{"jsonrpc":"2.0","id":12,"method":"resources/read","params":{"uri":"warmbox://logs/r-none"}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8,"reason":"no"}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"answer":"allow once"}}}`,
	`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}`,
}

var invalidPieces = []string{
	`null`, `{}`, `[]`, `true`, `"`, `\`, `{`, `]`, `,`, `:`, `1e999`, `-0`, `9007199254740993`, `"\ud800"`, `\u0000`, "\xff", "\x00", " ", "\r",
	`"id":`, `"method":"ping",`, `"ID":1,`, `"params":[],`, `"result":{},`, strings.Repeat("[", 300), strings.Repeat("x", 3000),
}

// message returns a message that is changed at one to three places.
func (s mutator) message() string {
	m := validMessages[s.IntN(len(validMessages))]
	for range 1 + s.IntN(3) {
		from := s.IntN(len(m) + 1)
		to := min(len(m), from+s.IntN(12))
		switch s.IntN(5) {
		case 0:
			m = m[:from] + m[to:]
		case 1:
			m = m[:from] + invalidPieces[s.IntN(len(invalidPieces))] + m[from:]
		case 2:
			m = m[:from] + invalidPieces[s.IntN(len(invalidPieces))] + m[to:]
		case 3:
			m = m[:to] + m[from:]
		case 4:
			b := []byte(m)
			b[s.IntN(len(b))] ^= 1 << s.IntN(8)
			m = string(b)
		}
		if m == "" {
			m = "x"
		}
	}
	return strings.ReplaceAll(m, "\n", " ")
}

// errorOf returns the code of the error, without an id, that JSON-RPC demands for a
// message, or 0 if that depends on more than its text.
func errorOf(message string) int {
	var members map[string]json.RawMessage
	switch err := json.Unmarshal([]byte(message), &members); {
	case !utf8.ValidString(message) || !json.Valid([]byte(message)):
		return -32700
	case err != nil || members == nil:
		return -32600
	}
	_, result := members["result"]
	_, failed := members["error"]
	if id := members["id"]; id != nil && !result && !failed && !bytes.ContainsRune([]byte(`"-0123456789`), rune(id[0])) {
		return -32600
	}
	return 0
}

// An rpcAnswer is a response, request or notification of the server.
type rpcAnswer struct {
	JSONRPC string
	ID      json.RawMessage
	Method  string
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
}

// known are the codes of the errors that a server may send.
var known = []int{-32700, -32600, -32601, -32602, -32000, -32002, -32020, -32021, -32022}

func readAnswer(t *testing.T, text []byte) (a rpcAnswer) {
	t.Helper()
	err := json.Unmarshal(text, &a)
	switch {
	case err != nil || a.JSONRPC != "2.0" || a.Method == "" && (a.Result == nil) == (a.Error == nil):
		t.Fatalf("not a JSON-RPC message: %.300q (%v)", text, err)
	case a.Error != nil && (!slices.Contains(known, a.Error.Code) || a.Error.Message == ""):
		t.Fatalf("unknown error: %.300s", text)
	}
	return a
}

// realProgram has a home run the program as users have it. With the race detector it
// would need many times the memory.
func realProgram(t *testing.T, h home) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(h.dir), "warmbox"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// onlyTrue are the flags for boxes without an engine that run no command but true.
var onlyTrue = []string{"--backend", "process", "--exec-whitelist", "true", "--pool-warm", "0", "--log-level", "error"}

const (
	mutations = 5000
	// maxMemory is twice what an idle server and a few messages need, and less than a
	// few messages that the server would retain.
	maxMemory = 60_000 // KB
)

// endsWithTest closes the program's input at the end of the test and waits for it.
func (c *wireClient) endsWithTest() *wireClient {
	c.t.Cleanup(func() {
		c.in.Close()
		io.Copy(io.Discard, c.out)
		c.cmd.Wait()
	})
	return c
}

// ask sends a line and then a ping, and returns the answers before the ping's. Later
// ones belong to calls that go on.
func (k *wireClient) ask(line string, n int) (answers []rpcAnswer) {
	k.t.Helper()
	id := fmt.Sprintf(`"ping %d"`, n)
	if _, err := io.WriteString(k.in, line+"\n"+`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n"); err != nil {
		k.t.Fatalf("after %.300q: %v", line, err)
	}
	for {
		text, err := k.out.ReadBytes('\n')
		if err != nil {
			k.t.Fatalf("after %.300q: %v", line, err)
		}
		a := readAnswer(k.t, text)
		if string(a.ID) == id {
			return answers
		}
		answers = append(answers, a)
	}
}

// TestMutatedMessagesOverStdio checks that the server answers an invalid message with
// the error that JSON-RPC demands, and serves the next message.
func TestMutatedMessagesOverStdio(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	realProgram(t, h)
	k := startWire(t, h.warmbox(t, append([]string{"stdio"}, onlyTrue...)...)).endsWithTest()
	s := newMutator()
	for n := range mutations {
		m := s.message()
		want := errorOf(m)
		if strings.TrimSpace(m) == "" {
			want = 0
		}
		answers := k.ask(m, n)
		if want != 0 && !slices.ContainsFunc(answers, func(a rpcAnswer) bool {
			return a.Error != nil && a.Error.Code == want && string(a.ID) == "null"
		}) {
			t.Errorf("message %d, %.300q: %+v, want the error %d", n, m, answers, want)
		}
		if n%2500 == 1000 {
			long := k.ask(`{"jsonrpc":"2.0","id":5,"method":"ping","params":{"x":"`+strings.Repeat("x", 20_000_000)+`"}}`, -n)
			if len(long) == 0 || long[len(long)-1].Error == nil || !strings.Contains(long[len(long)-1].Error.Message, "MiB") {
				t.Errorf("20 MB in a line: %.300v", long)
			}
		}
	}
	kb := resident(t, k.cmd.Process.Pid)
	t.Logf("%d KB at peak", kb)
	if kb > maxMemory {
		t.Errorf("the server took %d KB, more than %d", kb, maxMemory)
	}
}

// TestMutatedMessagesOverHTTP checks the same for a client with a valid session.
func TestMutatedMessagesOverHTTP(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	realProgram(t, h)
	url, server := h.serveHTTP(t, append(onlyTrue, "--token-file", h.write(t, "token", manyToken), "--max-rate", "100000", "--log-level", "info")...)
	c := &poster{t: t, url: url}
	if status, text := c.post(validMessages[5]); status != http.StatusOK || c.session == "" {
		t.Fatalf("%d %s", status, text)
	}
	s := newMutator()
	for n := range mutations {
		m := s.message()
		status, text := c.post(m)
		var a rpcAnswer
		if len(text) > 0 && !bytes.HasPrefix(text, []byte("event: ")) {
			a = readAnswer(t, text)
		} else if status == http.StatusAccepted {
			a.Method = "none"
		}
		want := errorOf(m)
		switch {
		case want != 0 && (status != http.StatusBadRequest || a.Error == nil || a.Error.Code != want || string(a.ID) != "null"):
			t.Errorf("message %d, %.300q: %d %.300s, want the error %d", n, m, status, text, want)
		case !slices.Contains([]int{http.StatusOK, http.StatusAccepted, http.StatusBadRequest, http.StatusNotFound}, status):
			t.Errorf("message %d, %.300q: %d %.300s", n, m, status, text)
		}
	}
	if status, text := c.post(strings.Repeat(" ", 20_000_000)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("20 MB: %d %.300s", status, text)
	}
	if status, text := c.post(validMessages[0]); status != http.StatusOK {
		t.Errorf("after the invalid messages: %d %s", status, text)
	}
	kb := resident(t, server.Pid)
	t.Logf("%d KB at peak", kb)
	if kb > maxMemory {
		t.Errorf("the server took %d KB, more than %d", kb, maxMemory)
	}
}

const manyToken = "token-for-many-messages"

// A poster sends messages of one session.
type poster struct {
	t            *testing.T
	url, session string
}

func (c *poster) post(message string) (status int, answer []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Authorization": {"Bearer " + manyToken}, "Mcp-Session-Id": {c.session},
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("after %.300q: %v", message, err)
	}
	defer resp.Body.Close()
	if c.session == "" {
		c.session = resp.Header.Get("Mcp-Session-Id")
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("after %.300q: %v", message, err)
	}
	return resp.StatusCode, text
}

// TestIdleServerHasFewGoroutines counts the stacks that the program prints on SIGQUIT.
func TestIdleServerHasFewGoroutines(t *testing.T) {
	const most = 25
	needAgent(t)
	stacks, err := os.Create(filepath.Join(t.TempDir(), "stacks"))
	if err != nil {
		t.Fatal(err)
	}
	defer stacks.Close()
	cmd := newHome(t).warmbox(t, append([]string{"stdio"}, onlyTrue...)...)
	cmd.Env, cmd.Stderr = append(cmd.Env, "GOTRACEBACK=all"), stacks
	k := startWire(t, cmd).endsWithTest()
	k.ask(validMessages[5], 1)
	k.ask(validMessages[3], 2)
	for n := 3; len(k.ask(validMessages[2], n)) == 0; n++ { // the command ends before long
	}
	cmd.Process.Signal(syscall.SIGQUIT)
	io.Copy(io.Discard, k.out)
	text, err := os.ReadFile(stacks.Name())
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^goroutine \d+ .*:$`).FindAll(text, -1)
	t.Logf("%d goroutines", len(found))
	if len(found) == 0 || len(found) > most {
		t.Errorf("%d goroutines, want at most %d:\n%s", len(found), most, text)
	}
}
