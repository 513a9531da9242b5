package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/tools"
)

// An asker puts questions to the user of a session, one at a time: a person
// answers one at a time, and what is taken back must be known. mcp-go sends the
// question and finds its answer, but keeps the request's id to itself, so that is
// read from what goes out.
type asker struct {
	turn chan struct{} // has a token while a question is open

	mu     sync.Mutex
	offers *mcp.ElicitationCapability // on HTTP, what the client said when it connected
	via    string                     // on HTTP, the stream that has the question
	id     *mcp.RequestId             // of the question that went out, nil before
	back   chan struct{}              // closed when it has been taken back; nil while nobody wants to know
	gone   *mcp.RequestId             // of the last one taken back, until it is answered all the same
}

func newAsker() *asker { return &asker{turn: make(chan struct{}, 1)} }

// ask returns the user's answer. When ctx ends before it has come, the client is
// told that nobody wants it any more.
func (a *asker) ask(ctx context.Context, session mcpserver.SessionWithElicitation, via string, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	a.open(via)
	defer a.open("")
	result, err := session.RequestElicitation(ctx, req)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), tools.ErrDisconnected) {
		a.takeBack(session)
	}
	return result, err
}

func (a *asker) open(via string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.via, a.id, a.back = via, nil, nil
}

// waits returns the stream that waits for the answer to a question, "" where
// none does.
func (a *asker) waits() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.via
}

// notice looks at a message to the client, which may be the question, or take
// it back.
func (a *asker) notice(message []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.turn) == 0 || a.id != nil && a.back == nil {
		return
	}
	message = bytes.TrimPrefix(message, []byte("event: message\ndata: ")) // so it goes over HTTP
	var m struct {
		ID     mcp.RequestId `json:"id"`
		Method string        `json:"method"`
	}
	err := json.Unmarshal(message, &m)
	switch {
	case err != nil:
	case a.id == nil && m.Method == string(mcp.MethodElicitationCreate):
		a.id = &m.ID
	case a.back != nil && m.Method == cancelled:
		close(a.back)
		a.back = nil
	}
}

const (
	cancelled = "notifications/cancelled"

	// takeBackTime is how long it is waited for that a question is taken back.
	// Behind the answer to its call, mcp-go would not send that any more.
	takeBackTime = time.Second
)

// takeBack tells the client that its user need not answer. A client that cannot
// be told has gone, or reads nothing.
func (a *asker) takeBack(session mcpserver.ClientSession) {
	back := make(chan struct{})
	a.mu.Lock()
	id := a.id
	a.via, a.back, a.gone = "", back, id
	a.mu.Unlock()
	if id == nil {
		return
	}
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: cancelled,
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": id.Value(), "reason": "nobody waits for the answer any more"}},
	}}
	select {
	case session.NotificationChannel() <- n:
	default:
		return
	}
	select {
	case <-back:
	case <-time.After(takeBackTime):
	}
}

// late reports whether a message is what a client still answers to a question
// that was taken back: an error. mcp-go would take it for a request and refuse it,
// and the client that for the answer to the request of its own with that number.
func (a *asker) late(message []byte) bool {
	const most = 64 << 10 // is far more than such an error has
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone == nil || len(message) > most {
		return false
	}
	var m struct {
		ID     mcp.RequestId   `json:"id"`
		Method string          `json:"method"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(message, &m) != nil || m.Method != "" || m.Error == nil || m.ID.String() != a.gone.String() {
		return false
	}
	a.gone = nil
	return true
}

// A stdioSession is mcp-go's, which asks as an asker does.
type stdioSession struct {
	stdioTransport
	asker *asker
}

// stdioTransport is all that mcp-go's session for stdio can do.
type stdioTransport interface {
	mcpserver.SessionWithLogging
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithElicitation
	mcpserver.SessionWithSampling
	mcpserver.SessionWithRoots
	mcpserver.SessionWithProtocolVersion
	SetProtocolVersion(version string)
}

func (s stdioSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return s.asker.ask(ctx, s.stdioTransport, "", req)
}

// SetClientCapabilities keeps what the client can be asked in the session, since
// mcp-go's own is that of this request alone.
func (r request) SetClientCapabilities(c mcp.ClientCapabilities) {
	r.session.asker.mu.Lock()
	defer r.session.asker.mu.Unlock()
	r.session.asker.offers = c.Elicitation
}

// GetClientCapabilities leaves out what no way leads to over HTTP: the client's
// model.
func (r request) GetClientCapabilities() mcp.ClientCapabilities {
	r.session.asker.mu.Lock()
	defer r.session.asker.mu.Unlock()
	return mcp.ClientCapabilities{Elicitation: r.session.asker.offers}
}

// RequestElicitation asks on the stream that answers the request.
func (r request) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return r.session.asker.ask(ctx, r.transportSession, r.stream, req)
}

// named gives a call a name of its own, by which mcp-go finds who waits for an
// answer. It takes that for a session's, and would share one stream among calls of
// the same.
func (c *caller) named(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	c.stream = rand.Text()
	r.Header.Set(mcpserver.HeaderKeySessionID, c.stream)
	return noticing{w, c.session.asker}
}

// deliver hands an answer to the question that is open, if one is. One that comes
// too late is not refused: clients take that for the end of their session.
func (d *door) deliver(w http.ResponseWriter, r *http.Request, a *asker) {
	w.WriteHeader(http.StatusAccepted)
	if via := a.waits(); via != "" {
		r.Header.Set(mcpserver.HeaderKeySessionID, via)
		d.stream.ServeHTTP(ignoring{http.Header{}}, r)
	}
}

// ignoring is an answer that nobody gets.
type ignoring struct{ header http.Header }

func (i ignoring) Header() http.Header         { return i.header }
func (i ignoring) Write(p []byte) (int, error) { return len(p), nil }
func (i ignoring) WriteHeader(int)             {}

// noticing lets an asker see what goes to a client.
type noticing struct {
	http.ResponseWriter
	asker *asker
}

func (n noticing) Write(p []byte) (int, error) {
	n.asker.notice(p)
	return n.ResponseWriter.Write(p)
}

func (n noticing) Flush() { http.NewResponseController(n.ResponseWriter).Flush() }

func (n noticing) Unwrap() http.ResponseWriter { return n.ResponseWriter }
