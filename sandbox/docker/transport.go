package docker

import (
	"strings"
	"sync"
	"time"
)

// The transports of the stream between a launcher and an agent.
const (
	socketTransport = "socket" // the box's own socket, on a file system that both sides share
	relayTransport  = "relay"  // an exec of the engine that joins its stdio to the agent
)

// transports remember which transport works for an engine, also on disk: a later
// process need not wait for a socket that fails.
type transports struct {
	dirs   dirs
	forced string // the only transport; "" is the one that works

	mu    sync.Mutex
	known map[string]string // by the engine's key; "" is not known
}

func newTransports(d dirs, forced string) *transports {
	return &transports{dirs: d, forced: forced, known: make(map[string]string)}
}

// A transportRecord is what is on disk of an engine.
type transportRecord struct {
	Path  string
	Until time.Time
}

// transportLife bounds the life of a record. A day after a change of the machine
// the transport is determined anew.
const transportLife = 24 * time.Hour

// choose returns the transport to try first on an engine, and whether it is the
// only one.
func (t *transports) choose(e *engine) (transport string, only bool) {
	switch {
	case t.forced != "":
		return t.forced, true
	case !canSocket || !strings.HasPrefix(e.endpoint.Host, "unix://"):
		return relayTransport, true
	}
	if t.remembered(e) == relayTransport {
		return relayTransport, true
	}
	return socketTransport, false
}

// remembered returns the transport that worked before on an engine, "" if none is
// known.
func (t *transports) remembered(e *engine) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := e.key()
	if t.known[key] != "" {
		return t.known[key]
	}
	var r transportRecord
	if t.dirs.load("engines", key, &r) && time.Now().Before(r.Until) {
		t.known[key] = r.Path
	}
	return t.known[key]
}

// remember records that a transport worked. A forced one proves nothing, and a
// relay after a socket that worked is an accident.
func (t *transports) remember(e *engine, transport string) {
	if t.forced != "" || t.remembered(e) != "" {
		return
	}
	t.mu.Lock()
	t.known[e.key()] = transport
	t.mu.Unlock()
	t.dirs.store("engines", e.key(), transportRecord{Path: transport, Until: time.Now().Add(transportLife)})
}
