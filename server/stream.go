package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/tools"
)

// serveMCP serves the streamable transport.
func (h *httpHandler) serveMCP(w http.ResponseWriter, r *http.Request, p *principal) error {
	h.allowOrigin(w, r)
	switch {
	case r.Method == http.MethodPost:
		return h.post(w, r, p)
	case r.Method == http.MethodDelete && !isModern(r):
		return endSession(w, r, p)
	case r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "":
		w.Header().Set("Access-Control-Allow-Methods", "POST, DELETE")
		w.Header().Set("Access-Control-Allow-Headers", strings.Join(corsHeaders, ", "))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Allow", "POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "only POST, and DELETE to end a session, are served here")
}

// allowOrigin tells a browser that a web page may read the reply.
func (h *httpHandler) allowOrigin(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); slices.Contains(h.origins(), origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", mcpserver.HeaderKeySessionID)
	}
}

// isModern reports whether a request names a protocol version without sessions.
func isModern(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

// endSession ends the session of a DELETE request.
func endSession(w http.ResponseWriter, r *http.Request, p *principal) error {
	if !p.sessions.forget(sessionKey{id: r.Header.Get(mcpserver.HeaderKeySessionID)}) {
		return errNoSession
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

var errNoSession = refuse(http.StatusNotFound, "no such session, or it has expired; initialize again")

// post serves the message of a POST request in its session.
func (h *httpHandler) post(w http.ResponseWriter, r *http.Request, p *principal) error {
	m, err := readMessage(w, r)
	if err != nil {
		return err
	}
	if (isModern(r) || m.modern != "") && m.id == nil && !m.answers() {
		// These versions need no notification from a client: it cancels a call by
		// closing the request. Some clients send them and fail if refused.
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := checkHeaders(r, m); err != nil {
		return &refusal{http.StatusBadRequest, err}
	}
	s, err := p.sessionOf(w, r, m)
	if err != nil {
		return err
	}
	switch {
	case m.answers():
		s.peer.answer(m)
	case m.method == cancelled && m.id == nil:
		s.peer.cancel(m)
	default:
		h.serve(w, r, s, m)
		return nil
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// serve has mcp-go carry out a message and writes the reply.
func (h *httpHandler) serve(w http.ResponseWriter, r *http.Request, s *session, m envelope) {
	ctx, release := whileConnected(r.Context())
	defer release()
	reply := &stream{w: w}
	x := &exchange{peer: s.peer, server: h.mcp, logger: h.logger, message: m, send: reply.event, mask: h.mask}
	ctx, end, _ := x.begin(context.WithValue(ctx, sessionCtxKey{}, s))
	defer end()
	reply.answer(x.serve(ctx), m.modern != "")
}

// whileConnected returns a context that ends when the client of a request disconnects. Its
// cause is then tools.ErrDisconnected.
func whileConnected(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	stop := context.AfterFunc(request, func() { cancel(tools.ErrDisconnected) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// checkHeaders compares the headers of a request with its message, as mcp-go does if it
// serves HTTP itself: a proxy may have checked the headers, and the server obeys the
// message.
func checkHeaders(r *http.Request, m envelope) error {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	mismatch := func(reason string) error {
		return &fault{mcp.HEADER_MISMATCH, m.id, mcp.HeaderMismatchError{Header: mcp.HeaderProtocolVersion, Reason: reason}.Error()}
	}
	switch {
	case m.modern == "" && !mcp.IsModernProtocol(version):
		// An initialize message negotiates the version.
		if version != "" && !mcp.IsValidProtocolVersion(version) && m.method != string(mcp.MethodInitialize) {
			return &fault{mcp.UNSUPPORTED_PROTOCOL_VERSION, m.id, "the server does not support the version in the header " + mcp.HeaderProtocolVersion}
		}
		return nil
	case m.answers():
		return &fault{mcp.INVALID_REQUEST, nil, "in this version of the protocol the server sends no requests, so a response answers none"}
	case r.Header.Get(mcp.HeaderLastEventID) != "":
		return &fault{mcp.HEADER_MISMATCH, m.id, "streams cannot be resumed in this version of the protocol; leave out " + mcp.HeaderLastEventID}
	case version == "":
		return mismatch("missing, while the message names a version")
	case m.modern == "":
		return &fault{mcp.INVALID_PARAMS, m.id, "params has no _meta with " + mcp.MetaKeyProtocolVersion}
	case version != m.modern:
		return mismatch("the message names another version")
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, version, mcp.MCPMethod(m.method), m.params); err != nil {
		return &fault{mcp.HEADER_MISMATCH, m.id, err.Error()}
	}
	return nil
}

// sessionOf returns the session of a message. An initialize message begins one.
func (p *principal) sessionOf(w http.ResponseWriter, r *http.Request, m envelope) (*session, error) {
	id := r.Header.Get(mcpserver.HeaderKeySessionID)
	switch {
	case m.modern != "":
		// Clients of one name share their boxes. Their request ids may be equal,
		// so a request cannot be cancelled by its id.
		return p.sessions.client(m.client), nil
	case m.method == string(mcp.MethodInitialize):
		s := p.sessions.open()
		w.Header().Set(mcpserver.HeaderKeySessionID, s.key.id)
		return s, nil
	case id == "":
		return nil, refuse(http.StatusBadRequest, "a session is required: send initialize first, then repeat the Mcp-Session-Id header of its response in each request")
	}
	s := p.sessions.find(id)
	if s == nil {
		return nil, errNoSession
	}
	return s, nil
}

// A stream writes the reply to one message over HTTP: plain JSON, or server-sent events if
// notifications or requests of ours come before it. The reply is the last event.
type stream struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	events bool // the first event is written
	closed bool // the reply is written
}

var errAnswered = errors.New("the request has been answered")

// event writes a message as an event.
func (s *stream) event(message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errAnswered
	}
	return s.write(message)
}

// write writes an event. The caller holds s.mu.
func (s *stream) write(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if !s.events {
		s.events = true
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.w.Header().Set("Cache-Control", "no-cache")
	}
	if _, err = io.WriteString(s.w, "event: message\ndata: "+string(text)+"\n\n"); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// answer writes the reply, if there is one, and closes the stream.
func (s *stream) answer(message mcp.JSONRPCMessage, modern bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	switch {
	case message == nil && !s.events:
		s.w.WriteHeader(http.StatusAccepted)
	case message == nil:
	case s.events:
		s.write(message)
	default:
		s.w.Header().Set("Content-Type", "application/json")
		s.w.WriteHeader(statusOf(message, modern))
		json.NewEncoder(s.w).Encode(message)
	}
}

// statusOf returns the HTTP status of a reply. Since 2026-07-28 it depends on the error.
func statusOf(message mcp.JSONRPCMessage, modern bool) int {
	e, failed := message.(mcp.JSONRPCError)
	if !modern || !failed {
		return http.StatusOK
	}
	switch e.Error.Code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case mcp.HEADER_MISMATCH, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY, mcp.UNSUPPORTED_PROTOCOL_VERSION,
		mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
