package tools

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
)

// A blockable is a Launcher whose streams can be blocked: what the agents send then arrives when
// they are unblocked.
type blockable struct {
	sandbox.Launcher
	blocked atomic.Pointer[chan struct{}] // closed to unblock; nil: not blocked
}

func (b *blockable) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	stream, err := b.Launcher.Launch(ctx, id, spec)
	return &blockableStream{stream, b}, err
}

type blockableStream struct {
	io.ReadWriteCloser
	launcher *blockable
}

func (s *blockableStream) Place() sandbox.Place {
	place := s.ReadWriteCloser.(sandbox.Placed).Place()
	place.Heartbeat = true
	return place
}

func (s *blockableStream) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if until := s.launcher.blocked.Load(); until != nil {
		<-*until
	}
	return n, err
}

func (s *blockableStream) Ping(context.Context) error {
	if s.launcher.blocked.Load() == nil {
		return nil
	}
	return sandbox.Errorf(sandbox.DockerUnavailable, "Wait.", "it hangs")
}

// TestSilentBoxIsReported: a waiting call returns in time if the box does not respond, and a later
// one has the result.
func TestSilentBoxIsReported(t *testing.T) {
	b := &blockable{}
	b.Launcher = boxtest.Agent(t)
	s := &Set{Manager: boxtest.Manager(t, b, sandbox.Spec{})}
	c := connect(t, s)
	callTool(t, c, "exec", `{"cmd":"true"}`)
	until := make(chan struct{})
	b.blocked.Store(&until)
	begun := time.Now()
	a := callTool(t, c, "exec", `{"cmd":"echo here; exit 3"}`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("reported after %v", took)
	}
	a.has(t, map[string]any{"status": "running", "code": "DOCKER_UNAVAILABLE", "exitCode": nil})
	a.says(t, "code: DOCKER_UNAVAILABLE\n", "it hangs. Wait.", "It still runs")
	id := a.fields["execId"].(string)
	begun = time.Now()
	l := logsOf(t, c, id, `,"waitSeconds":30`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("logs reported after %v", took)
	}
	l.has(t, map[string]any{"status": "running", "code": "DOCKER_UNAVAILABLE"})
	b.blocked.Store(nil)
	close(until)
	for status := any("running"); status == "running"; {
		status = logsOf(t, c, id, `,"waitSeconds":30`).fields["status"]
	}
	logsOf(t, c, id, "").has(t, map[string]any{"status": "exited", "exitCode": 3, "text": "1: here\n"})
}
