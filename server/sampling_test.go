package server

//lint:file-ignore SA1019 sampling is deprecated, and clients that offer it are still asked

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warmbox/warmbox/sandbox/summary/model"
	"github.com/warmbox/warmbox/tools"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// A sampler is what the model of a client does when it is asked.
type sampler func(ctx context.Context, p *sdk.CreateMessageParams) (string, error)

func says(text string) sampler {
	return func(context.Context, *sdk.CreateMessageParams) (string, error) { return text, nil }
}

// A conversation is with a client that has a model, or none, by way of a
// transport and a version of the protocol.
type conversation struct {
	sdkClient
	asked atomic.Int32
}

const sampleWait = 300 * time.Millisecond

// samplingServer has the client's own model asked, and not for long.
func samplingServer(t *testing.T) *Server {
	return serverOf(t, &tools.Set{Sampler: &model.Model{Provider: "client", Timeout: sampleWait}})
}

func samplingClient(t *testing.T, transport sdk.Transport, version, name string, ask sampler, own bool) *conversation {
	t.Helper()
	c := &conversation{}
	o := &sdk.ClientOptions{MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: own}}
	if ask != nil {
		o.CreateMessageHandler = func(ctx context.Context, req *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			c.asked.Add(1)
			text, err := ask(ctx, req.Params)
			return &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: text}}, err
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, o)
	session, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
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

// overStdio serves a client on a pair of pipes until the test ends.
func overStdio(t *testing.T, s *Server) sdk.Transport {
	ctx, cancel := context.WithCancel(t.Context())
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- s.ServeStdio(ctx, fromClient, toClient)
		fromClient.Close() // as the end of a process does: later writes must not block
		toClient.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &sdk.IOTransport{Reader: fromServer, Writer: toServer}
}

func overHTTP(t *testing.T, s *Server) sdk.Transport {
	return &sdk.StreamableClientTransport{Endpoint: listen(t, s, HTTP{}) + "/mcp", HTTPClient: httpClient()}
}

// failingRun leaves a trace of each time that it is run.
var failingRun = map[string]any{"cmd": "echo once >>runs; seq 3000; echo main.go:4: frob >&2; exit 7"}

// runs counts how often that was.
func (c *conversation) runs(t *testing.T) any {
	t.Helper()
	r, err := c.call(t.Context(), "exec", map[string]any{"cmd": "wc -l <runs"})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(r.fields["stdout"].(string))
}

func TestClientModelWritesTheSummary(t *testing.T) {
	const honest = "frob is missing at main.go:4, so the command ended with exit code 7."
	refuses := func(context.Context, *sdk.CreateMessageParams) (string, error) {
		return "", errors.New("the user\nsays no")
	}
	hangs := func(ctx context.Context, _ *sdk.CreateMessageParams) (string, error) {
		select { // a session waits for it before it closes
		case <-ctx.Done():
		case <-time.After(10 * sampleWait):
		}
		return honest, nil
	}
	for name, test := range map[string]struct {
		transport func(*testing.T, *Server) sdk.Transport
		version   string
		ask       sampler
		by        string // the author of the summary; "": the client fails the call
		asked     int32
	}{
		"good/stdio/legacy":      {overStdio, legacy, says(honest), "client", 1},
		"good/stdio/modern":      {overStdio, modern, says(honest), "client", 1},
		"good/http/modern":       {overHTTP, modern, says(honest), "client", 1},
		"good/http/legacy":       {overHTTP, legacy, says(honest), "client", 1},
		"lying/stdio/legacy":     {overStdio, legacy, says("All tests passed."), "builtin", 1},
		"lying/http/modern":      {overHTTP, modern, says("All tests passed."), "builtin", 1},
		"silent/stdio/modern":    {overStdio, modern, says(""), "builtin", 1},
		"refusing/stdio/legacy":  {overStdio, legacy, refuses, "builtin", 1},
		"refusing/http/modern":   {overHTTP, modern, refuses, "", 1},
		"hanging/stdio/legacy":   {overStdio, legacy, hangs, "builtin", 1},
		"unwilling/stdio/legacy": {overStdio, legacy, nil, "builtin", 0},
		"unwilling/stdio/modern": {overStdio, modern, nil, "builtin", 0},
		"unwilling/http/modern":  {overHTTP, modern, nil, "builtin", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := samplingClient(t, test.transport(t, samplingServer(t)), test.version, name, test.ask, false)
			r, err := c.call(t.Context(), "exec", failingRun)
			by := any(test.by)
			if test.by == "builtin" {
				by = nil
			}
			switch {
			case test.by == "" && err == nil:
				t.Errorf("the client accepted the result: %+v", r)
			case test.by != "" && (err != nil || r.fields["summaryBy"] != by || r.fields["exitCode"] != 7.0):
				t.Errorf("%v, %+v", err, r.fields)
			case test.by == "client" && (r.fields["summary"] != honest || !strings.Contains(r.text, "summary (client): "+honest)):
				t.Errorf("%v\n%s", r.fields["summary"], r.text)
			}
			if n := c.asked.Load(); n != test.asked {
				t.Errorf("asked %d times, want %d", n, test.asked)
			}
			if n := c.runs(t); n != "1" {
				t.Errorf("the command ran %v times", n)
			}
		})
	}
}

// TestClientThatRefusesIsNotAskedAgain: some clients fail a call whose result is a question.
func TestClientThatRefusesIsNotAskedAgain(t *testing.T) {
	c := samplingClient(t, overHTTP(t, samplingServer(t)), modern, "refusing", func(context.Context, *sdk.CreateMessageParams) (string, error) {
		return "", errors.New("no")
	}, false)
	if _, err := c.call(t.Context(), "exec", failingRun); err == nil {
		t.Fatal("the client accepted the result")
	}
	r, err := c.call(t.Context(), "exec", failingRun)
	if err != nil || r.fields["summaryBy"] != nil || c.asked.Load() != 1 {
		t.Errorf("%v, %+v, asked %d times", err, r.fields, c.asked.Load())
	}
}

// TestUnknownRequestStateIsRefused: also the state of another client, and one without an answer.
func TestUnknownRequestStateIsRefused(t *testing.T) {
	s := samplingServer(t)
	transport := overHTTP(t, s).(*sdk.StreamableClientTransport)
	connect := func(name string) *conversation {
		again := *transport
		return samplingClient(t, &again, modern, name, says(""), true)
	}
	mine, other := connect("mine"), connect("other")
	question := mine.exec(t, "", "")
	state := question.RequestState
	if !question.NeedsInput() || len(question.InputRequests) != 1 || state == "" {
		t.Fatalf("no question: %+v", question)
	}
	for name, res := range map[string]*sdk.CallToolResult{
		"unknown":            mine.exec(t, "r-nosuch", "frob is missing"),
		"long":               mine.exec(t, strings.Repeat("x", 1<<16), "frob is missing"),
		"none":               mine.exec(t, "", "frob is missing"),
		"somebody else's":    other.exec(t, state, "frob is missing"),
		"nothing of its own": other.exec(t, "r-nosuch", ""),
	} {
		if f := fields(t, res.StructuredContent); !res.IsError || f["code"] != "INVALID_ARGUMENT" {
			t.Errorf("%s: %v", name, f)
		}
	}
	if f := fields(t, mine.exec(t, state, "frob is missing").StructuredContent); f["summary"] != "frob is missing" || f["exitCode"] != 7.0 {
		t.Errorf("the answer: %v", f)
	}
	if f := fields(t, mine.exec(t, state, "frob is missing").StructuredContent); f["code"] != "INVALID_ARGUMENT" {
		t.Errorf("the answer once more: %v", f)
	}
	if n := mine.runs(t); n != "1" {
		t.Errorf("the command ran %v times", n)
	}
	question = mine.exec(t, "", "")
	if f := fields(t, mine.exec(t, question.RequestState, "").StructuredContent); f["summaryBy"] != nil || f["exitCode"] != 7.0 {
		t.Errorf("a state without an answer: %v", f)
	}
}

// exec runs the failing command, or sends an answer to a question.
func (c *conversation) exec(t *testing.T, state, text string) *sdk.CallToolResult {
	t.Helper()
	p := &sdk.CallToolParams{Name: "exec", Arguments: failingRun, RequestState: state}
	if text != "" {
		p.InputResponses = sdk.InputResponseMap{"summary": &sdk.CreateMessageResult{Model: "m", Role: "assistant", Content: &sdk.TextContent{Text: text}}}
	}
	res, err := c.CallTool(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}
