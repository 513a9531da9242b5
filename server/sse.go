package server

import (
	"bytes"
	"context"
	"io"
	"math"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

// serveSSE serves the event stream of the older transport. The stream is the session: when
// the client disconnects, everything that it started ends.
func (h *httpHandler) serveSSE(w http.ResponseWriter, r *http.Request, p *principal) error {
	if r.Method == http.MethodGet {
		s := p.sessions.open()
		defer p.sessions.forget(s.key)
		ctx, leave, err := s.enter(r.Context(), math.MaxInt)
		if err != nil {
			return errNoSession
		}
		defer leave()
		r = r.WithContext(context.WithValue(ctx, sessionCtxKey{}, s))
	}
	h.sse.SSEHandler().ServeHTTP(w, r)
	return nil
}

// serveMessage serves a message of the older transport.
func (h *httpHandler) serveMessage(w http.ResponseWriter, r *http.Request, p *principal) error {
	if r.Method == http.MethodPost {
		m, err := readMessage(w, r)
		if err != nil {
			return err
		}
		s := p.sessions.find(r.URL.Query().Get("sessionId"))
		if s == nil {
			return errNoSession
		}
		r = r.WithContext(context.WithValue(r.Context(), sessionCtxKey{}, s))
		r.Body = io.NopCloser(bytes.NewReader(m.body))
		// With this header mcp-go requires others of the streamable transport. The
		// message names the version as well.
		r.Header.Del(mcp.HeaderProtocolVersion)
	}
	h.sse.MessageHandler().ServeHTTP(w, r)
	return nil
}
