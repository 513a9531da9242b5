package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// maxWaiting is how many calls of one session may wait for their command. Further
	// calls start theirs and return that it runs, so that a session whose calls all
	// hang can still send others.
	maxWaiting = 90

	// maxCalls is how many calls of one session may run at the same time. Calls of stop
	// do not count.
	maxCalls = 98

	// idleTimeout is how long a session exists without a call. Most clients exit
	// without ending theirs, and a laptop that sleeps over night should find its
	// session, and what it started, in the morning.
	idleTimeout = 24 * time.Hour

	// maxSessions is how many sessions one principal may have, a few hundred bytes
	// each. For one more the server ends the one that was idle for longest: a script
	// that connects every second and never disconnects must not lock out the others.
	maxSessions = 10_000
)

// sessionCtxKey is the key of a request's *session in its context.
type sessionCtxKey struct{}

// Owner returns the owner of a call: on stdio always the same, on HTTP the session of the
// client's principal. Protocol versions from 2026-07-28 on have no sessions; the client's
// name then identifies one.
func Owner(ctx context.Context) sandbox.Owner {
	if s, ok := ctx.Value(sessionCtxKey{}).(*session); ok {
		return s.owner
	}
	return localOwner
}

type noWaitKey struct{}

// NoWait reports whether a call must not wait for its command: too many others do.
func NoWait(ctx context.Context) bool {
	noWait, _ := ctx.Value(noWaitKey{}).(bool)
	return noWait
}

// A session has the running calls of one client, which end with it.
type session struct {
	key   sessionKey
	owner sandbox.Owner // of its boxes and runs
	peer  *peer

	mu    sync.Mutex
	ended bool      // no call may begin
	used  time.Time // when a request last came or ended
	next  int
	calls map[int]context.CancelFunc // running ones
	wg    sync.WaitGroup             // of the running calls; grows only while not ended
}

// A sessionKey identifies a session of a principal. A client can send an id, but never the
// key of a session that has none.
type sessionKey struct {
	id     string // random; the client sends it with each request
	client string // the hash of the client's name, for protocol versions without sessions
}

func newSession(key sessionKey, owner sandbox.Owner) *session {
	return &session{key: key, owner: owner, peer: newPeer(), used: time.Now(), calls: map[int]context.CancelFunc{}}
}

// enter begins a call if fewer than most are running. The context of the call ends with
// the session. The caller calls leave when the call has ended.
func (s *session) enter(ctx context.Context, most int) (_ context.Context, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, nil, sandbox.Errorf(sandbox.BoxGone, "Connect again.", "the session has ended")
	}
	if len(s.calls) >= most {
		return nil, nil, sandbox.Errorf(sandbox.LimitReached, "Wait until a call has ended, or stop a box.",
			"%d calls are running, which is the maximum", len(s.calls))
	}
	if len(s.calls) >= maxWaiting {
		ctx = context.WithValue(ctx, noWaitKey{}, true)
	}
	ctx, cancel := context.WithCancel(ctx)
	n := s.next
	s.next++
	s.calls[n] = cancel
	s.wg.Add(1)
	return ctx, func() { s.leave(n, cancel) }, nil
}

// leave ends a call.
func (s *session) leave(n int, cancel context.CancelFunc) {
	cancel()
	s.mu.Lock()
	delete(s.calls, n)
	s.used = time.Now()
	s.mu.Unlock()
	s.wg.Done()
}

// end cancels the running calls and releases the owner. It returns when all of them have
// ended.
func (s *session) end(release func(owner sandbox.Owner)) {
	s.mu.Lock()
	s.ended = true
	for _, cancel := range s.calls {
		cancel()
	}
	s.mu.Unlock()
	release(s.owner) // calls that wait for a box or a command return
	s.wg.Wait()
	release(s.owner) // a call may have started a box meanwhile
}

// idle returns when the session was last used, and false if a call is running.
func (s *session) idle() (since time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, len(s.calls) == 0
}

// touch records a request.
func (s *session) touch() {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
}

// clientPrefix begins the names of sessions of clients that have none of their own. A
// random id has no hyphen.
const clientPrefix = "client-"

// sessions are the sessions of one principal.
type sessions struct {
	principal string
	release   func(owner sandbox.Owner) // ends all that a session has

	mu  sync.Mutex
	all map[sessionKey]*session
}

// open makes a session with a random id.
func (t *sessions) open() *session {
	id := rand.Text()
	return t.findOrMake(sessionKey{id: id}, id)
}

// client returns the session of a client by its name, for protocol versions without
// sessions.
func (t *sessions) client(name string) *session {
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:16])
	return t.findOrMake(sessionKey{client: hash}, clientPrefix+hash)
}

// findOrMake returns the session of a key. It makes one, whose owner has that name, if
// there is none.
func (t *sessions) findOrMake(key sessionKey, name string) *session {
	t.mu.Lock()
	s := t.all[key]
	var evicted *session
	if s == nil {
		if len(t.all) >= maxSessions {
			evicted = t.leastUsed()
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

// leastUsed returns the session that was idle for longest; if none is idle, the one whose
// last request is the oldest. The caller holds t.mu.
func (t *sessions) leastUsed() *session {
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

// find returns the session with an id that a client sent, nil if there is none.
func (t *sessions) find(id string) *session {
	t.mu.Lock()
	s := t.all[sessionKey{id: id}]
	t.mu.Unlock()
	if s != nil {
		s.touch()
	}
	return s
}

// inUse reports whether the session of an owner has an open request, or had one within a
// time.
func (t *sessions) inUse(owner sandbox.Owner, within time.Duration) bool {
	key := sessionKey{id: owner.Session}
	if hash, ok := strings.CutPrefix(owner.Session, clientPrefix); ok {
		key = sessionKey{client: hash}
	}
	t.mu.Lock()
	s := t.all[key]
	t.mu.Unlock()
	if s == nil {
		return false
	}
	used, idle := s.idle()
	return !idle || time.Since(used) < within
}

// forget ends a session. It reports whether there was one.
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

// sweep ends sessions that were idle for idleTimeout, until ctx is done.
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

// stale returns the keys of sessions that were idle since before.
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
