package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// maxPatient is how many calls of one session may wait for a command at
	// once. Those above it start theirs and are answered that it runs. On stdio
	// mcp-go has a hundred workers; the rest of them stay free, so that a session
	// whose every call hangs can still be helped.
	maxPatient = 90

	// maxCalls is how many calls of one session may be under way at all. The
	// last workers refuse what is too much and carry out stop.
	maxCalls = 98

	// idleTimeout is how long a session stays known without a call. Most
	// clients end without a word, and a laptop that sleeps over night should
	// find its session, and what it started, in the morning.
	idleTimeout = 24 * time.Hour

	// maxSessions is how many sessions of one token are known at once, a few
	// hundred bytes each. One more makes the server forget the one that has
	// been idle for longest: scripts that connect every second and never say
	// goodbye must not lock everybody out for a day.
	maxSessions = 10_000
)

// local is whose calls are that come over stdio, or from the process itself.
// There is only one such client.
const local = "local"

// A caller is whose request a context belongs to.
type caller struct {
	session *session
	calls   string // within which request ids are unique, and may be cancelled
	stream  string // on HTTP, what mcp-go knows the call by
}

type callerKey struct{}

// Owner says whose call it is that a tool handles: the name under which a
// sandbox.Manager keeps the boxes of a client. On stdio it is always the same;
// on HTTP it is the session's, and where the protocol knows no sessions, from
// 2026-07-28 on, one made of the client's name. Both begin with the name of the
// token that the client showed, and a dot.
func Owner(ctx context.Context) string {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.session.id
	}
	return local
}

type hurryKey struct{}

// Hurried reports whether a call must not wait: too many others do.
func Hurried(ctx context.Context) bool {
	hurried, _ := ctx.Value(hurryKey{}).(bool)
	return hurried
}

// A session is a client's stay: the calls that it has under way, which end
// with it.
type session struct {
	id    string
	asker *asker // of its user

	mu    sync.Mutex
	over  bool      // no more calls may begin
	used  time.Time // when a request last came or ended
	next  int
	calls map[int]context.CancelFunc // those under way
	ended sync.WaitGroup             // of them; grows only while not over
}

func newSession(id string) *session {
	return &session{id: id, asker: newAsker(), used: time.Now(), calls: map[int]context.CancelFunc{}}
}

// enter begins a call, where fewer than most are under way. Its context ends
// with the session, if not before.
func (s *session) enter(ctx context.Context, most int) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil, sandbox.Errorf(sandbox.BoxGone, "Connect again.", "the session has ended")
	}
	if len(s.calls) >= most {
		return nil, nil, sandbox.Errorf(sandbox.LimitReached, "Wait until one has ended, or stop a box.",
			"%d calls are under way, and no more are allowed at once", len(s.calls))
	}
	if len(s.calls) >= maxPatient {
		ctx = context.WithValue(ctx, hurryKey{}, true)
	}
	ctx, cancel := context.WithCancel(ctx)
	n := s.next
	s.next++
	s.calls[n] = cancel
	s.ended.Add(1)
	return ctx, func() { s.leave(n, cancel) }, nil
}

func (s *session) leave(n int, cancel context.CancelFunc) {
	cancel()
	s.mu.Lock()
	delete(s.calls, n)
	s.used = time.Now()
	s.mu.Unlock()
	s.ended.Done()
}

// end cancels what is under way and returns when that is over and all that the
// session had is given back.
func (s *session) end(release func(owner string)) {
	s.mu.Lock()
	s.over = true
	for _, cancel := range s.calls {
		cancel()
	}
	s.mu.Unlock()
	release(s.id) // whatever a call waits for ends with its box
	s.ended.Wait()
	release(s.id) // a box may have come up in between
}

// idle says since when nothing has happened, false where something does.
func (s *session) idle() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.calls) == 0
}

func (s *session) touch() {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
}

// sessions are those of the clients that come over HTTP with one token.
type sessions struct {
	holder  string             // the token's name, with which their ids begin
	release func(owner string) // gives back all that a session had

	mu  sync.Mutex
	all map[string]*session
}

// open makes a session that nobody can guess the id of.
func (t *sessions) open() *session { return t.known(t.holder + "." + rand.Text()) }

// client returns the session of a client that the protocol gives none. Clients
// of other tokens may call themselves alike.
func (t *sessions) client(name string) *session {
	sum := sha256.Sum256([]byte(name))
	return t.known(t.holder + ".client-" + hex.EncodeToString(sum[:16]))
}

// known returns the session of that id, a new one if need be.
func (t *sessions) known(id string) *session {
	t.mu.Lock()
	s := t.all[id]
	var evicted *session
	if s == nil {
		if len(t.all) >= maxSessions {
			evicted = t.idlest()
			delete(t.all, evicted.id)
		}
		s = newSession(id)
		t.all[id] = s
	}
	t.mu.Unlock()
	if evicted != nil {
		evicted.end(t.release)
	}
	s.touch()
	return s
}

// idlest returns the session that has been idle for longest; of busy ones, the
// one that was last heard of longest ago. The caller holds t.mu.
func (t *sessions) idlest() *session {
	var found *session
	var since time.Time
	var free bool
	for _, s := range t.all {
		used, idle := s.idle()
		if found == nil || idle && !free || idle == free && used.Before(since) {
			found, since, free = s, used, idle
		}
	}
	return found
}

// find returns the session of that id, nil where there is none.
func (t *sessions) find(id string) *session {
	t.mu.Lock()
	s := t.all[id]
	t.mu.Unlock()
	if s != nil {
		s.touch()
	}
	return s
}

// forget ends a session. It tells whether there was one.
func (t *sessions) forget(id string) bool {
	t.mu.Lock()
	s := t.all[id]
	delete(t.all, id)
	t.mu.Unlock()
	if s != nil {
		s.end(t.release)
	}
	return s != nil
}

// sweep forgets sessions that have been idle for too long, until ctx is done.
func (t *sessions) sweep(ctx context.Context) {
	ticker := time.NewTicker(idleTimeout / 24)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, id := range t.stale(now.Add(-idleTimeout)) {
				t.forget(id)
			}
		}
	}
}

func (t *sessions) stale(before time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, s := range t.all {
		if used, idle := s.idle(); idle && used.Before(before) {
			ids = append(ids, id)
		}
	}
	return ids
}

// A request is mcp-go's session of a single HTTP request, under a name of
// ours. That name is what mcp-go finds a request by that is to be cancelled;
// its own would be the same for all clients. Notifications stay the request's:
// one channel for all requests of a session would mix up their progress.
type request struct {
	transportSession
	caller
}

func (r request) SessionID() string { return r.calls }

// transportSession is all that mcp-go's session for streamable HTTP can do and
// a tool may ask of it.
type transportSession interface {
	mcpserver.SessionWithLogging
	mcpserver.SessionWithClientInfo
	mcpserver.SessionWithElicitation
	mcpserver.SessionWithSampling
	mcpserver.SessionWithRoots
	mcpserver.SessionWithStreamableHTTPConfig
	mcpserver.SessionWithSubscriptionFilter
}
