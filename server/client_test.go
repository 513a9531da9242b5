package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client is one of the client libraries.
type client interface {
	tools(ctx context.Context) ([]string, error)
	call(ctx context.Context, tool string, args map[string]any) (reply, error)
}

type reply struct {
	isError bool
	text    string
	fields  map[string]any
}

// converse runs the main calls and their errors, for every client and transport.
func converse(t *testing.T, c client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	names, err := c.tools(ctx)
	if err != nil || !slices.Equal(names, []string{"start", "exec", "logs", "input", "list", "stop"}) {
		t.Fatalf("tools/list: %v, %v", names, err)
	}
	do := func(tool string, args map[string]any) reply {
		t.Helper()
		r, err := c.call(ctx, tool, args)
		if err != nil {
			t.Fatalf("%s %v: %v", tool, args, err)
		}
		if !r.isError && r.text == "" || r.fields == nil {
			t.Fatalf("%s %v: text %q, fields %v: a host shows its model only one of the two", tool, args, r.text, r.fields)
		}
		return r
	}

	if r := do("exec", map[string]any{"cmd": "echo out; echo err >&2"}); r.isError || r.fields["stdout"] != "out\n" || r.fields["stderr"] != "err\n" || r.fields["exitCode"] != 0.0 {
		t.Errorf("exec: %+v", r)
	}
	if r := do("exec", map[string]any{"cmd": "exit 3"}); r.isError || r.fields["exitCode"] != 3.0 || r.fields["code"] != nil {
		t.Errorf("exec of a command that fails: %+v", r)
	}
	if r := do("exec", map[string]any{"cmd": "seq 1 1000000"}); r.isError || r.fields["truncated"] != true || len(r.text) > 16<<10 || !strings.HasSuffix(r.fields["stdout"].(string), "1000000\n") {
		t.Errorf("exec with big output: %.2000v", r)
	}
	running := do("exec", map[string]any{"cmd": "sleep 0.3; echo late; exit 5", "waitSeconds": 0})
	if r := do("logs", map[string]any{"execId": running.fields["execId"], "grep": "none", "waitSeconds": 60}); r.isError || r.fields["exitCode"] != 5.0 {
		t.Errorf("logs of a command that runs: %+v", r)
	}
	if r := do("list", map[string]any{}); r.isError || len(r.fields["commands"].([]any)) != 4 {
		t.Errorf("list: %+v", r)
	}
	if r := do("exec", map[string]any{"cmd": strings.Repeat("# \x01 a comment\n", 1<<16) + "echo end"}); r.isError || r.fields["stdout"] != "end\n" {
		t.Errorf("exec of a big command: %.2000v", r)
	}
	if r := do("exec", map[string]any{"cmd": "true", "containerId": "b-nosuch"}); !r.isError || r.fields["code"] != "BOX_NOT_FOUND" {
		t.Errorf("exec in a box that is not: %+v", r)
	}

	id := do("start", map[string]any{"name": "second"}).fields["id"]
	if r := do("exec", map[string]any{"cmd": "pwd", "containerId": id}); r.isError || r.fields["containerId"] != id {
		t.Errorf("exec in a box that was started: %+v", r)
	}
	converseCancel(t, ctx, c, id)
	if r := do("stop", map[string]any{"containerId": id}); r.isError {
		t.Errorf("stop: %+v", r)
	}
	if r := do("exec", map[string]any{"cmd": "true", "containerId": id}); !r.isError || r.fields["code"] != "BOX_GONE" {
		t.Errorf("exec in a box that was stopped: %+v", r)
	}
}

// converseCancel cancels a call and sees its command die.
func converseCancel(t *testing.T, ctx context.Context, c client, id any) {
	t.Helper()
	in := func(cmd string) map[string]any { return map[string]any{"containerId": id, "cmd": cmd} }
	cancelled, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := c.call(cancelled, "exec", in("echo $$ >pid; sleep 1000"))
		ended <- err
	}()
	if _, err := c.call(ctx, "exec", in("until test -s pid; do sleep 0.01; done")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call returned %v", err)
	}
	r, err := c.call(ctx, "exec", in("while kill -0 $(cat pid); do sleep 0.01; done 2>/dev/null; echo dead"))
	if err != nil || r.fields["stdout"] != "dead\n" {
		t.Errorf("after its call was cancelled a command lives on: %+v, %v", r, err)
	}
}

// goClient is mcp-go's own.
type goClient struct{ *mcpclient.Client }

func (c goClient) tools(ctx context.Context) (names []string, err error) {
	list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return nil, err
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c goClient) call(ctx context.Context, tool string, args map[string]any) (reply, error) {
	res, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
	if err != nil {
		return reply{}, err
	}
	structured, _ := res.StructuredContent.(map[string]any)
	return reply{res.IsError, mcp.GetTextFromContent(res.Content[0]), structured}, nil
}

func connectGo(t *testing.T, c *mcpclient.Client, err error) goClient {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	req.Params.ClientInfo = mcp.Implementation{Name: t.Name(), Version: "1"}
	init, err := c.Initialize(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if init.Instructions != instructions || init.ServerInfo.Name != "warmbox" || init.ServerInfo.Version != "1.2.3" {
		t.Errorf("initialize: %+v", init)
	}
	return goClient{c}
}

// sdkClient is the official Go SDK's.
type sdkClient struct{ *sdk.ClientSession }

func (c sdkClient) tools(ctx context.Context) (names []string, err error) {
	list, err := c.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c sdkClient) call(ctx context.Context, tool string, args map[string]any) (reply, error) {
	res, err := c.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return reply{}, err
	}
	structured, _ := res.StructuredContent.(map[string]any)
	return reply{res.IsError, res.Content[0].(*sdk.TextContent).Text, structured}, nil
}

func connectSDK(t *testing.T, transport sdk.Transport) sdkClient {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: t.Name(), Version: "1"}, nil)
	session, err := c.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	t.Logf("protocol version %s", session.InitializeResult().ProtocolVersion)
	return sdkClient{session}
}

// httpClient returns one that shows the token and leaves no connection behind.
func httpClient() *http.Client {
	return &http.Client{Transport: withToken{&http.Transport{DisableKeepAlives: true}}}
}

type withToken struct{ http.RoundTripper }

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+testToken)
	return w.RoundTripper.RoundTrip(r)
}

func TestGoClientInProcess(t *testing.T) {
	c, err := mcpclient.NewInProcessClient(newServer(t).mcp())
	converse(t, connectGo(t, c, err))
}

func TestGoClientHTTP(t *testing.T) {
	c, err := mcpclient.NewStreamableHttpClient(listen(t, newServer(t), HTTP{})+"/mcp", transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + testToken}))
	converse(t, connectGo(t, c, err))
}

func TestSDKClientStdio(t *testing.T) {
	converse(t, connectSDK(t, &sdk.CommandTransport{Command: stdioCommand(t), TerminateDuration: 10 * time.Second}))
}

func TestSDKClientHTTP(t *testing.T) {
	url := listen(t, newServer(t), HTTP{}) + "/mcp"
	converse(t, connectSDK(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: httpClient()}))
}

func TestSDKClientSSE(t *testing.T) {
	url := listen(t, newServer(t), HTTP{SSE: true}) + "/sse"
	converse(t, connectSDK(t, &sdk.SSEClientTransport{Endpoint: url, HTTPClient: httpClient()}))
}
