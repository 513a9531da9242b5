package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/tools"
)

const (
	// maxBody is the largest request that is taken. A command may have a
	// mebibyte, and JSON may need six bytes for one (\u0001); the rest is room
	// for what comes with it.
	maxBody = 8 << 20

	// bodyTimeout is how long a request may take to arrive.
	bodyTimeout = time.Minute
)

// corsHeaders are those that a web page of an allowed origin may send.
var corsHeaders = []string{
	"Accept", "Authorization", "Content-Type", "Last-Event-ID",
	mcpserver.HeaderKeySessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName,
}

// A door is what stands between the network and mcp-go, which lets in
// everybody: it checks who comes, bounds what they bring, and keeps their
// sessions, so that neither a web page in the user's browser nor one client of
// several gets at what is another's.
type door struct {
	HTTP
	logger   *slog.Logger
	sessions *sessions
	stream   *mcpserver.StreamableHTTPServer
	sse      *mcpserver.SSEServer
}

func (d *door) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.Handle("/mcp", d.guarded(d.serveMCP))
	if d.SSE {
		mux.Handle("/sse", d.guarded(d.serveSSE))
		mux.Handle("/message", d.guarded(d.serveMessage))
	}
	return mux
}

// A refusal is why a request is not served.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, text string) error { return &refusal{status, text} }

// A handler serves a request that passed the guard, or says why it does not.
type handler func(w http.ResponseWriter, r *http.Request) error

func (d *door) guarded(serve handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := d.guard(r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			d.answer(w, r, err)
		}
	})
}

// answer tells a client why it is refused, in a form that MCP clients show.
func (d *door) answer(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadRequest
	if ref, ok := errors.AsType[*refusal](err); ok {
		status = ref.status
	}
	d.logger.Info("request refused", "status", status, "why", err, "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="warmbox"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(mcp.NewJSONRPCError(mcp.NewRequestId(nil), mcp.INVALID_REQUEST, err.Error(), nil))
}

// guard checks where a request comes from, before anything of it is read.
func (d *door) guard(r *http.Request) error {
	if !d.hostAllowed(r.Host) {
		return refuse(http.StatusForbidden, "this server is not to be addressed by that Host; its owner can allow it")
	}
	if !d.originAllowed(r) {
		return refuse(http.StatusForbidden, "web pages of that Origin may not use this server; its owner can allow it")
	}
	if r.Method != http.MethodOptions && !d.tokenShown(r) {
		return refuse(http.StatusUnauthorized, "this server wants the token of its owner: Authorization: Bearer …")
	}
	return nil
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
	own := err == nil && u.Scheme == "http" && u.Host == r.Host
	return len(origins) == 1 && (own || slices.Contains(d.AllowOrigins, origins[0]))
}

// tokenShown compares hashes, so that the time it takes tells nothing of the
// token, not even its length.
func (d *door) tokenShown(r *http.Request) bool {
	if d.Token == "" {
		return true
	}
	shown, want := sha256.Sum256([]byte(bearer(r))), sha256.Sum256([]byte(d.Token))
	return subtle.ConstantTimeCompare(shown[:], want[:]) == 1
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// serveMCP serves the streamable transport.
func (d *door) serveMCP(w http.ResponseWriter, r *http.Request) error {
	switch {
	case r.Method == http.MethodPost:
		return d.post(w, r)
	case r.Method == http.MethodDelete && !isModern(r):
		return d.delete(w, r)
	case r.Method == http.MethodOptions && r.Header.Get("Origin") != "":
		d.stream.ServeHTTP(w, r)
		return nil
	}
	w.Header().Set("Allow", "POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "only POST, and DELETE to end a session, are served here")
}

func isModern(r *http.Request) bool {
	return mcp.IsModernProtocol(r.Header.Get(mcp.HeaderProtocolVersion))
}

func (d *door) delete(w http.ResponseWriter, r *http.Request) error {
	if !d.sessions.forget(r.Header.Get(mcpserver.HeaderKeySessionID)) {
		return errNoSession
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

var errNoSession = refuse(http.StatusNotFound, "there is no such session, or it was forgotten; initialize again")

// An envelope is what the door must know of a message.
type envelope struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`

	modern bool   // of a protocol version that knows no sessions
	client string // the name that it gives itself, there
}

// post hands a message to mcp-go as that of its session.
func (d *door) post(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return refuse(http.StatusBadRequest, "the body is not one JSON-RPC message: "+err.Error())
	}
	e.era(r)
	if e.modern && strings.HasPrefix(e.Method, "notifications/") {
		// Nothing there needs one: a call is cancelled by hanging up. Some
		// clients send them nevertheless and break when refused.
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	c, err := d.caller(w, r, e)
	if err != nil {
		return err
	}
	ctx, release := whileThere(r.Context())
	defer release()
	r = r.WithContext(context.WithValue(ctx, callerKey{}, c))
	r.Body = io.NopCloser(bytes.NewReader(body))
	d.stream.ServeHTTP(w, r)
	return nil
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

// era tells what protocol a message follows, by the same signs as mcp-go.
func (e *envelope) era(r *http.Request) {
	var params struct {
		Meta *mcp.Meta `json:"_meta"`
	}
	json.Unmarshal(e.Params, &params) // what is wrong with them, mcp-go says better
	e.modern = isModern(r) || mcp.IsModernProtocol(params.Meta.ProtocolVersion())
	if info := params.Meta.ClientInfo(); info != nil {
		e.client = info.Name
	}
}

// caller finds out whose message it is.
func (d *door) caller(w http.ResponseWriter, r *http.Request, e envelope) (caller, error) {
	id := r.Header.Get(mcpserver.HeaderKeySessionID)
	switch {
	case e.modern:
		// Clients of one name share their boxes, but request ids only their
		// own connection tells apart: so nobody cancels by id at all.
		return caller{d.sessions.client(e.client, bearer(r)), rand.Text()}, nil
	case e.Method == string(mcp.MethodInitialize):
		s := d.sessions.open()
		w.Header().Set(mcpserver.HeaderKeySessionID, s.id)
		return caller{s, s.id}, nil
	case id == "":
		return caller{}, refuse(http.StatusBadRequest, "a session is needed: initialize, then send its Mcp-Session-Id")
	}
	s := d.sessions.find(id)
	if s == nil {
		return caller{}, errNoSession
	}
	return caller{s, s.id}, nil
}

// readBody takes only what a web page cannot send without asking first, and
// only so much of it, in so much time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, refuse(http.StatusRequestEntityTooLarge, "a message of more than 8 MiB is not taken; write large input to a file in the box, piece by piece")
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the body did not arrive: "+err.Error())
	}
	rc.SetReadDeadline(time.Time{})
	return body, nil
}

// serveSSE serves the stream of the older transport, which is the session: when
// the client hangs up, what it started ends.
func (d *door) serveSSE(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet {
		s := d.sessions.open()
		defer d.sessions.forget(s.id)
		ctx, leave, err := s.enter(r.Context(), math.MaxInt)
		if err != nil {
			return errNoSession
		}
		defer leave()
		r = r.WithContext(context.WithValue(ctx, callerKey{}, caller{s, s.id}))
	}
	d.sse.SSEHandler().ServeHTTP(w, r)
	return nil
}

// serveMessage takes the messages of the older transport.
func (d *door) serveMessage(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodPost {
		body, err := readBody(w, r)
		if err != nil {
			return err
		}
		s := d.sessions.find(r.URL.Query().Get("sessionId"))
		if s == nil {
			return errNoSession
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller{s, s.id}))
		r.Body = io.NopCloser(bytes.NewReader(body))
		// Of a client that names its version here mcp-go would want headers
		// that are the streamable transport's. The message says it as well.
		r.Header.Del(mcp.HeaderProtocolVersion)
	}
	d.sse.MessageHandler().ServeHTTP(w, r)
	return nil
}
