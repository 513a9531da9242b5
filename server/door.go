package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// refusedTimeout is how long the rest of a request may take that is refused.
const refusedTimeout = time.Second

// corsHeaders are those that a web page of an allowed origin may send.
var corsHeaders = []string{
	"Accept", "Authorization", "Content-Type", "Last-Event-ID",
	mcpserver.HeaderKeySessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName,
}

// A door is what stands between the network and mcp-go: it checks who comes,
// bounds what they bring, and keeps their sessions, so that neither a web page in
// the user's browser nor one client of several gets at what is another's.
type door struct {
	HTTP
	logger    *slog.Logger
	gate      *gate
	holders   []*holder
	strangers *bucket // of their refusals
	metrics   http.Handler
	mcp       *mcpserver.MCPServer
	mask      func(string) string
	sse       *mcpserver.SSEServer
}

func (d *door) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.Handle("/mcp", d.guarded(d.serveMCP))
	mux.Handle("GET /metrics", d.guarded(d.serveMetrics))
	if d.SSE {
		mux.Handle("/sse", d.guarded(d.serveSSE))
		mux.Handle("/message", d.guarded(d.serveMessage))
	}
	return mux
}

// serveMetrics answers any holder of a token. What there is of others is in the
// sums, and no more than that.
func (d *door) serveMetrics(w http.ResponseWriter, r *http.Request, _ *holder) error {
	d.metrics.ServeHTTP(w, r)
	return nil
}

// A refusal is why a request is not served. Where it is a fault of the message,
// the client is told that in the terms of JSON-RPC.
type refusal struct {
	status int
	error
}

func (r *refusal) Unwrap() error { return r.error }

func refuse(status int, text string) error { return &refusal{status, errors.New(text)} }

// A handler serves a request that passed the guard, or says why it does not.
// Who asks whether it may, by OPTIONS, has shown no token, and is nobody.
type handler func(w http.ResponseWriter, r *http.Request, from *holder) error

func (d *door) guarded(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := d.guard(r)
		if err == nil {
			err = serve(w, r, from)
		}
		if err != nil {
			d.answer(w, r, from, err)
		}
	})
}

// guard checks where a request comes from, before anything of it is read, and
// returns whose it is.
func (d *door) guard(r *http.Request) (*holder, error) {
	if !d.hostAllowed(r.Host) {
		return nil, refuse(http.StatusForbidden, "this server is not to be addressed by that Host; its owner can allow it")
	}
	if !d.originAllowed(r) {
		return nil, refuse(http.StatusForbidden, "web pages of that Origin may not use this server; its owner can allow it")
	}
	if r.Method == http.MethodOptions {
		return nil, nil
	}
	from := d.holder(r)
	switch {
	case from == nil:
		return nil, refuse(http.StatusUnauthorized, "this server wants the token that its owner gave you: Authorization: Bearer …")
	case !d.gate.welcome(r):
		return from, refuse(http.StatusServiceUnavailable, "too many connections of clients stand; close some, or use one for more than one request")
	case !from.rate.take():
		return from, refuse(http.StatusTooManyRequests, "too many requests come with this token; wait a second")
	}
	return from, nil
}

// answer tells a client why it is refused, in a form that MCP clients show.
func (d *door) answer(w http.ResponseWriter, r *http.Request, from *holder, err error) {
	status := http.StatusBadRequest
	if ref, ok := errors.AsType[*refusal](err); ok {
		status = ref.status
	}
	// What strangers cause must not fill the log, nor teach them much.
	if from == nil && !d.strangers.take() {
		status, err = http.StatusTooManyRequests, errors.New("too many requests are refused; wait a second")
	}
	d.note(r, from, status, err)
	// Before net/http answers, it reads what is left of the body.
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedTimeout))
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="warmbox"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	f, ok := errors.AsType[*fault](err)
	if !ok {
		f = &fault{mcp.INVALID_REQUEST, nil, err.Error()}
	}
	json.NewEncoder(w).Encode(f.message())
}

// note logs a refusal. Those of which there are too many are for who looks for
// them.
func (d *door) note(r *http.Request, from *holder, status int, why error) {
	level := slog.LevelInfo
	if status == http.StatusTooManyRequests {
		level = slog.LevelDebug
	}
	client := ""
	if from != nil {
		client = from.name
	}
	d.logger.Log(r.Context(), level, "request refused", "status", status, "why", why,
		"client", client, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
}

// hostAllowed keeps out web pages whose own name was made to mean this
// machine. An address is no name, so where the server listens on all of its
// addresses, any is right.
func (d *door) hostAllowed(hostport string) bool {
	host, listen := hostname(hostport), hostname(d.Listen)
	if isLoopback(host) || host == listen {
		return true
	}
	if ip, err := netip.ParseAddr(listen); listen == "" || err == nil && ip.IsUnspecified() {
		if _, err := netip.ParseAddr(host); err == nil {
			return true
		}
	}
	return slices.ContainsFunc(d.AllowHosts, func(allowed string) bool { return hostname(allowed) == host })
}

// hostname is the host in host:port, or in host alone.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// originAllowed keeps out web pages. Programs that are no browser send no
// Origin; a page of the server's own would be harmless, and there is none.
func (d *door) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	own := err == nil && u.Scheme == d.scheme() && u.Host == r.Host
	return len(origins) == 1 && (own || slices.Contains(d.AllowOrigins, origins[0]))
}

// serveSSE serves the stream of the older transport, which is the session: when
// the client hangs up, what it started ends.
func (d *door) serveSSE(w http.ResponseWriter, r *http.Request, from *holder) error {
	if r.Method == http.MethodGet {
		s := from.sessions.open()
		defer from.sessions.forget(s.key)
		ctx, leave, err := s.enter(r.Context(), math.MaxInt)
		if err != nil {
			return errNoSession
		}
		defer leave()
		r = r.WithContext(context.WithValue(ctx, callerKey{}, caller{session: s}))
	}
	d.sse.SSEHandler().ServeHTTP(w, r)
	return nil
}

// serveMessage takes the messages of the older transport.
func (d *door) serveMessage(w http.ResponseWriter, r *http.Request, from *holder) error {
	if r.Method == http.MethodPost {
		m, err := readMessage(w, r)
		if err != nil {
			return err
		}
		s := from.sessions.find(r.URL.Query().Get("sessionId"))
		if s == nil {
			return errNoSession
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{session: s}))
		r.Body = io.NopCloser(bytes.NewReader(m.body))
		// Of a client that names its version here mcp-go would want headers
		// that are the streamable transport's. The message says it as well.
		r.Header.Del(mcp.HeaderProtocolVersion)
	}
	d.sse.MessageHandler().ServeHTTP(w, r)
	return nil
}
