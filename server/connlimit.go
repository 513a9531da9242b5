package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxUnauthenticated is how many unauthenticated connections may be open. A client sends
// its token with its first request, within milliseconds. But where hundreds of clients
// connect at the same moment, all are accepted before the first request is read.
const maxUnauthenticated = 512

// A connLimiter is a listener that bounds how many connections are open. A connection is
// authenticated once a request with a valid token came over it. Beyond their limit the
// oldest unauthenticated connection is closed for each new one, so clients without a token
// cannot keep out those that have one. A single limit for all connections would let them.
type connLimiter struct {
	*net.TCPListener
	most int // authenticated connections

	mu              sync.Mutex
	unauthenticated []*conn // the oldest first
	authenticated   int
}

// Accept waits for a connection, as http.Server asks.
func (l *connLimiter) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: tcp, limiter: l}
	if oldest := l.add(c); oldest != nil {
		oldest.Close()
	}
	return c, nil
}

// add adds an unauthenticated connection, and returns the one to close for it.
func (l *connLimiter) add(c *conn) (oldest *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unauthenticated = append(l.unauthenticated, c)
	if len(l.unauthenticated) > maxUnauthenticated {
		return l.unauthenticated[0]
	}
	return nil
}

// authenticate marks the connection of a request as authenticated. It reports false if
// there are too many of these already.
func (l *connLimiter) authenticate(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return true // the request came over no connection of ours
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.unauthenticated, c)
	switch {
	case i < 0: // it is authenticated already, or closed
		return true
	case l.authenticated >= l.most:
		return false
	}
	l.unauthenticated = slices.Delete(l.unauthenticated, i, i+1)
	l.authenticated++
	return true
}

// remove removes a connection that is closed.
func (l *connLimiter) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.unauthenticated, c); i >= 0 {
		l.unauthenticated = slices.Delete(l.unauthenticated, i, i+1)
		return
	}
	l.authenticated--
}

// A conn is a connection that a connLimiter counts.
type conn struct {
	*net.TCPConn
	limiter *connLimiter
	closed  sync.Once
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.closed.Do(func() { c.limiter.remove(c) })
	return c.TCPConn.Close()
}

type connKey struct{}

// withConn adds the connection to the contexts of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}
