package tools

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/warmbox/warmbox/sandbox"
)

// A client is asked, its model or its user, in one of two ways. In protocol
// versions before 2026-07-28 the server asks while the call waits; since then the
// call is answered with the question, and the client calls again with the answer.

// An offer is what a client must be able to do to be asked.
type offer func(mcp.ClientCapabilities) bool

// asksNow returns the session of a call in which its client may be asked.
func asksNow[T mcpserver.SessionWithClientInfo](ctx context.Context, offered offer) (session T, ok bool) {
	if mcpserver.IsModernRequest(ctx) {
		return session, false
	}
	session, ok = mcpserver.ClientSessionFromContext(ctx).(T)
	return session, ok && offered(session.GetClientCapabilities())
}

// asksBack reports whether the answer to a call may be a question.
func asksBack(ctx context.Context, offered offer) bool {
	info := mcpserver.RequestProtocolInfoFromContext(ctx)
	return info != nil && info.Modern && info.ClientCapabilities != nil && offered(*info.ClientCapabilities)
}

// brings reports whether a call brings an answer.
func brings(req mcp.CallToolRequest) bool {
	return req.Params.RequestState != "" || len(req.Params.InputResponses) > 0
}

const (
	// maxPending is how many questions wait for an answer. Beyond it nothing is
	// asked.
	maxPending = 64

	// pendingTime is how long one does. Some clients show each question to a
	// person first.
	pendingTime = 10 * time.Minute
)

// pending is what belongs to questions whose clients are to call again with the
// answers.
type pending[T any] struct {
	each int // how many of one owner may wait

	mu   sync.Mutex
	wait map[string]waiting[T] // by id
}

type waiting[T any] struct {
	owner sandbox.Owner
	what  T
	until time.Time
}

// put keeps what belongs to a question, where it may.
func (p *pending[T]) put(owner sandbox.Owner, id string, what T) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, same := time.Now(), 0
	maps.DeleteFunc(p.wait, func(_ string, w waiting[T]) bool { return now.After(w.until) })
	for _, w := range p.wait {
		if w.owner == owner {
			same++
		}
	}
	if same >= p.each {
		return errors.New("the client has not answered what it was asked before")
	}
	if len(p.wait) >= maxPending {
		return errors.New("too many questions wait for an answer")
	}
	if p.wait == nil {
		p.wait = map[string]waiting[T]{}
	}
	p.wait[id] = waiting[T]{owner, what, now.Add(pendingTime)}
	return nil
}

// take hands it out, once, to its owner.
func (p *pending[T]) take(owner sandbox.Owner, id string) (what T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.wait[id]
	if !ok || w.owner != owner || time.Now().After(w.until) {
		return what, false
	}
	delete(p.wait, id)
	return w.what, true
}
