package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// maxPatient is how many calls of one session may wait for a command at
	// once. Those above it start theirs and are answered that it runs, so that a
	// session whose every call hangs can still be helped.
	maxPatient = 90

	// maxCalls is how many calls of one session may be under way at all, but for
	// stop.
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

// A caller is whose request a context belongs to.
type caller struct {
	session *session
}

type callerKey struct{}

// Owner returns whose call ctx belongs to. On stdio it is always the same; on HTTP it
// is the session, and where the protocol knows no sessions, from 2026-07-28 on, one
// made of the client's name. The principal is the one whose token the client showed.
func Owner(ctx context.Context) sandbox.Owner {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.session.owner
	}
	return localOwner
}

type noWaitKey struct{}

// NoWait reports whether a call must not wait: too many others do.
func NoWait(ctx context.Context) bool {
	noWait, _ := ctx.Value(noWaitKey{}).(bool)
	return noWait
}

// A session is a client's stay: the calls that it has under way, which end
// with it.
type session struct {
	key   sessionKey
	owner sandbox.Owner // under which a sandbox.Manager keeps what it has
	peer  *peer

	mu    sync.Mutex
	over  bool      // no more calls may begin
	used  time.Time // when a request last came or ended
	next  int
	calls map[int]context.CancelFunc // those under way
	ended sync.WaitGroup             // of them; grows only while not over
}

// A sessionKey is what a session is known by. One of a client that the protocol
// gives none is no session that a client can name, whatever id it sends.
type sessionKey struct {
	id     string // that its client sends, a random one
	client string // the hash of the client's name, where it has no id
}

func newSession(key sessionKey, owner sandbox.Owner) *session {
	return &session{key: key, owner: owner, peer: newPeer(), used: time.Now(), calls: map[int]context.CancelFunc{}}
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
		ctx = context.WithValue(ctx, noWaitKey{}, true)
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
func (s *session) end(release func(owner sandbox.Owner)) {
	s.mu.Lock()
	s.over = true
	for _, cancel := range s.calls {
		cancel()
	}
	s.mu.Unlock()
	release(s.owner) // whatever a call waits for ends with its box
	s.ended.Wait()
	release(s.owner) // a box may have come up in between
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
	principal string                    // with which their owners begin
	release   func(owner sandbox.Owner) // gives back all that a session had

	mu  sync.Mutex
	all map[sessionKey]*session
}

// open makes a session that nobody can guess the id of.
func (t *sessions) open() *session {
	id := rand.Text()
	return t.known(sessionKey{id: id}, id)
}

// client returns the session of a client that the protocol gives none. Clients
// of other tokens may call themselves alike.
func (t *sessions) client(name string) *session {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:16])
	return t.known(sessionKey{client: hash}, "client-"+hash)
}

// known returns the session of that key, a new one if need be, whose owner ends with
// a name.
func (t *sessions) known(key sessionKey, name string) *session {
	t.mu.Lock()
	s := t.all[key]
	var evicted *session
	if s == nil {
		if len(t.all) >= maxSessions {
			evicted = t.idlest()
			delete(t.all, evicted.key)
		}
		s = newSession(key, sandbox.Owner{Principal: t.principal, Session: name})
		t.all[key] = s
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

// find returns the session of the id that a client sent, nil where there is none.
func (t *sessions) find(id string) *session {
	t.mu.Lock()
	s := t.all[sessionKey{id: id}]
	t.mu.Unlock()
	if s != nil {
		s.touch()
	}
	return s
}

// forget ends a session. It tells whether there was one.
func (t *sessions) forget(key sessionKey) bool {
	t.mu.Lock()
	s := t.all[key]
	delete(t.all, key)
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
			for _, key := range t.stale(now.Add(-idleTimeout)) {
				t.forget(key)
			}
		}
	}
}

func (t *sessions) stale(before time.Time) []sessionKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys []sessionKey
	for key, s := range t.all {
		if used, idle := s.idle(); idle && used.Before(before) {
			keys = append(keys, key)
		}
	}
	return keys
}
