package server

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// releases notes who was released.
type releases struct {
	mu  sync.Mutex
	all []string
}

func (r *releases) add(owner sandbox.Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, owner.Principal+"."+owner.Session)
}

func (r *releases) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, " ")
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released releases
		table := &sessions{principal: "p", release: released.add, all: map[sessionKey]*session{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go table.sweep(ctx)
		idle, visited, busy := table.known(sessionKey{id: "idle"}, "idle"), table.known(sessionKey{id: "visited"}, "visited"), table.known(sessionKey{id: "busy"}, "busy")
		_, leave, err := busy.enter(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleTimeout - time.Hour)
		if table.find("visited") != visited || released.String() != "" {
			t.Errorf("too early: %v", &released)
		}
		time.Sleep(3 * time.Hour)
		if table.find("idle") != nil || released.String() != "p.idle p.idle" {
			t.Errorf("an idle session is still known; released: %v", &released)
		}
		if table.find("visited") == nil || table.find("busy") == nil {
			t.Errorf("released: %v", &released)
		}
		if _, _, err := idle.enter(ctx, 1); err == nil {
			t.Error("a session that ended lets a call in")
		}
		leave()
	})
}

func TestTooManySessions(t *testing.T) {
	var released releases
	table := &sessions{principal: "p", release: released.add, all: map[sessionKey]*session{}}
	old := table.open()
	oldest := table.known(sessionKey{id: "busy"}, "busy") // but something runs there
	oldest.used = old.used.Add(-time.Hour)
	old.used = old.used.Add(-time.Minute)
	_, leave, _ := oldest.enter(t.Context(), 1)
	defer leave()
	for range maxSessions - 1 {
		table.open()
	}
	if len(table.all) != maxSessions || table.find(old.key.id) != nil || table.find("busy") == nil {
		t.Errorf("%d sessions; released: %v", len(table.all), &released)
	}
}

// TestEndOfCalls: the end of a session ends its calls first, and what a call
// got hold of at the last moment is given back too.
func TestEndOfCalls(t *testing.T) {
	s := newSession(sessionKey{id: "x"}, sandbox.Owner{Principal: "x"})
	ctx, leave, err := s.enter(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.enter(t.Context(), 1); err == nil {
		t.Error("one call too many was let in")
	}
	boxes := 0
	go func() {
		<-ctx.Done()
		boxes++
		leave()
	}()
	s.end(func(sandbox.Owner) {
		if ctx.Err() == nil {
			t.Error("released before the calls were cancelled")
		}
	})
	if boxes != 1 {
		t.Error("did not wait for the call")
	}
}
