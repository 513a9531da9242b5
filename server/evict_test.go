package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest/weekly"
)

// Clients that disconnect without ending their session do not lock others out: their boxes make
// room. Those in which a command runs never do, and the error for one more says what helps.
func TestSessionsThatAreNeverEndedMakeRoom(t *testing.T) {
	s := newServer(t)
	s.Manager.Grace = time.Second
	s.Manager.MaxBoxes = 16
	url := listen(t, s, HTTP{}) + "/mcp"
	exec := func(session, cmd string) string {
		t.Helper()
		_, body := post(t, url, toolCall(2, "exec", fmt.Sprintf(`{"cmd":%q,"waitSeconds":60}`, cmd)), "Mcp-Session-Id", session)
		return body
	}
	first := connect(t, url)
	exec(first, "echo mine > file")
	id := s.Manager.Boxes(ownerOf(testToken, first))[0].ID
	for n := range weekly.Or(40, 200) {
		if body := exec(connect(t, url), fmt.Sprintf("echo session-$((%d + 1))", n)); !strings.Contains(body, fmt.Sprintf("session-%d\\n", n+1)) {
			t.Fatalf("session %d: %s", n, body)
		}
	}
	if _, body := post(t, url, toolCall(3, "exec", fmt.Sprintf(`{"cmd":"true","containerId":%q}`, id)), "Mcp-Session-Id", first); !strings.Contains(body, sandbox.BoxGone) || !strings.Contains(body, "a call needed another box") {
		t.Errorf("a call for the box that made room: %s", body)
	}
	if body := exec(first, "cat file"); !strings.Contains(body, "This ran in a new container") {
		t.Errorf("the next call of its session: %s", body)
	}

	for n := range 16 {
		if _, body := post(t, url, toolCall(4, "exec", `{"cmd":"sleep 1000","background":true}`), "Mcp-Session-Id", connect(t, url)); !strings.Contains(body, `"running"`) {
			t.Fatalf("busy session %d: %s", n, body)
		}
	}
	if body := exec(connect(t, url), "true"); !strings.Contains(body, sandbox.LimitReached) || !strings.Contains(body, "raise max_boxes") {
		t.Errorf("one more: %s", body)
	}
	if stats := s.Manager.Stats(); stats.Busy != 16 {
		t.Errorf("%d boxes are busy, want 16", stats.Busy)
	}
}
