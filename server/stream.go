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
func (d *door) serveMCP(w http.ResponseWriter, r *http.Request, from *holder) error {
	d.allowOrigin(w, r)
	switch {
	case r.Method == http.MethodPost:
		return d.post(w, r, from)
	case r.Method == http.MethodDelete && !isModern(r):
		return end(w, r, from)
	case r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "":
		w.Header().Set("Access-Control-Allow-Methods", "POST, DELETE")
		w.Header().Set("Access-Control-Allow-Headers", strings.Join(corsHeaders, ", "))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Allow", "POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "only POST, and DELETE to end a session, are served here")
}

// allowOrigin tells a browser that a web page may read the answer.
func (d *door) allowOrigin(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); slices.Contains(d.origins(), origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Access-Control-Expose-Headers", mcpserver.HeaderKeySessionID)
	}
}

func isModern(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

func end(w http.ResponseWriter, r *http.Request, from *holder) error {
	if !from.sessions.forget(sessionKey{id: r.Header.Get(mcpserver.HeaderKeySessionID)}) {
		return errNoSession
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

var errNoSession = refuse(http.StatusNotFound, "there is no such session, or it was forgotten; initialize again")

// post serves a message as one of its session.
func (d *door) post(w http.ResponseWriter, r *http.Request, from *holder) error {
	m, err := readMessage(w, r)
	if err != nil {
		return err
	}
	if (isModern(r) || m.modern != "") && m.id == nil && !m.answers() {
		// Nothing there needs one: a call is cancelled by hanging up. Some
		// clients send them nevertheless and break when refused.
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := checkHeaders(r, m); err != nil {
		return &refusal{http.StatusBadRequest, err}
	}
	c, err := from.caller(w, r, m)
	if err != nil {
		return err
	}
	switch p := c.session.peer; {
	case m.answers():
		p.answer(m)
	case m.method == cancelled && m.id == nil:
		p.cancel(m)
	default:
		d.serve(w, r, c, m)
		return nil
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// serve has mcp-go carry out a message, which it may outlive where the client hangs
// up.
func (d *door) serve(w http.ResponseWriter, r *http.Request, c caller, m envelope) {
	ctx, release := whileThere(r.Context())
	defer release()
	s := &stream{w: w}
	x := &exchange{peer: c.session.peer, server: d.mcp, logger: d.logger, message: m, send: s.event, mask: d.mask}
	ctx, end, _ := x.begin(context.WithValue(ctx, callerKey{}, c))
	defer end()
	s.answer(x.serve(ctx), m.modern != "")
}

// whileThere returns a context that ends when the client of a request has gone,
// and whose cause says so.
func whileThere(request context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	stop := context.AfterFunc(request, func() { cancel(tools.ErrDisconnected) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// checkHeaders compares what a request says of its message with the message, as
// mcp-go does where it serves HTTP: what lies between client and server may have
// looked at the one, and the server obeys the other.
func checkHeaders(r *http.Request, m envelope) error {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	mismatch := func(reason string) error {
		return &fault{mcp.HEADER_MISMATCH, m.id, mcp.HeaderMismatchError{Header: mcp.HeaderProtocolVersion, Reason: reason}.Error()}
	}
	switch {
	case m.modern == "" && !mcp.IsModernProtocol(version):
		// To initialize is to agree on a version.
		if version != "" && !mcp.IsValidProtocolVersion(version) && m.method != string(mcp.MethodInitialize) {
			return &fault{mcp.UNSUPPORTED_PROTOCOL_VERSION, m.id, "this server does not speak the version that the header " + mcp.HeaderProtocolVersion + " names"}
		}
		return nil
	case m.answers():
		return &fault{mcp.INVALID_REQUEST, nil, "in this version of the protocol the server asks nothing that could be answered so"}
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

// caller finds out whose message it is.
func (h *holder) caller(w http.ResponseWriter, r *http.Request, m envelope) (caller, error) {
	id := r.Header.Get(mcpserver.HeaderKeySessionID)
	switch {
	case m.modern != "":
		// Clients of one name share their boxes, but request ids only their
		// own connection tells apart: so cancelling by id is not offered.
		return caller{session: h.sessions.client(m.client)}, nil
	case m.method == string(mcp.MethodInitialize):
		s := h.sessions.open()
		w.Header().Set(mcpserver.HeaderKeySessionID, s.key.id)
		return caller{session: s}, nil
	case id == "":
		return caller{}, refuse(http.StatusBadRequest, "a session is needed: initialize, then send its Mcp-Session-Id")
	}
	s := h.sessions.find(id)
	if s == nil {
		return caller{}, errNoSession
	}
	return caller{session: s}, nil
}

// A stream is what a client gets for one message over HTTP: the answer, or, where
// something has to be said before it, events of which the answer is the last.
type stream struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	events bool // have begun
	over   bool // the answer is written, or its reader has gone
}

var errOver = errors.New("the request has been answered")

// event writes a message as an event.
func (s *stream) event(message any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errOver
	}
	return s.write(message)
}

// write writes one, with the lock held.
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

// answer ends the stream, with the answer where there is one.
func (s *stream) answer(message mcp.JSONRPCMessage, modern bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
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

// statusOf is the status of an answer. Since 2026-07-28 it tells of errors.
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
