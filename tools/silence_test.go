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

// A hangar is a Launcher whose boxes are reached through something that hangs at
// will: what their agents say then is heard when it no longer does.
type hangar struct {
	sandbox.Launcher
	hangs atomic.Pointer[chan struct{}] // closed when it no longer does; nil where it does not
}

func (h *hangar) Launch(ctx context.Context, id string, spec sandbox.Spec) (io.ReadWriteCloser, error) {
	stream, err := h.Launcher.Launch(ctx, id, spec)
	return &hung{stream, h}, err
}

type hung struct {
	io.ReadWriteCloser
	hangar *hangar
}

func (s *hung) Place() sandbox.Place {
	place := s.ReadWriteCloser.(sandbox.Placed).Place()
	place.Heartbeat = true
	return place
}

func (s *hung) Read(p []byte) (int, error) {
	n, err := s.ReadWriteCloser.Read(p)
	if until := s.hangar.hangs.Load(); until != nil {
		<-*until
	}
	return n, err
}

func (s *hung) Ping(context.Context) error {
	if s.hangar.hangs.Load() == nil {
		return nil
	}
	return sandbox.Errorf(sandbox.DockerUnavailable, "Wait.", "it hangs")
}

// Who waits for a command hears in time that nothing is heard of its box, and what
// becomes of it later.
func TestSilenceIsTold(t *testing.T) {
	h := &hangar{}
	h.Launcher = boxtest.Agent(t)
	s := &Set{Manager: boxtest.Manager(t, h, sandbox.Spec{})}
	c := connect(t, s)
	callTool(t, c, "exec", `{"cmd":"true"}`)
	until := make(chan struct{})
	h.hangs.Store(&until)
	begun := time.Now()
	a := callTool(t, c, "exec", `{"cmd":"echo here; exit 3"}`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("told after %v", took)
	}
	a.has(t, map[string]any{"status": "running", "code": "DOCKER_UNAVAILABLE", "exitCode": nil})
	a.says(t, "code: DOCKER_UNAVAILABLE\n", "it hangs. Wait.", "It was not killed")
	id := a.fields["execId"].(string)
	begun = time.Now()
	l := logsOf(t, c, id, `,"waitSeconds":30`)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("logs told after %v", took)
	}
	l.has(t, map[string]any{"status": "running", "code": "DOCKER_UNAVAILABLE"})
	h.hangs.Store(nil)
	close(until)
	for status := any("running"); status == "running"; {
		status = logsOf(t, c, id, `,"waitSeconds":30`).fields["status"]
	}
	logsOf(t, c, id, "").has(t, map[string]any{"status": "exited", "exitCode": 3, "text": "1: here\n"})
}
