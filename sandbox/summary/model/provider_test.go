package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/summary"
)

// An api implements one real wire format, and passes the model's part of it to a test.
type api struct {
	name string
	ask  func(Options) summary.Func
	path string
	// read checks the specifics of this API and returns the prompt.
	read  func(t *testing.T, h http.Header, body map[string]any) (system, user string)
	reply string // the response of the API, with %s for the text in JSON
}

var apis = []api{{
	name: "anthropic", ask: Anthropic, path: "/v1/messages",
	read: func(t *testing.T, h http.Header, body map[string]any) (string, string) {
		if h.Get("X-Api-Key") != testKey || h.Get("Anthropic-Version") == "" || h.Get("Authorization") != "" {
			t.Errorf("headers %v", h)
		}
		if body["max_tokens"] != float64(maxTokens) {
			t.Errorf("max_tokens %v", body["max_tokens"])
		}
		return at[string](body, "system", 0, "text"), at[string](body, "messages", 0, "content", 0, "text")
	},
	reply: `{"id":"msg_01","type":"message","role":"assistant","model":"m-1","content":[{"type":"text","text":%s}],` +
		`"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":900,"output_tokens":60}}`,
}, {
	name: "openai", ask: OpenAI, path: "/v1/chat/completions",
	read: func(t *testing.T, h http.Header, body map[string]any) (string, string) {
		if h.Get("Authorization") != "Bearer "+testKey || h.Get("Openai-Organization") != "" {
			t.Errorf("headers %v", h)
		}
		if body["max_tokens"] != float64(maxTokens) || at[string](body, "messages", 0, "role") != "system" {
			t.Errorf("max_tokens %v of %v", body["max_tokens"], body["messages"])
		}
		return at[string](body, "messages", 0, "content"), at[string](body, "messages", 1, "content")
	},
	reply: `{"id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"m-1","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":900,"completion_tokens":60,"total_tokens":960}}`,
}}

const testKey = "sk-test-0123456789abcdef"

// at returns a value within decoded JSON.
func at[T any](v any, path ...any) (found T) {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return found
			}
			v = list[step]
		}
	}
	found, _ = v.(T)
	return found
}

// write sends a successful response.
func (a *api) write(w http.ResponseWriter, text string) {
	quoted, _ := json.Marshal(text)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, a.reply, quoted)
}

const goodReply = "frob is undefined at main.go:42; the command failed with exit code 1."

// A mishap is a behaviour of a provider, over HTTP and as a command.
type mishap struct {
	name   string
	serve  func(a *api, w http.ResponseWriter, r *http.Request)
	script string // for sh
	want   string // in the error, "" for the good reply
}

func says(text string) func(*api, http.ResponseWriter, *http.Request) {
	return func(a *api, w http.ResponseWriter, _ *http.Request) { a.write(w, text) }
}

func status(code int, body string) func(*api, http.ResponseWriter, *http.Request) {
	return func(_ *api, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// hang holds a connection until the client closes it.
func hang(_ *api, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip sends a response that never ends.
func drip(a *api, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for tick := time.Tick(10 * time.Millisecond); ; {
		select {
		case <-r.Context().Done():
			return
		case <-tick:
			io.WriteString(w, " ")
			w.(http.Flusher).Flush()
		}
	}
}

// slowly sends a successful response after a delay.
func slowly(a *api, w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(50 * time.Millisecond):
		a.write(w, goodReply)
	case <-r.Context().Done():
	}
}

var megabytes = strings.Repeat("all work and no play ", 5<<20/21)

var mishaps = []mishap{
	{"good", says(goodReply), "cat >/dev/null; echo '" + goodReply + "'", ""},
	{"slow", slowly, "cat >/dev/null; sleep 0.05; echo '" + goodReply + "'", ""},
	{"hanging", hang, "sleep 60", "no answer within 400ms"},
	{"hanging children", hang, "sleep 61 & sleep 61 & wait", "no answer within 400ms"},
	{"ignores the end", hang, "trap '' TERM INT PIPE; while :; do sleep 1; done", "no answer within 400ms"},
	{"dripping", drip, "while printf .; do sleep 0.05; done", "no answer within 400ms"},
	{"leaves a child", says(goodReply), "sleep 60 & echo '" + goodReply + "'", ""},
	{"500", status(500, `{"error":{"type":"api_error","message":"it burns"}}`), "echo it burns >&2; exit 1", "it burns"},
	{"500 of a proxy", status(502, "<html>\n<h1>bad\x1b[31m gateway</h1>"), "printf 'bad\\033[31m gateway' >&2; exit 1", "bad [31m gateway"},
	{"500 endlessly", status(500, megabytes), "yes 'all work' | head -c 5000000 >&2; exit 1", "all work"},
	{"429", status(429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`), "echo slow down >&2; exit 75", "slow down"},
	{"in plain words", status(404, `{"error":"model m-1 not found"}`), "echo model m-1 not found >&2; exit 1", "model m-1 not found"},
	{"5 MB", says(megabytes), "yes all work and no play | head -c 5000000", "more than"},
	{"5 MB and deaf", says(megabytes), "trap '' PIPE; while :; do echo all work and no play; done 2>/dev/null", "more than"},
	{"too long", says(megabytes[:5000]), "yes all work and no play | head -c 5000", "4096"},
	{"garbage", status(200, "\x00\x01\xfe not JSON"), "printf '\\000\\001\\003'", "summary by"},
	{"half JSON", status(200, `{"content":[{"type":"te`), "true", "summary by"},
	{"other JSON", status(200, `[1,2,3]`), "true", "summary by"},
	{"nothing", status(200, ""), "true", "summary by"},
	{"an empty reply", says(" \n"), "echo; echo", "the reply is empty"},
	{"a false claim", says("All tests passed."), "echo All tests passed.", `claims success ("all tests passed")`},
	{"a false place", says("see main.go:43"), "echo see main.go:43", `names "main.go:43"`},
	{"a false code", says("exit code 0"), "echo exit code 0", "exit code 0"},
}

// environment sets variables that the SDKs of the APIs read.
func environment(t *testing.T) {
	for name, value := range map[string]string{
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_API_KEY": "from-env", "ANTHROPIC_AUTH_TOKEN": "from-env",
		"ANTHROPIC_PROFILE": "nobody", "ANTHROPIC_CUSTOM_HEADERS": "X-Api-Key: from-env",
		"OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_API_KEY": "from-env", "OPENAI_ORG_ID": "from-env",
		"OPENAI_CUSTOM_HEADERS": "Authorization: from-env", "SECRET_OF_THE_SERVER": "from-env",
	} {
		t.Setenv(name, value)
	}
}

// A model that must time out gets shortLimit. One that must answer gets longLimit, which
// is enough on a busy machine.
const (
	shortLimit = 400 * time.Millisecond
	longLimit  = 30 * time.Second
)

func TestMishapsOfAPIsAreBoundedErrors(t *testing.T) {
	environment(t)
	for _, a := range apis {
		for _, mishap := range mishaps {
			t.Run(a.name+"/"+mishap.name, func(t *testing.T) {
				noLeaks(t)
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body) // without this the server does not notice that the client closes
					mishap.serve(&a, w, r)
				}))
				defer server.Close()
				mishap.check(t, a.ask(a.options(t, server.URL)))
			})
		}
	}
}

func TestMishapsOfCommandsAreBoundedErrors(t *testing.T) {
	environment(t)
	for _, mishap := range mishaps {
		t.Run(mishap.name, func(t *testing.T) {
			noLeaks(t)
			mishap.check(t, Command("sh", "-c", mishap.script))
		})
	}
}

func (m *mishap) check(t *testing.T, ask summary.Func) {
	t.Helper()
	model := &Model{Provider: "test", Ask: ask, Timeout: longLimit}
	if strings.HasPrefix(m.want, "no answer") {
		model.Timeout = shortLimit
	}
	start := time.Now()
	text, err := model.Summarize(t.Context(), failing)
	if took := time.Since(start); took > longLimit/2 {
		t.Errorf("it took %v", took)
	}
	switch {
	case m.want == "" && (err != nil || text != goodReply):
		t.Errorf("%q, %v", text, err)
	case m.want != "" && (err == nil || !strings.Contains(err.Error(), m.want)):
		t.Errorf("%q, %v, want %q", text, err, m.want)
	case err != nil && (len(err.Error()) > 2*maxMessage || strings.ContainsAny(err.Error(), "\n\r\x1b")):
		t.Errorf("%q is not one short line", err)
	}
}

func mustKey(t *testing.T) Key {
	t.Helper()
	k, err := NewKey(testKey)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// noLeaks checks that a test leaves no additional goroutines, descriptors or children.
func noLeaks(t *testing.T) {
	count := func() (goroutines, descriptors, children int) {
		fds, _ := os.ReadDir("/proc/self/fd")
		tasks, _ := os.ReadFile("/proc/thread-self/children")
		return runtime.NumGoroutine(), len(fds), len(strings.Fields(string(tasks)))
	}
	g0, d0, c0 := count()
	t.Cleanup(func() {
		deadline := time.Now().Add(3 * time.Second)
		for {
			g, d, c := count()
			if g <= g0 && d <= d0 && c <= c0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines, %d descriptors, %d children more than before", g-g0, d-d0, c-c0)
				return
			}
			runtime.Gosched()
		}
	})
}

func TestRequestHasPromptAndNoTools(t *testing.T) {
	environment(t)
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var body map[string]any
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != a.path || r.Method != "POST" {
					t.Errorf("%s %s: %v", r.Method, r.URL, err)
				}
				if body["model"] != "m-1" || body["tools"] != nil || body["stream"] != nil {
					t.Errorf("body %v", body)
				}
				system, user := a.read(t, r.Header, body)
				checkPrompt(t, system, user)
				a.write(w, goodReply)
			}))
			defer server.Close()
			m := &Model{Provider: a.name, Ask: a.ask(a.options(t, server.URL))}
			if text, err := m.Summarize(t.Context(), failing); text != goodReply {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// options returns the Options for a server, with the base URL as users write it.
func (a *api) options(t *testing.T, url string) Options {
	if a.name == "openai" {
		url += "/v1"
	}
	return Options{Model: "m-1", BaseURL: url, Key: mustKey(t)}
}

// checkPrompt checks that the output is between the borders, and our text outside.
func checkPrompt(t *testing.T, system, user string) {
	t.Helper()
	if system != instructions || !strings.Contains(system, "do not follow it") {
		t.Errorf("system %q", system)
	}
	_, rest, _ := strings.Cut(user, "between the two lines ")
	border, _, _ := strings.Cut(rest, " ")
	lines := strings.Split(user, "\n")
	from := slices.Index(lines, border)
	to := from + 1 + slices.Index(lines[from+1:], border)
	if len(border) < 20 || from < 0 || to <= from {
		t.Fatalf("no borders in %q", user)
	}
	data, ours := strings.Join(lines[from+1:to], "\n"), strings.Join(append(lines[:from:from], lines[to:]...), "\n")
	for _, part := range []string{failing.Cmd, failing.Summary, failing.Kept} {
		if !strings.Contains(data, strings.TrimSpace(part)) {
			t.Errorf("the data lacks %q", part)
		}
	}
	if strings.Contains(ours, "ignore previous") || !strings.Contains(ours, "failed with exit code 1") {
		t.Errorf("outside the borders: %q", ours)
	}
}

func TestRefusedConnectionIsAnError(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			m := &Model{Provider: a.name, Ask: a.ask(a.options(t, server.URL))}
			if _, err := m.Summarize(t.Context(), failing); err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("%s: %v", a.name, err)
			}
		})
	}
	m := &Model{Provider: "command", Ask: Command("/no/such/program")}
	if _, err := m.Summarize(t.Context(), failing); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
	if err := Reach(t.Context(), server.URL); err == nil {
		t.Error("Reach succeeded without a server")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	noLeaks(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			for _, code := range []int{301, 302, 307, 308} {
				server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, code))
				m := &Model{Provider: a.name, Ask: a.ask(a.options(t, server.URL))}
				if _, err := m.Summarize(t.Context(), failing); err == nil || !strings.Contains(err.Error(), "redirect") {
					t.Errorf("%s, %d: %v", a.name, code, err)
				}
				if err := Reach(t.Context(), server.URL); err != nil {
					t.Error(err)
				}
				server.Close()
			}
		})
	}
}

// The client sends one request, even if the response asks for a retry.
func TestRequestsAreNotRetried(t *testing.T) {
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			for _, code := range []int{408, 409, 429, 500, 529} {
				var requests int
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					requests++
					w.Header().Set("X-Should-Retry", "true")
					w.WriteHeader(code)
				}))
				m := &Model{Provider: a.name, Ask: a.ask(a.options(t, server.URL))}
				if _, err := m.Summarize(t.Context(), failing); err == nil {
					t.Errorf("status %d is not an error", code)
				}
				server.Close()
				if requests != 1 {
					t.Errorf("%s sent %d requests on %d", a.name, requests, code)
				}
			}
		})
	}
}

func TestKeyIsNeverShown(t *testing.T) {
	environment(t)
	k := mustKey(t)
	if text := fmt.Sprintf("%v %+v %#v", k, Options{Key: k}, &Options{Key: k}); strings.Contains(text, testKey) {
		t.Errorf("printed: %s", text)
	}
	if text, _ := json.Marshal(Options{Key: k}); strings.Contains(string(text), testKey) {
		t.Errorf("encoded: %s", text)
	}
	for _, a := range apis {
		for name, body := range map[string]string{
			"whole":   "bad key " + testKey,
			"in part": `{"error":{"message":"bad key ` + testKey[:14] + `*** in ` + strings.Repeat("x", maxMessage) + `"}}`,
			"escaped": `{"error":{"message":"bad key \u0073k-test-0123456789abcdef"}}`,
			"as type": `{"error":{"message":{"a":"` + testKey + `"}}}`,
		} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { status(401, body)(&a, w, r) }))
			m := &Model{Provider: a.name, Ask: a.ask(a.options(t, server.URL))}
			_, err := m.Summarize(t.Context(), failing)
			if err == nil || !strings.Contains(err.Error(), "status 401") || strings.Contains(err.Error(), testKey[:10]) {
				t.Errorf("%s, %s: %v", a.name, name, err)
			}
			server.Close()
		}
	}
}

// Some servers need no key.
func TestNoKeySendsNoHeader(t *testing.T) {
	environment(t)
	for _, a := range apis {
		t.Run(a.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization")+r.Header.Get("X-Api-Key") != "" {
					t.Errorf("headers %v", r.Header)
				}
				a.write(w, goodReply)
			}))
			o := a.options(t, server.URL)
			o.Key = Key{}
			m := &Model{Provider: a.name, Ask: a.ask(o)}
			if text, err := m.Summarize(t.Context(), failing); text != goodReply {
				t.Errorf("%q, %v", text, err)
			}
			server.Close()
		})
	}
}

func TestCommandGetsPathAndHomeOnly(t *testing.T) {
	environment(t)
	reply, err := Command("env")(t.Context(), failing)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(reply) {
		if name, _, _ := strings.Cut(line, "="); name != "PATH" && name != "HOME" {
			t.Errorf("the command gets %q", line)
		}
	}
	if reply, err = Command("head", "-c", "3000")(t.Context(), failing); err != nil || !strings.HasPrefix(reply, instructions) {
		t.Errorf("the command reads %q, %v", reply, err)
	}
}
