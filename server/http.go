package server

import (
	"cmp"
	"context"
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

// DefaultListen is where an HTTP server listens if nothing else is said: where
// only programs of the same machine reach it.
const DefaultListen = "127.0.0.1:8811"

const (
	headerTimeout = 10 * time.Second
	keepAlive     = 2 * time.Minute

	// shutdownTimeout is how long answers that are being written may take when
	// the server ends.
	shutdownTimeout = 5 * time.Second
)

// HTTP says where an HTTP server listens, and whom it lets in.
type HTTP struct {
	Listen string // host:port; "" is DefaultListen
	Token  string // that clients must show as bearer; needed wherever others than this machine can reach Listen
	SSE    bool   // serves the older transport too, under /sse and /message

	// AllowHosts are names under which clients may address the server, beside
	// those of the loopback and of Listen; AllowOrigins are those of web pages,
	// "https://example.com", that may speak to it.
	AllowHosts, AllowOrigins []string

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
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", h.Listen)
	if err != nil {
		err = sandbox.Errorf(sandbox.InvalidArgument, "Choose another address, or end the program that listens there.", "cannot serve HTTP: %w", err)
		return errors.Join(err, s.closeBoxes())
	}
	return s.serve(ctx, ln, h)
}

// check refuses to be reached by strangers: who may call may run commands.
func (h HTTP) check() error {
	host, _, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return sandbox.Errorf(sandbox.InvalidArgument, `Give a host and a port, such as "127.0.0.1:8811".`, "cannot listen on %q: %w", h.Listen, err)
	}
	if h.Token == "" && !isLoopback(host) {
		return sandbox.Errorf(sandbox.InvalidArgument, "Set a token, or listen on 127.0.0.1.",
			"will not listen on %q without a token: whoever reaches it could run commands", h.Listen)
	}
	return nil
}

// isLoopback tells whether only this machine reaches a host. A name may mean
// anything tomorrow, all but one.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

func (s *Server) serve(ctx context.Context, ln net.Listener, h HTTP) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := s.newDoor(h)
	srv := &http.Server{
		Handler:           d.routes(),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       keepAlive,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.logger().Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	var wg sync.WaitGroup
	served := make(chan error, 1)
	wg.Go(func() { served <- srv.Serve(ln) })
	wg.Go(func() { d.sessions.sweep(ctx) })
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

// shutdown ends the boxes beside the requests: what waits for a command ends
// with its box. http.Server's own Shutdown would wait for open streams for ever.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, d *door) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.closeBoxes() }()
	d.stream.CloseSessions(ctx)
	d.sse.CloseSessions()
	if srv.Shutdown(ctx) != nil {
		srv.Close()
	}
	return <-closed
}

func (s *Server) newDoor(h HTTP) *door {
	m := s.mcp()
	cors := []mcpserver.CORSOption{
		// With no origin mcp-go would allow any to read the older transport's
		// stream, so there is always one: the server's own, which needs none.
		mcpserver.WithCORSAllowedOrigins(append([]string{"http://" + h.Listen}, h.AllowOrigins...)...),
		mcpserver.WithCORSAllowedHeaders(corsHeaders...),
	}
	return &door{
		HTTP:     h,
		logger:   s.logger(),
		sessions: &sessions{release: s.Manager.Release, all: map[string]*session{}},
		stream: mcpserver.NewStreamableHTTPServer(m,
			mcpserver.WithStateLess(true),
			mcpserver.WithDisableStreaming(true),
			mcpserver.WithDisableLocalhostProtection(true), // the door's own knows more
			mcpserver.WithStreamableHTTPLogger(s.logger()),
			mcpserver.WithStreamableHTTPCORS(cors...),
			mcpserver.WithHTTPContextFunc(func(ctx context.Context, _ *http.Request) context.Context {
				return m.WithContext(ctx, request{
					transportSession: mcpserver.ClientSessionFromContext(ctx).(transportSession),
					id:               ctx.Value(callerKey{}).(caller).calls,
				})
			}),
		),
		sse: mcpserver.NewSSEServer(m,
			mcpserver.WithSSEDisableLocalhostProtection(true),
			mcpserver.WithSSECORS(cors...),
			mcpserver.WithSessionIDGenerator(func(ctx context.Context, _ *http.Request) (string, error) {
				return Owner(ctx), nil
			}),
		),
	}
}
