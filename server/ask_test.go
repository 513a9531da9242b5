package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/tools"
)

// A user answers the question of a client.
type user func(ctx context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error)

func answers(answer string) user {
	return func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}, nil
	}
}

func acts(action string) user {
	return func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		return &sdk.ElicitResult{Action: action}, nil
	}
}

// askingServer allows only echo, and asks its users with a timeout.
func askingServer(t *testing.T, ask time.Duration) (*Server, *record) {
	s := serverOf(t, &tools.Set{Ask: ask})
	s.Manager.Commands.Allow, s.Manager.Commands.Deny = []string{"echo"}, []string{"touch /"}
	r := new(record)
	s.Manager.Audit = slog.New(slog.NewTextHandler(r, nil))
	return s, r
}

// A record is a log that a test reads while it is written.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// A userClient is a client whose user can be asked.
type userClient struct {
	sdkClient
	asked atomic.Int32
	last  atomic.Pointer[sdk.ElicitParams]
}

func newUserClient(t *testing.T, transport sdk.Transport, version, name string, u user) *userClient {
	t.Helper()
	c := new(userClient)
	o := new(sdk.ClientOptions)
	if u != nil {
		o.ElicitationHandler = func(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			c.asked.Add(1)
			c.last.Store(req.Params)
			return u(ctx, req.Params)
		}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, o).Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	if got := session.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("protocol version %s, want %s", got, version)
	}
	c.sdkClient = sdkClient{session}
	return c
}

// run runs a command. It returns "ran" and the hint, or why the command did not run.
func (c *userClient) run(t *testing.T, cmd string) string {
	t.Helper()
	r, err := c.call(t.Context(), "exec", map[string]any{"cmd": cmd})
	switch {
	case err != nil:
		return "failed"
	case r.isError && (r.fields["code"] != "EXEC_VALIDATION" || !strings.HasPrefix(r.fields["error"].(string), "command ")):
		t.Errorf("%v", r.fields)
	case r.isError:
		return r.fields["hint"].(string)
	case r.fields["exitCode"] != 0.0:
		t.Errorf("%v", r.fields)
	}
	hint, _ := r.fields["hint"].(string)
	return strings.TrimSpace("ran " + hint)
}

var ways = map[string]struct {
	transport func(*testing.T, *Server) sdk.Transport
	version   string
}{
	"stdio/legacy": {overStdio, legacy},
	"stdio/modern": {overStdio, modern},
	"http/legacy":  {overHTTP, legacy},
	"http/modern":  {overHTTP, modern},
}

func TestUserDecidesAboutUnlistedCommands(t *testing.T) {
	fails := func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		return nil, errors.New("no dialog")
	}
	for name, test := range map[string]struct {
		user   user
		first  string // the result of the first call, and of the same again
		second string
		asked  int32
	}{
		"once":    {answers("allow once"), "ran .* this once", "ran .* this once", 2},
		"session": {answers("allow for this session"), "ran .* for this session", "ran .* for this session", 1},
		"deny":    {answers("deny"), "asked and denied it", "asked and denied it", 2},
		"decline": {acts("decline"), "asked and denied it", "asked and denied it", 2},
		"close":   {acts("cancel"), "gave no answer", "gave no answer", 2},
		"nothing": {acts("accept"), "an answer that was not offered", "an answer that was not offered", 2},
		"unable":  {nil, "cannot ask its user", "cannot ask its user", 0},
		"failing": {fails, "did not return|^failed$", "did not return|^failed$", 2},
	} {
		for way, w := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				s, record := askingServer(t, waitLimit)
				c := newUserClient(t, w.transport(t, s), w.version, t.Name(), test.user)
				if got := c.run(t, "echo x"); got != "ran" {
					t.Errorf("a command on the allowlist: %s", got)
				}
				for _, want := range []string{test.first, test.second} {
					if got := c.run(t, "touch x"); !matches(want, got) {
						t.Errorf("%q, want %q", got, want)
					}
				}
				// The user is not asked about commands that they cannot approve.
				for _, cmd := range []string{"touch / x", "touch x &", "touch x; touch /", "touch (", "touch \x1b"} {
					c.call(t.Context(), "exec", map[string]any{"cmd": cmd})
				}
				if n := c.asked.Load(); n != test.asked {
					t.Errorf("asked %d times, want %d", n, test.asked)
				}
				if ran := strings.Count(record.String(), "userAllowed=once") + strings.Count(record.String(), "userAllowed=session"); ran != strings.Count(test.first+test.second, "ran") {
					t.Errorf("%d commands ran by approval:\n%s", ran, record)
				}
				if p := c.last.Load(); p != nil && !strings.Contains(p.Message, "\n│ touch x\n") {
					t.Errorf("the question: %s", p.Message)
				}
			})
		}
	}
}

func matches(pattern, text string) bool {
	for alternative := range strings.SplitSeq(pattern, "|") {
		before, after, _ := strings.Cut(alternative, " .* ")
		if bare := strings.Trim(alternative, "^$"); bare != alternative && bare == text {
			return true
		}
		if strings.Contains(text, before) && strings.Contains(text, after) {
			return true
		}
	}
	return false
}

// TestApprovalCountsInItsSessionOnly: another session, and the next one, ask again.
func TestApprovalCountsInItsSessionOnly(t *testing.T) {
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			s, _ := askingServer(t, waitLimit)
			first := overHTTP(t, s).(*sdk.StreamableClientTransport)
			connect := func(name string, u user) *userClient {
				again := *first
				return newUserClient(t, &again, version, name, u)
			}
			mine, other := connect("mine", answers("allow for this session")), connect("other", answers("deny"))
			if mine.run(t, "touch x"); !strings.HasPrefix(mine.run(t, "touch x"), "ran") || mine.asked.Load() != 1 {
				t.Errorf("asked %d times", mine.asked.Load())
			}
			if got := other.run(t, "touch x"); other.asked.Load() != 1 || !strings.Contains(got, "denied it") {
				t.Errorf("another session: %q, asked %d times", got, other.asked.Load())
			}
			if version == legacy {
				mine.Close()
				again := connect("mine", acts("decline"))
				if got := again.run(t, "touch x"); again.asked.Load() != 1 || !strings.Contains(got, "denied it") {
					t.Errorf("the next session: %q, asked %d times", got, again.asked.Load())
				}
			}
		})
	}
}

// hesitant returns a user who never answers, and channels that are closed when the user is
// asked and when the question is withdrawn.
func hesitant() (u user, asked, back chan struct{}) {
	asked, back = make(chan struct{}), make(chan struct{})
	return func(ctx context.Context, _ *sdk.ElicitParams) (*sdk.ElicitResult, error) {
		close(asked)
		<-ctx.Done()
		close(back)
		return nil, ctx.Err()
	}, asked, back
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitLimit):
		t.Fatalf("%s: not within %v", what, waitLimit)
	}
}

// TestUnansweredQuestionIsWithdrawn: when the user takes too long, or the call is cancelled.
func TestUnansweredQuestionIsWithdrawn(t *testing.T) {
	for _, way := range []string{"stdio/legacy", "http/legacy"} {
		t.Run("late/"+way, func(t *testing.T) {
			s, _ := askingServer(t, 100*time.Millisecond)
			u, _, back := hesitant()
			c := newUserClient(t, ways[way].transport(t, s), legacy, way, u)
			if got := c.run(t, "touch x"); !strings.Contains(got, "did not answer in time") {
				t.Errorf("%q", got)
			}
			within(t, "the question is withdrawn", back)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		s, record := askingServer(t, time.Hour)
		u, asked, back := hesitant()
		c := newUserClient(t, overStdio(t, s), legacy, "cancelling", u)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.call(ctx, "exec", map[string]any{"cmd": "touch x"})
		}()
		within(t, "the user is asked", asked)
		cancel()
		within(t, "the call ends", ended)
		within(t, "the question is withdrawn", back)
		if strings.Contains(record.String(), "msg=exec") {
			t.Errorf("a command ran:\n%s", record)
		}
	})
}

// TestOnlyTheAskedClientAnswersInTime: another session cannot answer a question over HTTP, nor
// its own client too late.
func TestOnlyTheAskedClientAnswersInTime(t *testing.T) {
	s, record := askingServer(t, time.Hour)
	url := listen(t, s, HTTP{}) + "/mcp"
	init := strings.Replace(initialize(1, legacy), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1)
	session := func() string {
		resp, _ := post(t, url, init)
		return resp.Header.Get("Mcp-Session-Id")
	}
	mine, other := session(), session()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(toolCall(5, "exec", `{"cmd":"touch x"}`)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {mine}}
	resp, err := httpClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	next := func() (m struct {
		ID     any
		Method string
		Params struct{ RequestID any }
		Result any
	}) {
		for events.Scan() {
			if data, ok := bytes.CutPrefix(events.Bytes(), []byte("data: ")); ok {
				if err := json.Unmarshal(data, &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
		t.Fatal("the stream ended")
		return m
	}
	question := next()
	if question.Method != "elicitation/create" {
		t.Fatalf("%+v", question)
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"answer":"allow once"}}}`, question.ID)
	if resp, body := post(t, url, answer, "Mcp-Session-Id", other); resp.StatusCode != http.StatusAccepted {
		t.Errorf("another session's answer: %s %s", resp.Status, body)
	}
	stale := strings.Replace(answer, `"id":`, `"id":7`, 1)
	if resp, body := post(t, url, stale, "Mcp-Session-Id", mine); resp.StatusCode != http.StatusAccepted {
		t.Errorf("an answer to another question: %s %s", resp.Status, body)
	}
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, "Mcp-Session-Id", mine)
	if back := next(); back.Method != "notifications/cancelled" || back.Params.RequestID != question.ID {
		t.Errorf("question %+v, then %+v", question, back)
	}
	if end := next(); end.ID != 5.0 || end.Result == nil {
		t.Errorf("the end: %+v", end)
	}
	if resp, body := post(t, url, answer, "Mcp-Session-Id", mine); resp.StatusCode != http.StatusAccepted {
		t.Errorf("an answer that comes too late: %s %s", resp.Status, body)
	}
	if strings.Contains(record.String(), "msg=exec") {
		t.Errorf("a command ran:\n%s", record)
	}
}

// TestConcurrentCallsGetTheirOwnAnswers: one question after the other.
func TestConcurrentCallsGetTheirOwnAnswers(t *testing.T) {
	for way, w := range ways {
		t.Run(way, func(t *testing.T) {
			s, _ := askingServer(t, waitLimit)
			var open, most atomic.Int32
			c := newUserClient(t, w.transport(t, s), w.version, way, func(_ context.Context, p *sdk.ElicitParams) (*sdk.ElicitResult, error) {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				answer := "deny"
				if strings.Contains(p.Message, "│ touch good") {
					answer = "allow once"
				}
				return answers(answer)(nil, nil)
			})
			var wg sync.WaitGroup
			for _, cmd := range []string{"touch good1", "touch bad1", "touch good2", "touch bad2"} {
				wg.Go(func() {
					if ran := strings.HasPrefix(c.run(t, cmd), "ran"); ran != strings.Contains(cmd, "good") {
						t.Errorf("%s ran: %v", cmd, ran)
					}
				})
			}
			wg.Wait()
			if w.version == legacy && most.Load() != 1 {
				t.Errorf("%d questions at once", most.Load())
			}
		})
	}
}

// TestLateAnswerIsIgnored: the answer to a withdrawn question is not taken for a request.
func TestLateAnswerIsIgnored(t *testing.T) {
	s, _ := askingServer(t, 100*time.Millisecond)
	w := serveStdio(t, s)
	w.ask(strings.Replace(initialize(1, legacy), `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	question := w.ask(toolCall(5, "exec", `{"cmd":"touch x"}`))
	if question.ID == nil || question.ID == 5.0 {
		t.Fatalf("%+v", question)
	}
	for w.next().ID != 5.0 {
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"error":{"code":1,"message":"cancelled"}}`, question.ID))
	for range 3 {
		if m := w.ask(ping); m.ID != 7.0 || m.Error != nil {
			t.Errorf("%+v", m)
		}
	}
}
