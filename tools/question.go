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

// The server asks a client's model or its user in one of two ways. In protocol versions before
// 2026-07-28 it asks while the call waits; since then the question is the reply to the call,
// and the client calls again with the answer.

// An offer reports whether a client with these capabilities can be asked.
type offer func(mcp.ClientCapabilities) bool

// asksNow returns the session of a call if its client can be asked while the call waits.
func asksNow[T mcpserver.SessionWithClientInfo](ctx context.Context, offered offer) (session T, ok bool) {
	if mcpserver.IsModernRequest(ctx) {
		return session, false
	}
	session, ok = mcpserver.ClientSessionFromContext(ctx).(T)
	return session, ok && offered(session.GetClientCapabilities())
}

// asksBack reports whether the reply to a call may be a question.
func asksBack(ctx context.Context, offered offer) bool {
	info := mcpserver.RequestProtocolInfoFromContext(ctx)
	return info != nil && info.Modern && info.ClientCapabilities != nil && offered(*info.ClientCapabilities)
}

// brings reports whether a call has the answer to a question.
func brings(req mcp.CallToolRequest) bool {
	return req.Params.RequestState != "" || len(req.Params.InputResponses) > 0
}

const (
	// maxPending is how many questions of all owners may be open. Beyond it the
	// server does not ask.
	maxPending = 64

	// pendingTime is how long a question stays open. Some clients show each question
	// to a person first.
	pendingTime = 10 * time.Minute
)

// pending has the open questions whose clients call again with the answers, each with what the
// answer belongs to.
type pending[T any] struct {
	each int // how many of one owner may be open

	mu   sync.Mutex
	open map[string]openQuestion[T] // by id
}

type openQuestion[T any] struct {
	owner sandbox.Owner
	what  T
	until time.Time
}

// add opens a question.
func (p *pending[T]) add(owner sandbox.Owner, id string, what T) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, same := time.Now(), 0
	maps.DeleteFunc(p.open, func(_ string, w openQuestion[T]) bool { return now.After(w.until) })
	for _, w := range p.open {
		if w.owner == owner {
			same++
		}
	}
	if same >= p.each {
		return errors.New("the client has not answered an earlier question")
	}
	if len(p.open) >= maxPending {
		return errors.New("too many questions are open")
	}
	if p.open == nil {
		p.open = map[string]openQuestion[T]{}
	}
	p.open[id] = openQuestion[T]{owner, what, now.Add(pendingTime)}
	return nil
}

// claim closes a question and returns what it belongs to, once, to its owner.
func (p *pending[T]) claim(owner sandbox.Owner, id string) (what T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.open[id]
	if !ok || w.owner != owner || time.Now().After(w.until) {
		return what, false
	}
	delete(p.open, id)
	return w.what, true
}
