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

// releases records the owners that were released.
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

func TestIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released releases
		table := &sessions{principal: "p", release: released.add, all: map[sessionKey]*session{}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go table.sweep(ctx)
		idle, visited, busy := table.findOrMake(sessionKey{id: "idle"}, "idle"), table.findOrMake(sessionKey{id: "visited"}, "visited"), table.findOrMake(sessionKey{id: "busy"}, "busy")
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
			t.Errorf("an idle session still exists; released: %v", &released)
		}
		if table.find("visited") == nil || table.find("busy") == nil {
			t.Errorf("released: %v", &released)
		}
		if _, _, err := idle.enter(ctx, 1); err == nil {
			t.Error("a session that ended admits a call")
		}
		leave()
	})
}

func TestLongestIdleSessionIsEvicted(t *testing.T) {
	var released releases
	table := &sessions{principal: "p", release: released.add, all: map[sessionKey]*session{}}
	old := table.open()
	oldest := table.findOrMake(sessionKey{id: "busy"}, "busy") // but a call runs there
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

// TestSessionReleasesAfterItsCallsEnded: the end of a session cancels its calls first, and
// also releases a box that a call starts meanwhile.
func TestSessionReleasesAfterItsCallsEnded(t *testing.T) {
	s := newSession(sessionKey{id: "x"}, sandbox.Owner{Principal: "x"})
	ctx, leave, err := s.enter(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.enter(t.Context(), 1); err == nil {
		t.Error("a call above the limit was admitted")
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
