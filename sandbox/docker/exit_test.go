package docker

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/warmbox/warmbox/sandbox"
)

// brokenStream is the stream of a box whose agent has ended.
type brokenStream struct {
	io.WriteCloser
	err error
}

func (s brokenStream) Read([]byte) (int, error) { return 0, s.err }

// brokenBox returns a box whose stream has ended with an error, and a function that
// reports its exit as the engine does. oom is the age of the engine's event at that time,
// 0 for none.
func brokenBox(t *testing.T, err error, transport string, oom *time.Duration) (*box, func(code int64)) {
	e := fake(t, func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return fail(http.StatusNotFound, "no such path")
		}
		if *oom > 0 && inWindow(t, r.URL.Query(), time.Now().Add(-*oom)) {
			return reply(http.StatusOK, events.Message{Action: "oom"})
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	b := newBox(e, slog.New(slog.DiscardHandler), "ended")
	b.stream, b.place = brokenStream{err: err}, sandbox.Place{Path: transport}
	results, attached := make(chan container.WaitResponse, 1), make(chan struct{})
	close(attached)
	go b.monitor.await("c", results, make(chan error), attached)
	return b, func(code int64) { results <- container.WaitResponse{StatusCode: code} }
}

// inWindow reports whether a request for events includes a time.
func inWindow(t *testing.T, q url.Values, at time.Time) bool {
	since, serr := time.ParseDuration(q.Get("since") + "s")
	until, uerr := time.ParseDuration(q.Get("until") + "s")
	if serr != nil || uerr != nil {
		t.Fatalf("since %q, until %q", q.Get("since"), q.Get("until"))
	}
	age := time.Duration(at.UnixNano())
	return since <= age && age <= until
}

// An engine that takes a while to remove a box is waited for, and its report names memory
// where the shortage came just before the stream's end.
func TestLateExitNamesItsReason(t *testing.T) {
	for _, c := range []struct {
		name, transport string
		err             error
		after, oom      time.Duration
		want            string
	}{
		{"memory", socketTransport, io.EOF, time.Second, 2 * time.Second, "the box ended with exit code 137: it was killed just after its memory was used up"},
		{"memory on a relay", relayTransport, io.EOF, time.Second, 2 * time.Second, "the box ended with exit code 137: it was killed just after its memory was used up"},
		{"memory with unread frames", socketTransport, syscall.ECONNRESET, time.Second, 2 * time.Second, "the box ended with exit code 137: it was killed just after its memory was used up"},
		{"an earlier shortage", socketTransport, io.EOF, time.Second, 7 * time.Second, "the box ended with exit code 137"},
		{"no shortage", socketTransport, io.EOF, time.Second, 0, "the box ended with exit code 137"},
		{"no report in time", socketTransport, io.EOF, 3 * time.Second, 4 * time.Second, "its agent hung up, and the engine did not report within 2s how the box ended"},
		{"a relay that failed", relayTransport, syscall.ECONNRESET, 3 * time.Second, 0, "connection reset by peer, and the engine did not report within 2s how the box ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, exit := brokenBox(t, c.err, c.transport, &c.oom)
				time.AfterFunc(c.after, func() { exit(137) })
				if _, err := b.Read(make([]byte, 1)); err == nil || err.Error() != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
				<-b.monitor.ended
			})
		})
	}
}
