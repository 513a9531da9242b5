package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxStrangers is how many connections may stand that have not shown a token. A
// client shows its own with its first request, within milliseconds. But where
// hundreds call at the same moment all are accepted before the first is read.
const maxStrangers = 512

// A gate bounds how many connections stand. It tells guests, on whose
// connection a token was shown, from strangers: these push out each other, the
// one that came first goes first, and so nobody without a token can keep out
// who has one. A plain limit for all would let them.
type gate struct {
	*net.TCPListener
	most int // guests

	mu        sync.Mutex
	strangers []*conn // in the order in which they came
	guests    int
}

// Accept waits for a connection, as http.Server asks.
func (g *gate) Accept() (net.Conn, error) {
	tcp, err := g.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &conn{TCPConn: tcp, gate: g}
	if first := g.admit(c); first != nil {
		first.Close()
	}
	return c, nil
}

// admit adds a stranger, and returns the one that has to go for it.
func (g *gate) admit(c *conn) (first *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.strangers = append(g.strangers, c)
	if len(g.strangers) > maxStrangers {
		return g.strangers[0]
	}
	return nil
}

// welcome makes the stranger that a request came from a guest. It reports
// whether there was room for one.
func (g *gate) welcome(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		return true // a request that no gate let in
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.strangers, c)
	switch {
	case i < 0: // has been here before, or has been closed
		return true
	case g.guests >= g.most:
		return false
	}
	g.strangers = slices.Delete(g.strangers, i, i+1)
	g.guests++
	return true
}

func (g *gate) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.strangers, c); i >= 0 {
		g.strangers = slices.Delete(g.strangers, i, i+1)
		return
	}
	g.guests--
}

// A conn is a connection that a gate let in.
type conn struct {
	*net.TCPConn
	gate *gate
	left sync.Once
}

func (c *conn) Close() error {
	c.left.Do(func() { c.gate.leave(c) })
	return c.TCPConn.Close()
}

type connKey struct{}

// withConn notes for its requests what connection they come from.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}
