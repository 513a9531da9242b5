package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// DefaultListen is an address that only programs of the same machine reach.
	DefaultListen = "127.0.0.1:8811"

	// DefaultMaxConns is enough for a hundred agents with ten calls each. A
	// connection costs some 20 KB.
	DefaultMaxConns = 1024

	// DefaultMaxRate is far above the rate of a model, which thinks between its
	// calls, and far below what occupies a core.
	DefaultMaxRate = 200
)

const (
	headerTimeout = 10 * time.Second
	keepAlive     = 2 * time.Minute

	// maxRefusals is how many requests without a valid token are answered with a
	// reason, and logged at level info, in a second.
	maxRefusals = 50

	// shutdownTimeout is how long a server that ends waits for replies that are
	// being written.
	shutdownTimeout = 5 * time.Second
)

// HTTP says where an HTTP server listens, and which clients may use it.
type HTTP struct {
	Listen string // host:port; "" is DefaultListen

	// Tokens are the bearer tokens of clients, by name. A token identifies a
	// principal; its name is for people. At least one is required, since a client
	// may run commands, and even this machine has other users and web pages. What
	// one principal has does not exist for another.
	Tokens map[string]string

	// Cert and Key are files; with them the server speaks HTTPS. Without them it
	// listens on other addresses than loopback only if Insecure is set: whoever
	// reads a token on the network can run commands.
	Cert, Key string
	Insecure  bool

	SSE bool // also serves the older transport, under /sse and /message

	// AllowHosts are the Host names that clients may use besides those of loopback
	// and of Listen. AllowOrigins are the Origins of web pages that may use the
	// server, such as "https://example.com".
	AllowHosts, AllowOrigins []string

	MaxConns int // authenticated connections at once; 0 is DefaultMaxConns
	MaxRate  int // requests of a principal in a second; 0 is DefaultMaxRate

	Ready func(addr net.Addr) // called with the address before the first request; may be nil
}

// ListenAndServe serves any number of clients over HTTP, under /mcp, until ctx is done, and
// then returns nil. Every box has ended before it returns; if one does not end in time, an
// error says so.
func (s *Server) ListenAndServe(ctx context.Context, h HTTP) error {
	h.Listen = cmp.Or(h.Listen, DefaultListen)
	if err := h.check(); err != nil {
		return errors.Join(err, s.closeBoxes())
	}
	secure, err := h.tls()
	if err != nil {
		return errors.Join(err, s.closeBoxes())
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.Listen)
	if err != nil {
		err = sandbox.Errorf(sandbox.InvalidArgument, "Choose another address, or end the program that listens there.", "cannot serve HTTP: %w", err)
		return errors.Join(err, s.closeBoxes())
	}
	return s.serve(ctx, ln, secure, h)
}

// check refuses settings under which unauthenticated clients could run commands.
func (h HTTP) check() error {
	host, _, err := net.SplitHostPort(h.Listen)
	switch {
	case err != nil:
		return sandbox.Errorf(sandbox.InvalidArgument, `Give a host and a port, such as "127.0.0.1:8811".`, "cannot listen on %q: %w", h.Listen, err)
	case !isLoopback(host) && h.Cert == "" && !h.Insecure:
		return sandbox.Errorf(sandbox.InvalidArgument, "Give a certificate and its key, listen on 127.0.0.1, or set insecure.",
			"cannot listen on %q without TLS: anyone who reads a token on the network could run commands", h.Listen)
	}
	return checkTokens(h.Tokens)
}

// nameLetters are allowed in the name of a token, which is part of headers and addresses.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

func checkTokens(tokens map[string]string) error {
	if len(tokens) == 0 {
		return sandbox.Errorf(sandbox.InvalidArgument, "Set a token.", "cannot serve HTTP without a token: anyone who reaches the server could run commands")
	}
	names := map[string]string{} // by token
	for name, token := range tokens {
		if strings.Trim(name, nameLetters) != "" || name == "" {
			return sandbox.Errorf(sandbox.InvalidArgument, "Use letters, digits and -._ only.", "a token cannot have the name %q", name)
		}
		if strings.EqualFold(name, local) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose another name.", "a token cannot have the name %q, which is reserved for stdio", name)
		}
		if token == "" {
			return sandbox.Errorf(sandbox.InvalidArgument, "Use 16 characters or more.", "the token of %q is empty", name)
		}
		if other, taken := names[token]; taken {
			return sandbox.Errorf(sandbox.InvalidArgument, "Give each name a token of its own.", "%q and %q have the same token", name, other)
		}
		names[token] = name
	}
	return nil
}

// tls returns nil without a certificate. The files are read for each connection, so that a
// renewed certificate needs no restart, which would end every box.
func (h HTTP) tls() (*tls.Config, error) {
	if h.Cert == "" {
		return nil, nil
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, sandbox.Errorf(sandbox.InvalidArgument, "The certificate and the key are PEM files; the file of the certificate also has the intermediate certificates.",
			"cannot use the certificate %s with the key %s: %w", h.Cert, h.Key, err)
	}
	return &tls.Config{GetCertificate: load}, nil
}

func (h HTTP) scheme() string {
	if h.Cert == "" {
		return "http"
	}
	return "https"
}

// origins are the Origins of web pages that may read replies. The list always has the
// server's own, since mcp-go takes an empty list for every Origin.
func (h HTTP) origins() []string {
	return append([]string{h.scheme() + "://" + h.Listen}, h.AllowOrigins...)
}

// isLoopback reports whether only this machine reaches a host. Of names only localhost
// counts: others may resolve to another address tomorrow.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (s *Server) serve(ctx context.Context, ln net.Listener, secure *tls.Config, h HTTP) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	handler := s.newHandler(ln.(*net.TCPListener), h)
	srv := handler.httpServer(ctx, secure)
	var wg sync.WaitGroup
	served := make(chan error, 1)
	wg.Go(func() {
		if secure == nil {
			served <- srv.Serve(handler.limiter)
		} else {
			served <- srv.ServeTLS(handler.limiter, "", "")
		}
	})
	for _, p := range handler.principals {
		wg.Go(func() { p.sessions.sweep(ctx) })
	}
	if h.Ready != nil {
		h.Ready(ln.Addr())
	}

	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	cancel()
	err = errors.Join(err, s.shutdown(context.WithoutCancel(ctx), srv, handler.sse))
	wg.Wait()
	return err
}

func (h *httpHandler) httpServer(ctx context.Context, secure *tls.Config) *http.Server {
	return &http.Server{
		Handler:           h.routes(),
		TLSConfig:         secure,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(h.logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
	}
}

// shutdown ends the boxes and the requests at the same time: a call that waits for a command
// ends with its box. http.Server.Shutdown alone would wait for open streams for ever.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, sse *mcpserver.SSEServer) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.closeBoxes() }()
	sse.CloseSessions()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
	return <-closed
}

func (s *Server) newHandler(ln *net.TCPListener, h HTTP) *httpHandler {
	s.metrics = newMetrics(s.Manager)
	s.Manager.PrincipalNames = h.names()
	principals := s.principals(h)
	s.Manager.InUse = principals.inUse
	m := s.mcp()
	return &httpHandler{
		HTTP:       h,
		logger:     s.logger(),
		limiter:    &connLimiter{TCPListener: ln, most: cmp.Or(h.MaxConns, DefaultMaxConns)},
		principals: principals,
		refusals:   newRateLimiter(maxRefusals),
		metrics:    s.metrics.handler(),
		mcp:        m,
		mask:       s.Manager.Mask,
		sse: mcpserver.NewSSEServer(m,
			mcpserver.WithSSEDisableLocalhostProtection(true),
			mcpserver.WithSSECORS(
				mcpserver.WithCORSAllowedOrigins(h.origins()...),
				mcpserver.WithCORSAllowedHeaders(corsHeaders...),
			),
			mcpserver.WithSessionIDGenerator(func(ctx context.Context, _ *http.Request) (string, error) {
				return ctx.Value(sessionCtxKey{}).(*session).key.id, nil
			}),
		),
	}
}

// names returns the names of principals, for the audit record.
func (h HTTP) names() map[string]string {
	names := map[string]string{}
	for name, token := range h.Tokens {
		names[principalOf(token)] = name
	}
	return names
}
