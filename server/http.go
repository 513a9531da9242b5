package server

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	// DefaultListen is where only programs of the same machine reach a server.
	DefaultListen = "127.0.0.1:8811"

	// DefaultMaxConns has room for a call under way from each of a hundred
	// agents, and a few more of each. A connection costs some 20 KB.
	DefaultMaxConns = 1024

	// DefaultMaxRate is far above what models do, each of which thinks between
	// its calls, and far below what keeps a core busy.
	DefaultMaxRate = 200
)

const (
	headerTimeout = 10 * time.Second
	keepAlive     = 2 * time.Minute

	// maxRefusals is how many requests without a token are answered with a
	// reason, and logged, in a second.
	maxRefusals = 50

	// shutdownTimeout is how long answers that are being written may take when
	// the server ends.
	shutdownTimeout = 5 * time.Second
)

// HTTP says where an HTTP server listens, and whom it lets in.
type HTTP struct {
	Listen string // host:port; "" is DefaultListen

	// Tokens are what clients show as bearer, by the names of those who were
	// given one each. Names are for people: who has a token is its principal,
	// whatever it is called. There is at least one, since whoever calls may run
	// commands, and even this machine has other users and web pages. What
	// clients with one of them have does not exist for those with another.
	Tokens map[string]string

	// Cert and Key are files; with them the server speaks HTTPS. Without, it
	// listens where others than this machine reach it only if Insecure says so:
	// who sees a token pass may run commands too.
	Cert, Key string
	Insecure  bool

	SSE bool // serves the older transport too, under /sse and /message

	// AllowHosts are names under which clients may address the server, beside
	// those of the loopback and of Listen; AllowOrigins are those of web pages,
	// "https://example.com", that may speak to it.
	AllowHosts, AllowOrigins []string

	MaxConns int // connections of clients at once; 0 is DefaultMaxConns
	MaxRate  int // requests a second with one token; 0 is DefaultMaxRate

	Ready func(addr net.Addr) // is told where it listens, before the first request; may be nil
}

// ListenAndServe serves any number of clients over HTTP, under /mcp, until ctx
// is done, and returns nil then. Every box is gone before it returns; where one
// does not end in time, an error says so.
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

// check refuses to be reached by strangers: who may call may run commands.
func (h HTTP) check() error {
	host, _, err := net.SplitHostPort(h.Listen)
	switch {
	case err != nil:
		return sandbox.Errorf(sandbox.InvalidArgument, `Give a host and a port, such as "127.0.0.1:8811".`, "cannot listen on %q: %w", h.Listen, err)
	case !isLoopback(host) && h.Cert == "" && !h.Insecure:
		return sandbox.Errorf(sandbox.InvalidArgument, "Give a certificate and its key, listen on 127.0.0.1, or allow it as insecure.",
			"will not listen on %q without TLS: whoever sees a token pass could run commands", h.Listen)
	}
	return checkTokens(h.Tokens)
}

// nameLetters make the name of a token, which goes into headers and addresses.
const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"

func checkTokens(tokens map[string]string) error {
	if len(tokens) == 0 {
		return sandbox.Errorf(sandbox.InvalidArgument, "Set a token.", "will not serve HTTP without a token: whoever reaches it could run commands")
	}
	names := map[string]string{} // by token
	for name, token := range tokens {
		if strings.Trim(name, nameLetters) != "" || name == "" {
			return sandbox.Errorf(sandbox.InvalidArgument, "Letters, digits and -._ make one.", "a token cannot have the name %q", name)
		}
		if strings.EqualFold(name, local) {
			return sandbox.Errorf(sandbox.InvalidArgument, "Choose another one.", "a token cannot have the name %q, which stands for who calls over stdio", name)
		}
		if token == "" {
			return sandbox.Errorf(sandbox.InvalidArgument, "Make one of 16 characters or more.", "the token of %q is empty", name)
		}
		if other, taken := names[token]; taken {
			return sandbox.Errorf(sandbox.InvalidArgument, "Give each a token of its own.", "%q and %q have the same token", name, other)
		}
		names[token] = name
	}
	return nil
}

// tls returns nil where none is wanted. The files are read anew for each client
// that connects, so that a renewed certificate needs no restart: that would end
// every box.
func (h HTTP) tls() (*tls.Config, error) {
	if h.Cert == "" {
		return nil, nil
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
		return &pair, err
	}
	if _, err := load(nil); err != nil {
		return nil, sandbox.Errorf(sandbox.InvalidArgument, "Both are files in PEM form; the first holds the certificate and those that it builds on.",
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

// origins are those of web pages that may read what the server answers. There is
// always one, the server's own, which needs none: for no origin at all mcp-go reads
// any.
func (h HTTP) origins() []string {
	return append([]string{h.scheme() + "://" + h.Listen}, h.AllowOrigins...)
}

// isLoopback tells whether only this machine reaches a host. A name may mean
// anything tomorrow, all but one.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (s *Server) serve(ctx context.Context, ln net.Listener, secure *tls.Config, h HTTP) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := s.newDoor(ln.(*net.TCPListener), h)
	srv := d.httpServer(ctx, secure)
	var wg sync.WaitGroup
	served := make(chan error, 1)
	wg.Go(func() {
		if secure == nil {
			served <- srv.Serve(d.gate)
		} else {
			served <- srv.ServeTLS(d.gate, "", "")
		}
	})
	for _, h := range d.holders {
		wg.Go(func() { h.sessions.sweep(ctx) })
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
	err = errors.Join(err, s.shutdown(context.WithoutCancel(ctx), srv, d))
	wg.Wait()
	return err
}

func (d *door) httpServer(ctx context.Context, secure *tls.Config) *http.Server {
	return &http.Server{
		Handler:           d.routes(),
		TLSConfig:         secure,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(d.logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withConn,
	}
}

// shutdown ends the boxes beside the requests: what waits for a command ends
// with its box. http.Server's own Shutdown would wait for open streams for ever.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, d *door) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.closeBoxes() }()
	d.sse.CloseSessions()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
	return <-closed
}

func (s *Server) newDoor(ln *net.TCPListener, h HTTP) *door {
	s.metrics = newMetrics(s.Manager)
	s.Manager.PrincipalNames = h.names()
	m := s.mcp()
	return &door{
		HTTP:      h,
		logger:    s.logger(),
		gate:      &gate{TCPListener: ln, most: cmp.Or(h.MaxConns, DefaultMaxConns)},
		holders:   s.holders(h),
		strangers: newBucket(maxRefusals),
		metrics:   s.metrics.handler(),
		mcp:       m,
		mask:      s.Manager.Mask,
		sse: mcpserver.NewSSEServer(m,
			mcpserver.WithSSEDisableLocalhostProtection(true),
			mcpserver.WithSSECORS(
				mcpserver.WithCORSAllowedOrigins(h.origins()...),
				mcpserver.WithCORSAllowedHeaders(corsHeaders...),
			),
			mcpserver.WithSessionIDGenerator(func(ctx context.Context, _ *http.Request) (string, error) {
				return ctx.Value(callerKey{}).(caller).session.key.id, nil
			}),
		),
	}
}

// names are those of the principals that have a token, for the record.
func (h HTTP) names() map[string]string {
	names := map[string]string{}
	for name, token := range h.Tokens {
		names[ofToken(token)] = name
	}
	return names
}

func (s *Server) holders(h HTTP) (list []*holder) {
	for name, token := range h.Tokens {
		list = append(list, &holder{
			name:     name,
			token:    sha256.Sum256([]byte(token)),
			sessions: &sessions{principal: ofToken(token), release: s.Manager.Release, all: map[sessionKey]*session{}},
			rate:     newBucket(cmp.Or(h.MaxRate, DefaultMaxRate)),
		})
	}
	return list
}
