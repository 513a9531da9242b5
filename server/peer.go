package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/warmbox/warmbox/tools"
)

const (
	// maxRequests is how many requests of a session are under way at once. The
	// calls among them have a lower limit, maxCalls, which leaves room for the
	// others, all of which are short. Stop has as many places of its own.
	maxRequests = 100

	// maxNotices is how many notifications of one request wait to be written.
	maxNotices = 100

	// codeBusy is the error of a request that is one too many. JSON-RPC leaves
	// codes from -32000 on to servers.
	codeBusy = -32000
)

// cancelled is the notification that takes a request back, in either direction.
const cancelled = string(mcp.MethodNotificationCancelled)

// A peer is the client of a session, over whatever transport: what it has said of
// itself, the requests of its that are under way, and the questions of ours that
// it has not answered. Requests are known by their ids as they were written, and
// questions by ids of our own, so neither is ever looked for in what goes out.
type peer struct {
	turn chan struct{} // has a token while a question to the user is open

	mu       sync.Mutex
	hello    hello
	requests map[*exchange]func()     // those under way, with what cancels each
	asked    map[string]chan envelope // by id, the questions that are open
	last     int64                    // the id of the last question
}

// A hello is what a client says of itself when it connects, or, in protocol
// versions without sessions, in each request.
type hello struct {
	initialized  bool
	version      string
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
}

func newPeer() *peer {
	return &peer{turn: make(chan struct{}, 1), requests: map[*exchange]func(){}, asked: map[string]chan envelope{}}
}

// cancel ends the request that a notification takes back.
func (p *peer) cancel(m envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for x, cancel := range p.requests {
		if sameID(x.message.id, m.target) {
			cancel()
		}
	}
}

// sameID compares ids as JSON, in which one string can be written in many ways.
func sameID(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 || a[0] != '"' || b[0] != '"' {
		return string(a) == string(b)
	}
	var s, t string
	return json.Unmarshal(a, &s) == nil && json.Unmarshal(b, &t) == nil && s == t
}

// answer hands an answer to the question that waits for it. What answers none, or
// comes too late, is ignored.
func (p *peer) answer(m envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waits := p.asked[string(m.id)]; waits != nil {
		waits <- m // has room for the only one
		delete(p.asked, string(m.id))
	}
}

// question makes an id for one, and what its answer will come by.
func (p *peer) question() (id int64, answer <-chan envelope, forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	name, waits := strconv.FormatInt(p.last, 10), make(chan envelope, 1)
	p.asked[name] = waits
	return p.last, waits, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.asked, name)
	}
}

// enter makes a request known, where so many more may be under way.
func (p *peer) enter(x *exchange, cancel func()) bool {
	most := maxRequests
	if x.message.tool == stopTool {
		most *= 2
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) >= most {
		return false
	}
	p.requests[x] = cancel
	return true
}

func (p *peer) leave(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.requests, x)
}

// An exchange is one message of a peer, and all that is said to it until that is
// answered. It is what mcp-go knows as the client's session.
type exchange struct {
	*peer
	server  *mcpserver.MCPServer
	logger  *slog.Logger
	message envelope
	send    func(message any) error // writes a message to the client, one at a time
	mask    func(string) string     // of what an error repeats; nil masks nothing

	own      hello // of this message, where it says itself who sends it
	notFound bool  // the resource that it asks for

	notify  sync.Once
	notices chan mcp.JSONRPCNotification
	over    chan struct{} // closed when no more of them come
	written chan struct{} // closed when they have been written
}

// begin makes the exchange one of its peer's, which cancels it if the client says
// so, and reports whether there was room. Where there was none, serve refuses it, at
// once. A ping always has room.
func (x *exchange) begin(ctx context.Context) (_ context.Context, end func(), room bool) {
	ctx, cancel := context.WithCancel(ctx)
	switch {
	case x.message.id == nil || x.message.method == string(mcp.MethodPing):
		return ctx, cancel, true
	case x.enter(x, cancel):
		return ctx, func() { x.leave(x); cancel() }, true
	}
	return context.WithValue(ctx, crowdedKey{}, true), cancel, false
}

// crowdedKey marks a request that is one too many.
type crowdedKey struct{}

func crowded(ctx context.Context) bool { return ctx.Value(crowdedKey{}) != nil }

// serve has mcp-go carry out the message and returns the answer, nil where there
// is none. What it notifies the client of has been written by then.
func (x *exchange) serve(ctx context.Context) mcp.JSONRPCMessage {
	// A call is refused as calls are, in words for a model.
	if crowded(ctx) && x.message.method != string(mcp.MethodToolsCall) {
		return (&fault{codeBusy, x.message.id, fmt.Sprintf(
			"%d requests are under way, and no more are allowed at once; wait until one has been answered", maxRequests)}).message()
	}
	answer := x.handle(ctx)
	x.settle()
	return answer
}

func (x *exchange) handle(ctx context.Context) (answer mcp.JSONRPCMessage) {
	defer func() {
		// Tools that panic answer: this is what comes between, and costs its call only.
		if p := recover(); p != nil {
			x.logger.Error("a call broke down", "panic", p, "stack", string(debug.Stack()))
			if answer = nil; x.message.id != nil {
				answer = (&fault{mcp.INTERNAL_ERROR, x.message.id, "this is a bug in warmbox, and its log has the details; try another way"}).message()
			}
		}
	}()
	switch a := x.server.HandleMessage(x.server.WithContext(ctx, x), x.message.body).(type) {
	case mcp.JSONRPCResponse:
		a.ID = requestID(x.message.id)
		return a
	case mcp.JSONRPCError:
		a.ID = requestID(x.message.id)
		a.Error.Code = x.code(a.Error.Code)
		if x.mask != nil {
			a.Error.Message = x.mask(a.Error.Message)
		}
		return a
	}
	return nil
}

// code puts an error right that mcp-go gives another code.
func (x *exchange) code(given int) int {
	switch {
	case x.notFound && x.message.modern == "":
		return mcp.RESOURCE_NOT_FOUND
	case x.notFound, given == mcp.INVALID_REQUEST, given == mcp.PARSE_ERROR:
		// The message is a request, so it is what it brings that cannot be read.
		return mcp.INVALID_PARAMS
	}
	return given
}

// settle returns when what the request notifies its client of has been written.
// What comes later is dropped: the answer ends an exchange.
func (x *exchange) settle() {
	none := false
	x.notify.Do(func() { none = true })
	if !none {
		close(x.over)
		<-x.written
	}
}

// NotificationChannel is asked for right before each notification, of which most
// requests have none.
func (x *exchange) NotificationChannel() chan<- mcp.JSONRPCNotification {
	x.notify.Do(func() {
		x.notices, x.over, x.written = make(chan mcp.JSONRPCNotification, maxNotices), make(chan struct{}), make(chan struct{})
		go x.writeNotices()
	})
	return x.notices
}

func (x *exchange) writeNotices() {
	defer close(x.written)
	for {
		select {
		case n := <-x.notices:
			x.send(n) // where that fails the call goes on
		case <-x.over:
			for len(x.notices) > 0 {
				x.send(<-x.notices)
			}
			return
		}
	}
}

// ask puts a question to the client and reads its answer into result. When ctx
// ends before that has come, the request to the client is cancelled.
func (x *exchange) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	id, answer, forget := x.question()
	defer forget()
	err := x.send(mcp.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Request: mcp.Request{Method: string(method)}, Params: params,
	})
	if err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	select {
	case m := <-answer:
		return m.read(method, result)
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), tools.ErrDisconnected) {
			x.takeBack(id)
		}
		return ctx.Err()
	}
}

func (x *exchange) takeBack(id int64) {
	x.send(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: cancelled,
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": id, "reason": "the call that asked has ended"}},
	}})
}

// read reads the answer to a question.
func (m *envelope) read(method mcp.MCPMethod, result any) error {
	if m.fault == nil {
		return json.Unmarshal(m.result, result)
	}
	var e mcp.JSONRPCErrorDetails
	if err := json.Unmarshal(m.fault, &e); err != nil {
		return err
	}
	return fmt.Errorf("the client answers %s with error %d: %s", method, e.Code, e.Message)
}

// RequestElicitation asks the user. One question at a time is put to a user, who
// answers one at a time.
func (x *exchange) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var result mcp.ElicitationResult
	if err := x.ask(ctx, mcp.MethodElicitationCreate, req.Params, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// RequestSampling asks the client's model.
func (x *exchange) RequestSampling(ctx context.Context, req mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	if err := x.ask(ctx, mcp.MethodSamplingCreateMessage, req.CreateMessageParams, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// ListRoots asks the client for its directories.
func (x *exchange) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	var result mcp.ListRootsResult
	if err := x.ask(ctx, mcp.MethodListRoots, nil, &result); err != nil {
		return nil, err
	}
	return &result, nil
}

// said calls f with what the client says of itself: in this message, or when it
// connected.
func (x *exchange) said(f func(h *hello)) {
	if x.message.modern != "" {
		f(&x.own)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.hello)
}

func (x *exchange) heard() (h hello) {
	x.said(func(known *hello) { h = *known })
	return h
}

// Initialize notes that the client has connected.
func (x *exchange) Initialize() { x.said(func(h *hello) { h.initialized = true }) }

// Initialized reports whether the client may be notified, which within a request
// of its own it always may.
func (x *exchange) Initialized() bool { return x.message.id != nil || x.heard().initialized }

// SessionID is what mcp-go knows requests by that it is to cancel, beside their
// own ids. A peer cancels its requests itself.
func (x *exchange) SessionID() string { return "" }

// SetClientInfo keeps who the client is.
func (x *exchange) SetClientInfo(info mcp.Implementation) {
	x.said(func(h *hello) { h.info = info })
}

// GetClientInfo returns who it is.
func (x *exchange) GetClientInfo() mcp.Implementation { return x.heard().info }

// SetClientCapabilities keeps what the client can be asked.
func (x *exchange) SetClientCapabilities(c mcp.ClientCapabilities) {
	x.said(func(h *hello) { h.capabilities = c })
}

// GetClientCapabilities returns it.
func (x *exchange) GetClientCapabilities() mcp.ClientCapabilities { return x.heard().capabilities }

// SetProtocolVersion keeps the version that was agreed on.
func (x *exchange) SetProtocolVersion(version string) {
	x.said(func(h *hello) { h.version = version })
}

// ProtocolVersion returns it.
func (x *exchange) ProtocolVersion() string { return x.heard().version }

// What mcp-go and the tools look for in a session.
var _ interface {
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithElicitation
	mcpserver.SessionWithSampling
	mcpserver.SessionWithRoots
	mcpserver.SessionWithProtocolVersion
	SetProtocolVersion(version string)
} = (*exchange)(nil)
