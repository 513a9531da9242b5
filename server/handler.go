package server

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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

// refusedTimeout is how long the rest of a refused request may take to arrive.
const refusedTimeout = time.Second

// corsHeaders are the headers that a web page of an allowed origin may send.
var corsHeaders = []string{
	"Accept", "Authorization", "Content-Type", "Last-Event-ID",
	mcpserver.HeaderKeySessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName,
}

// An httpHandler checks the requests of HTTP clients before mcp-go sees them: their origin,
// their token, their size and their rate. It keeps the clients' sessions, so that neither a
// web page in the user's browser nor another client reaches what a client has.
type httpHandler struct {
	HTTP
	logger     *slog.Logger
	limiter    *connLimiter
	principals principals
	refusals   *rateLimiter // of unauthenticated requests
	metrics    http.Handler
	mcp        *mcpserver.MCPServer
	mask       func(string) string
	sse        *mcpserver.SSEServer
}

// routes returns the handler of all paths.
func (h *httpHandler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.Handle("/mcp", h.checked(h.serveMCP))
	mux.Handle("GET /metrics", h.checked(h.serveMetrics))
	if h.SSE {
		mux.Handle("/sse", h.checked(h.serveSSE))
		mux.Handle("/message", h.checked(h.serveMessage))
	}
	mux.HandleFunc("/healthz", onlyGet)
	mux.HandleFunc("/metrics", onlyGet)
	// Clients without a token look for an authorization server, and show users its error.
	for _, path := range []string{"/.well-known/", "/register", "/authorize", "/token"} {
		mux.HandleFunc(path, noOAuth)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not found; MCP is served at /mcp", http.StatusNotFound)
	})
	return mux
}

// giveToken says where a client gets its token.
const giveToken = "in this server's entry in your MCP client, add the header Authorization: Bearer TOKEN; " +
	"where the server runs, `warmbox doctor` prints how to add it and names the file with the token"

// noOAuth answers a client that looks for OAuth, in the form of its errors (RFC 6749, 5.2).
func noOAuth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	json.NewEncoder(w).Encode(map[string]string{
		"error":             "invalid_request",
		"error_description": "warmbox has no OAuth, clients send a token: " + giveToken,
	})
}

// onlyGet refuses the other methods, as the mux does where no pattern matches.
func onlyGet(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
}

// serveMetrics serves the metrics to every principal. Only sums include the calls of others.
func (h *httpHandler) serveMetrics(w http.ResponseWriter, r *http.Request, _ *principal) error {
	h.metrics.ServeHTTP(w, r)
	return nil
}

// A refusal is why a request is not served. The error is a *fault if the message is
// wrong.
type refusal struct {
	status int
	error
}

func (r *refusal) Unwrap() error { return r.error }

// refuse returns a refusal with a status and a text.
func refuse(status int, text string) error { return &refusal{status, errors.New(text)} }

// A serveFunc serves a request that passed the checks, or returns why it does not. An
// OPTIONS request carries no token: its principal is nil.
type serveFunc func(w http.ResponseWriter, r *http.Request, p *principal) error

// checked returns a handler that serves only requests that pass the checks.
func (h *httpHandler) checked(serve serveFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := h.check(r)
		if err == nil {
			err = serve(w, r, p)
		}
		if err != nil {
			h.refuse(w, r, p, err)
		}
	})
}

// singleHeaders decide whose request it is. Of two values a proxy may read the other one.
var singleHeaders = []string{"Authorization", mcpserver.HeaderKeySessionID, mcpserver.HeaderKeyProtocolVersion}

// check checks a request before its body is read, and returns its principal.
func (h *httpHandler) check(r *http.Request) (*principal, error) {
	if !h.hostAllowed(r.Host) {
		return nil, refuse(http.StatusForbidden, "the Host of the request is not allowed; the owner of the server can allow it with http.allow_hosts (--allow-hosts)")
	}
	if !h.originAllowed(r) {
		return nil, refuse(http.StatusForbidden, "the Origin of the request is not allowed; the owner of the server can allow it with http.allow_origins (--allow-origins)")
	}
	for _, name := range singleHeaders {
		if len(r.Header.Values(name)) > 1 {
			return nil, refuse(http.StatusBadRequest, "the request has the header "+name+" twice")
		}
	}
	if r.Method == http.MethodOptions {
		return nil, nil
	}
	p := authenticate(r, h.principals)
	switch {
	case p == nil:
		return nil, refuse(http.StatusUnauthorized, "a valid token is required: "+giveToken)
	case !h.limiter.authenticate(r):
		return p, refuse(http.StatusServiceUnavailable, "too many connections are open; close some, or send several requests over one connection")
	case !p.rate.allow():
		return p, refuse(http.StatusTooManyRequests, "too many requests with this token; wait a second")
	}
	return p, nil
}

// refuse answers a request with the reason why it is refused, in a form that MCP clients
// show.
func (h *httpHandler) refuse(w http.ResponseWriter, r *http.Request, p *principal, err error) {
	status := http.StatusBadRequest
	if ref, ok := errors.AsType[*refusal](err); ok {
		status = ref.status
	}
	// Unauthenticated requests must not fill the log.
	if p == nil && !h.refusals.allow() {
		status, err = http.StatusTooManyRequests, errors.New("too many requests are refused; wait a second")
	}
	h.logRefusal(r, p, status, err)
	// net/http reads the rest of the body before it answers.
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

// logRefusal logs a refusal. Those for the rate of requests are many, and logged at level
// debug.
func (h *httpHandler) logRefusal(r *http.Request, p *principal, status int, why error) {
	level := slog.LevelInfo
	if status == http.StatusTooManyRequests {
		level = slog.LevelDebug
	}
	client := ""
	if p != nil {
		client = p.name
	}
	h.logger.Log(r.Context(), level, "request refused", "status", status, "why", why,
		"client", client, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
}

// hostAllowed reports whether clients may use a Host. A web page could point its own name
// at this machine (DNS rebinding). An address is not a name: if the server listens on
// all addresses, each is allowed.
func (h *httpHandler) hostAllowed(hostport string) bool {
	host, listen := hostname(hostport), hostname(h.Listen)
	if isLoopback(host) || host == listen {
		return true
	}
	if ip, err := netip.ParseAddr(listen); listen == "" || err == nil && ip.IsUnspecified() {
		if _, err := netip.ParseAddr(host); err == nil {
			return true
		}
	}
	return slices.ContainsFunc(h.AllowHosts, func(allowed string) bool { return hostname(allowed) == host })
}

// hostname returns the host of host:port, or of host alone.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// originAllowed reports whether a request's Origin may use the server. Only browsers send
// one. The server's own origin would be harmless, and has no pages.
func (h *httpHandler) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	own := err == nil && u.Scheme == h.scheme() && u.Host == r.Host
	return len(origins) == 1 && (own || slices.Contains(h.AllowOrigins, origins[0]))
}
