package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

// A wire is a client that sends exactly the lines that a test gives it.
type wire struct {
	t     testing.TB
	in    io.WriteCloser
	out   *bufio.Reader
	ended chan error // what ServeStdio returned
}

// serveStdio serves over pipes until the test ends.
func serveStdio(t testing.TB, s *Server) *wire {
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	w := &wire{t, in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		w.ended <- s.ServeStdio(t.Context(), stdin, stdout)
		stdout.Close()
	}()
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, w.out) // until it has ended
	})
	return w
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		w.t.Fatal(err)
	}
}

type message struct {
	ID     any            `json:"id"`
	Result map[string]any `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// line returns the next reply as text.
func (w *wire) line() string {
	w.t.Helper()
	timer := time.AfterFunc(waitLimit, func() { panic("no reply") })
	defer timer.Stop()
	line, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatal(err)
	}
	return line
}

// next returns the next reply.
func (w *wire) next() message {
	w.t.Helper()
	line := w.line()
	var m message
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		w.t.Fatalf("not JSON: %q: %v", line, err)
	}
	return m
}

func (w *wire) ask(line string) message {
	w.t.Helper()
	w.send(line)
	return w.next()
}

func initialize(id int, version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, id, version)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"}}`

func toolCall(id int, tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args)
}

var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

func TestEveryProtocolVersionOverStdio(t *testing.T) {
	w := serveStdio(t, newServer(t))
	for i, version := range legacyVersions {
		if m := w.ask(initialize(i, version)); m.Error != nil || m.Result["protocolVersion"] != version {
			t.Errorf("initialize with %s: %+v", version, m)
		}
	}
	m := w.ask(`{"jsonrpc":"2.0","id":9,"method":"server/discover","params":{` + modernMeta + `}}`)
	versions, _ := m.Result["supportedVersions"].([]any)
	if !slices.Contains(versions, any("2026-07-28")) {
		t.Errorf("server/discover: %+v", m)
	}
	m = w.ask(`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"exec","arguments":{"cmd":"echo hi"},` + modernMeta + `}}`)
	if fields(t, m.Result["structuredContent"])["stdout"] != "hi\n" {
		t.Errorf("exec by 2026-07-28: %+v", m)
	}
}

// TestToolListNeedsNoEngine: hosts give a server some seconds to list its tools, also if the
// engine hangs.
func TestToolListNeedsNoEngine(t *testing.T) {
	s := newServer(t)
	s.Manager.Launcher = launcherFunc(func(ctx context.Context, _ string, _ sandbox.Spec) (io.ReadWriteCloser, error) {
		t.Error("the engine was used")
		<-ctx.Done()
		return nil, ctx.Err()
	})
	w := serveStdio(t, s)
	w.ask(initialize(1, "2025-11-25"))
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	w.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
}

type launcherFunc func(context.Context, string, sandbox.Spec) (io.ReadWriteCloser, error)

func (f launcherFunc) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	return f(ctx, id, spec)
}

func TestBadInputDoesNotEndTheSession(t *testing.T) {
	w := serveStdio(t, newServer(t))
	w.ask(initialize(1, "2025-11-25"))
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for _, line := range []string{
		`no JSON`,
		`{"jsonrpc":"2.0","id":2`,
		`null`,
		`"text"`,
		`[{"jsonrpc":"2.0","id":3,"method":"ping"}]`,
		`[]`,
		`{"jsonrpc":"1.0","id":4,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":5,"method":"no/such"}`,
		`{"jsonrpc":"2.0","id":6,"method":7}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[1]}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"nosuch"}}`,
		`{"jsonrpc":"2.0","id":9,"method":"initialize","params":"text"}`,
		`{"jsonrpc":"2.0","id":11,"method":"no/such","params":` + deep + `}`,
		`{"jsonrpc":"2.0","id":12,"method":"no/such","method":"no/such/either"}`,
		"\x00\xff\xfe",
		strings.Repeat("x", maxLine+1),
	} {
		shown := fmt.Sprintf("%.80s", line)
		if m := w.ask(line); m.Error == nil || m.Error.Message == "" {
			t.Errorf("%s: answered with %+v, want an error", shown, m)
		}
		if m := w.ask(`{"jsonrpc":"2.0","id":99,"method":"ping"}`); m.Error != nil || m.ID != 99.0 {
			t.Fatalf("after %s: ping was answered with %+v", shown, m)
		}
	}
	for id, args := range []string{`{"cmd":5}`, `[]`, `"text"`, `{}`, `{"cmd":"true","nosuch":1}`, `{"cmd":"true","cmd":"false","env":5}`} {
		if m := w.ask(toolCall(id, "exec", args)); m.Error == nil && m.Result["isError"] != true {
			t.Errorf("exec %s: answered with %+v, want an error", args, m)
		}
	}
}

// TestLongLineCostsLittleMemory: a line that is too long is skipped, not stored.
func TestLongLineCostsLittleMemory(t *testing.T) {
	w := serveStdio(t, newServer(t))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for range 512 {
		if _, err := w.in.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if m := w.ask(""); m.Error == nil || !strings.Contains(m.Error.Message, "8 MiB") {
		t.Errorf("answered with %+v", m)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 256<<20 {
		t.Errorf("%d MiB were allocated for a line of 512", grown>>20)
	}
}

// TestBoxesEndWithTheSession: soon, and however the session ends.
func TestBoxesEndWithTheSession(t *testing.T) {
	for name, end := range map[string]func(w *wire, cancel func()){
		"stdin ends":   func(w *wire, _ func()) { w.in.Close() },
		"context ends": func(_ *wire, cancel func()) { cancel() },
		"stdout fails": func(w *wire, _ func()) { w.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stdin, in := io.Pipe()
			defer in.Close()
			w := &wire{t, in, nil, make(chan error, 1)}
			go func() { w.ended <- s.ServeStdio(ctx, stdin, failingWriter{}) }()
			w.send(toolCall(1, "exec", `{"cmd":"setsid sleep 1000 & trap '' TERM; touch here; sleep 1000"}`))
			await(t, func() bool { b := s.Manager.Boxes(localOwner); return len(b) == 1 && b[0].Live() == 1 })
			box := s.Manager.Boxes(localOwner)[0]

			start := time.Now()
			end(w, cancel)
			select {
			case err := <-w.ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the server has not ended after ten seconds")
			}
			t.Logf("ended after %v", time.Since(start).Round(time.Millisecond))
			select {
			case <-box.Done():
			default:
				t.Error("the box is still there")
			}
		})
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestClientThatReadsNothingCannotBlockTheEnd: the server ends although a reply is not read.
func TestClientThatReadsNothingCannotBlockTheEnd(t *testing.T) {
	s := newServer(t)
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	defer out.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeStdio(t.Context(), stdin, stdout) }()
	io.WriteString(in, initialize(1, "2025-11-25")+"\n")
	in.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the server has not ended after ten seconds")
	}
}

// TestServerRespondsWhileCommandsHang: while a hundred commands hang in several boxes, ping is
// answered, calls that must not wait return that their command runs, a command above the limit
// is refused at once, and stop ends them all.
func TestServerRespondsWhileCommandsHang(t *testing.T) {
	const hung, boxes = 100, 4
	s := newServer(t)
	s.Manager.MaxRuns = hung
	w := serveStdio(t, s)
	w.ask(initialize(1, "2025-11-25"))
	var ids []string
	for i := range boxes {
		m := w.ask(toolCall(10+i, "start", `{}`))
		ids = append(ids, fields(t, m.Result["structuredContent"])["id"].(string))
	}
	hang := func(call int) string {
		return toolCall(call, "exec", fmt.Sprintf(`{"cmd":"sleep 1000","containerId":%q,"waitSeconds":600}`, ids[call%boxes]))
	}
	for i := range maxWaiting {
		w.send(hang(100 + i))
	}
	live := func() (n int) {
		for _, b := range s.Manager.Boxes(localOwner) {
			n += b.Live()
		}
		return n
	}
	await(t, func() bool { return live() == maxWaiting })
	for i := maxWaiting; i < hung; i++ {
		if m := w.ask(hang(100 + i)); fields(t, m.Result["structuredContent"])["status"] != "running" {
			t.Errorf("%+v", m)
		}
	}
	start := time.Now()
	if m := w.ask(`{"jsonrpc":"2.0","id":3,"method":"ping"}`); m.ID != 3.0 || m.Error != nil {
		t.Errorf("ping: %+v", m)
	}
	t.Logf("ping took %v", time.Since(start))
	if m := w.ask(hang(4)); fields(t, m.Result["structuredContent"])["code"] != sandbox.LimitReached {
		t.Errorf("one command too many: %+v", m)
	}
	for i, id := range ids {
		w.send(toolCall(20+i, "stop", fmt.Sprintf(`{"containerId":%q}`, id)))
	}
	answered := map[any]bool{}
	for range maxWaiting + boxes {
		answered[w.next().ID] = true
	}
	if len(answered) != maxWaiting+boxes {
		t.Errorf("%d of %d calls were answered", len(answered), maxWaiting+boxes)
	}
}

func TestPanicFailsItsCallOnly(t *testing.T) {
	s := newServer(t)
	s.Tools = []mcpserver.ServerTool{{
		Tool:    mcp.NewTool("boom"),
		Handler: func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) { panic("boom") },
	}}
	w := serveStdio(t, s)
	for id := range 2 {
		m := w.ask(toolCall(id, "boom", `{}`))
		if m.Result["isError"] != true || fields(t, m.Result["structuredContent"])["code"] != sandbox.Internal {
			t.Errorf("a tool that panics: %+v", m)
		}
	}
}

func TestInstructionsFitTheLimitOfHosts(t *testing.T) {
	if len(instructions) >= 2048 {
		t.Errorf("they have %d bytes, and hosts cut at 2,048", len(instructions))
	}
}

// await waits until a condition holds.
func await(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.After(waitLimit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the condition did not come to hold")
		}
	}
}

// TestLongMessageIsAnsweredByItsID: where the id comes before the long part, as clients write it.
func TestLongMessageIsAnsweredByItsID(t *testing.T) {
	for beginning, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"aaa`: `7`,
		`{"method":"tools/call","id":"seven","params":{"x":"aaa`:           `"seven"`,
		`{"method":"tools/call","params":{"id":1,"x":"aaa`:                 ``,
		`{"id":{"a":1},"params":{`:                                         ``,
		`[{"id":1`:                                                         ``,
		`{"id":1`:                                                          ``,
	} {
		if got := string(leadingID([]byte(beginning))); got != want {
			t.Errorf("%s: %q, want %q", beginning, got, want)
		}
	}
}
