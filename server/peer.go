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
	// maxRequests is how many requests of a session may run at once. Calls have a
	// lower limit, maxCalls, which leaves room for the other requests, all of them
	// short. Calls of stop may be as many again.
	maxRequests = 100

	// maxNotices is how many notifications of one request may be queued.
	maxNotices = 100

	// codeBusy is the error of a request beyond maxRequests. JSON-RPC leaves codes
	// from -32000 on to servers.
	codeBusy = -32000
)

// cancelled is the notification that cancels a request, in either direction.
const cancelled = string(mcp.MethodNotificationCancelled)

// A peer is the client of a session, over either transport: what it says about itself, its
// running requests, and our questions that it has not answered. Requests are identified by
// the client's ids as it wrote them, questions by ids of ours.
type peer struct {
	turn chan struct{} // has a token while a question to the user is open

	mu        sync.Mutex
	hello     hello
	requests  map[*exchange]func()     // running ones, with their cancel functions
	questions map[string]chan envelope // open ones, by id
	last      int64                    // the id of the last question
}

// A hello is what a client says about itself when it connects or, in protocol versions
// without sessions, in each request.
type hello struct {
	initialized  bool
	version      string
	info         mcp.Implementation
	capabilities mcp.ClientCapabilities
}

func newPeer() *peer {
	return &peer{turn: make(chan struct{}, 1), requests: map[*exchange]func(){}, questions: map[string]chan envelope{}}
}

// cancel cancels the request that a notification names.
func (p *peer) cancel(m envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for x, cancel := range p.requests {
		if sameID(x.message.id, m.target) {
			cancel()
		}
	}
}

// sameID compares ids as JSON values: one string can be written in several ways.
func sameID(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 || a[0] != '"' || b[0] != '"' {
		return string(a) == string(b)
	}
	var s, t string
	return json.Unmarshal(a, &s) == nil && json.Unmarshal(b, &t) == nil && s == t
}

// answer passes an answer to the call that asked the question. An answer to no open question
// is ignored.
func (p *peer) answer(m envelope) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if waits := p.questions[string(m.id)]; waits != nil {
		waits <- m // does not block: it is the only one
		delete(p.questions, string(m.id))
	}
}

// openQuestion opens a question. It returns its id and the channel of its answer.
func (p *peer) openQuestion() (id int64, answer <-chan envelope, forget func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	name, waits := strconv.FormatInt(p.last, 10), make(chan envelope, 1)
	p.questions[name] = waits
	return p.last, waits, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.questions, name)
	}
}

// enter adds a running request. It reports false if there are too many.
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

// leave removes a request that has ended.
func (p *peer) leave(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.requests, x)
}

// An exchange is one message of a peer and everything that is sent to the client until its
// reply. mcp-go takes it for the client's session.
type exchange struct {
	*peer
	server  *mcpserver.MCPServer
	logger  *slog.Logger
	message envelope
	send    func(message any) error // writes a message to the client, one at a time
	mask    func(string) string     // masks the text of errors; nil masks nothing

	own      hello // of this message, for protocol versions without sessions
	notFound bool  // the resource that it reads does not exist

	notify  sync.Once
	notices chan mcp.JSONRPCNotification
	settled chan struct{} // closed when no more notices come
	written chan struct{} // closed when all notices have been written
}

// begin adds the exchange to its peer, which can then cancel it. It reports false if the peer
// has too many requests; serve then refuses the message. A ping is always admitted.
func (x *exchange) begin(ctx context.Context) (_ context.Context, end func(), room bool) {
	ctx, cancel := context.WithCancel(ctx)
	switch {
	case x.message.id == nil || x.message.method == string(mcp.MethodPing):
		return ctx, cancel, true
	case x.enter(x, cancel):
		return ctx, func() { x.leave(x); cancel() }, true
	}
	return context.WithValue(ctx, overLimitKey{}, true), cancel, false
}

// overLimitKey marks a request beyond maxRequests.
type overLimitKey struct{}

func overLimit(ctx context.Context) bool { return ctx.Value(overLimitKey{}) != nil }

// serve has mcp-go carry out the message and returns the reply, nil if there is none. All
// notifications of the request have been written by then.
func (x *exchange) serve(ctx context.Context) mcp.JSONRPCMessage {
	// A call is refused by limiting, with a result that a model can read.
	if overLimit(ctx) && x.message.method != string(mcp.MethodToolsCall) {
		return (&fault{codeBusy, x.message.id, fmt.Sprintf(
			"%d requests are running, which is the maximum; wait until one has been answered", maxRequests)}).message()
	}
	answer := x.handle(ctx)
	x.settle()
	return answer
}

func (x *exchange) handle(ctx context.Context) (answer mcp.JSONRPCMessage) {
	defer func() {
		// recovering handles panics of tools. Any other panic fails this message only.
		if p := recover(); p != nil {
			x.logger.Error("serving a message panicked", "panic", p, "stack", string(debug.Stack()))
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

// code corrects the code of an error of mcp-go.
func (x *exchange) code(given int) int {
	switch {
	case x.notFound && x.message.modern == "":
		return mcp.RESOURCE_NOT_FOUND
	case x.notFound, given == mcp.INVALID_REQUEST, given == mcp.PARSE_ERROR:
		// The message is a valid request, so its parameters are wrong.
		return mcp.INVALID_PARAMS
	}
	return given
}

// settle returns when all notifications of the request have been written. Later ones are
// dropped: the reply ends the exchange.
func (x *exchange) settle() {
	none := false
	x.notify.Do(func() { none = true })
	if !none {
		close(x.settled)
		<-x.written
	}
}

// NotificationChannel starts the writer of notifications on its first call. mcp-go calls it
// before each notification; most requests have none.
func (x *exchange) NotificationChannel() chan<- mcp.JSONRPCNotification {
	x.notify.Do(func() {
		x.notices, x.settled, x.written = make(chan mcp.JSONRPCNotification, maxNotices), make(chan struct{}), make(chan struct{})
		go x.writeNotices()
	})
	return x.notices
}

// writeNotices writes notifications until the exchange is settled.
func (x *exchange) writeNotices() {
	defer close(x.written)
	for {
		select {
		case n := <-x.notices:
			x.send(n) // the call goes on if that fails
		case <-x.settled:
			for len(x.notices) > 0 {
				x.send(<-x.notices)
			}
			return
		}
	}
}

// ask sends a request to the client and reads the response into result. If ctx ends before
// the response, the request is cancelled.
func (x *exchange) ask(ctx context.Context, method mcp.MCPMethod, params, result any) error {
	id, answer, forget := x.openQuestion()
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
			x.withdraw(id)
		}
		return ctx.Err()
	}
}

// withdraw cancels a question.
func (x *exchange) withdraw(id int64) {
	x.send(mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: cancelled,
		Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": id, "reason": "the call that asked has ended"}},
	}})
}

// read reads the response to a question.
func (m *envelope) read(method mcp.MCPMethod, result any) error {
	if m.fault == nil {
		return json.Unmarshal(m.result, result)
	}
	var e mcp.JSONRPCErrorDetails
	if err := json.Unmarshal(m.fault, &e); err != nil {
		return err
	}
	return fmt.Errorf("the client answered %s with error %d: %s", method, e.Code, e.Message)
}

// RequestElicitation asks the user, one question at a time.
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

// withHello calls f with what the client says about itself, in this message or when it
// connected.
func (x *exchange) withHello(f func(h *hello)) {
	if x.message.modern != "" {
		f(&x.own)
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f(&x.hello)
}

// currentHello returns what the client says about itself.
func (x *exchange) currentHello() (h hello) {
	x.withHello(func(known *hello) { h = *known })
	return h
}

// Initialize records that the client is initialized.
func (x *exchange) Initialize() { x.withHello(func(h *hello) { h.initialized = true }) }

// Initialized reports whether notifications may be sent to the client: always while a request
// of the client is handled, and otherwise after the client has sent notifications/initialized.
func (x *exchange) Initialized() bool { return x.message.id != nil || x.currentHello().initialized }

// SessionID is empty: with it mcp-go would find requests to cancel, which a peer does itself.
func (x *exchange) SessionID() string { return "" }

// SetClientInfo records the name and version of the client.
func (x *exchange) SetClientInfo(info mcp.Implementation) {
	x.withHello(func(h *hello) { h.info = info })
}

// GetClientInfo returns the name and version of the client.
func (x *exchange) GetClientInfo() mcp.Implementation { return x.currentHello().info }

// SetClientCapabilities records what the client can be asked.
func (x *exchange) SetClientCapabilities(c mcp.ClientCapabilities) {
	x.withHello(func(h *hello) { h.capabilities = c })
}

// GetClientCapabilities returns what the client can be asked.
func (x *exchange) GetClientCapabilities() mcp.ClientCapabilities {
	return x.currentHello().capabilities
}

// SetProtocolVersion records the negotiated version.
func (x *exchange) SetProtocolVersion(version string) {
	x.withHello(func(h *hello) { h.version = version })
}

// ProtocolVersion returns the negotiated version.
func (x *exchange) ProtocolVersion() string { return x.currentHello().version }

// The interfaces of a session that mcp-go and the tools use.
var _ interface {
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithElicitation
	mcpserver.SessionWithSampling
	mcpserver.SessionWithRoots
	mcpserver.SessionWithProtocolVersion
	SetProtocolVersion(version string)
} = (*exchange)(nil)
