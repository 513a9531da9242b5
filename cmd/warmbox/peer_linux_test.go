package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
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
	"time"
	"unicode/utf8"
)

// A scribe writes messages that are almost right: those of a client, changed at a
// few places, the same ones in each run.
type scribe struct{ *rand.Rand }

func newScribe() scribe { return scribe{rand.New(rand.NewPCG(20260728, 5000))} }

var rightMessages = []string{
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

var wrongPieces = []string{
	`null`, `{}`, `[]`, `true`, `"`, `\`, `{`, `]`, `,`, `:`, `1e999`, `-0`, `9007199254740993`, `"\ud800"`, `\u0000`, "\xff", "\x00", " ", "\r",
	`"id":`, `"method":"ping",`, `"ID":1,`, `"params":[],`, `"result":{},`, strings.Repeat("[", 300), strings.Repeat("x", 3000),
}

// message returns one that was changed at one to three places.
func (s scribe) message() string {
	m := rightMessages[s.IntN(len(rightMessages))]
	for range 1 + s.IntN(3) {
		from := s.IntN(len(m) + 1)
		to := min(len(m), from+s.IntN(12))
		switch s.IntN(5) {
		case 0:
			m = m[:from] + m[to:]
		case 1:
			m = m[:from] + wrongPieces[s.IntN(len(wrongPieces))] + m[from:]
		case 2:
			m = m[:from] + wrongPieces[s.IntN(len(wrongPieces))] + m[to:]
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

// errorOf tells what JSON-RPC says of a message, from its text alone: the error
// that answers it under no id, or 0 where that depends on more.
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

// An rpcAnswer is one, or a question or notification of the server's.
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

// known are the errors that a client may hear.
var known = []int{-32700, -32600, -32601, -32602, -32000, -32002, -32020, -32021, -32022}

func readAnswer(t *testing.T, text []byte) (a rpcAnswer) {
	t.Helper()
	err := json.Unmarshal(text, &a)
	switch {
	case err != nil || a.JSONRPC != "2.0" || a.Method == "" && (a.Result == nil) == (a.Error == nil):
		t.Fatalf("is no answer: %.300q (%v)", text, err)
	case a.Error != nil && (!slices.Contains(known, a.Error.Code) || a.Error.Message == ""):
		t.Fatalf("is an error that there should not be: %.300s", text)
	}
	return a
}

// realProgram puts the program as users have it where h runs its own: the race
// detector takes many times the memory.
func realProgram(t *testing.T, h home) {
	t.Helper()
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(h.dir), "warmbox"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// needAgent skips a test that starts boxes without an engine.
func needAgent(t *testing.T) {
	t.Helper()
	if ok, err := has("agent"); !ok {
		t.Skipf("the process backend needs Linux and an agent: %v", err)
	}
}

// onlyTrue has boxes without an engine run nothing that does anything.
var onlyTrue = []string{"--backend", "process", "--exec-whitelist", "true", "--pool-warm", "0", "--log-level", "error"}

const (
	mutations = 5000
	// maxMemory is more than an idle server and a few messages take, by a factor
	// of two, and less than a few messages that are kept.
	maxMemory = 60_000 // KB
)

// A talk is with a program on its standard input and output, line by line.
type talk struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// converse starts the program, which ends with the test.
func converse(t *testing.T, cmd *exec.Cmd) *talk {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k := &talk{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, k.out)
		cmd.Wait()
	})
	return k
}

// ask sends a line and then a ping, and returns what is answered up to that one's
// answer. What comes later belongs to calls that go on.
func (k *talk) ask(line string, n int) (answers []rpcAnswer) {
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

// TestMutatedMessagesOverStdio: whatever a client sends, it hears what is wrong in
// the terms of JSON-RPC, and the next message is served as ever.
func TestMutatedMessagesOverStdio(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	realProgram(t, h)
	k := converse(t, h.warmbox(t, append([]string{"stdio"}, onlyTrue...)...))
	s := newScribe()
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
	t.Logf("%d KB at most", kb)
	if kb > maxMemory {
		t.Errorf("the server took %d KB, more than %d", kb, maxMemory)
	}
}

// TestMutatedMessagesOverHTTP: the same of a client with a valid session.
func TestMutatedMessagesOverHTTP(t *testing.T) {
	needAgent(t)
	h := newHome(t)
	realProgram(t, h)
	token, log := filepath.Join(h.dir, "token"), filepath.Join(h.dir, "log")
	if err := errors.Join(os.WriteFile(token, []byte(manyToken), 0o600), h.own(token)); err != nil {
		t.Fatal(err)
	}
	cmd := h.warmbox(t, append(append([]string{"http"}, onlyTrue...),
		"--listen", "127.0.0.1:0", "--token-file", token, "--max-rate", "100000", "--log-file", log, "--log-level", "info")...)
	cmd.Stderr = os.Stderr
	untilTestEnds(t, cmd)
	c := &poster{t: t, url: awaitURL(t, log)}
	if status, text := c.post(rightMessages[5]); status != http.StatusOK || c.session == "" {
		t.Fatalf("%d %s", status, text)
	}
	s := newScribe()
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
	if status, text := c.post(rightMessages[0]); status != http.StatusOK {
		t.Errorf("after all that: %d %s", status, text)
	}
	kb := resident(t, cmd.Process.Pid)
	t.Logf("%d KB at most", kb)
	if kb > maxMemory {
		t.Errorf("the server took %d KB, more than %d", kb, maxMemory)
	}
}

// awaitURL returns where a server listens, as its log says.
func awaitURL(t *testing.T, log string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(log)
		if found := regexp.MustCompile(`url=(http\S+)`).FindSubmatch(text); found != nil {
			return string(found[1])
		}
	}
	t.Fatal("the server does not say where it listens")
	return ""
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

// TestIdleServerHasFewGoroutines counts them in what the program says when it is
// made to.
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
	k := converse(t, cmd)
	k.ask(rightMessages[5], 1)
	k.ask(rightMessages[3], 2)
	for n := 3; len(k.ask(rightMessages[2], n)) == 0; n++ { // the command has ended, or will have by then
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
