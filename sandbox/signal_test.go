package sandbox

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
)

// TestFrameThatDoesNotLeaveTellsHowTheBoxEnded has a write fail before who reads has
// heard of the end, which says more than the write does.
func TestFrameThatDoesNotLeaveTellsHowTheBoxEnded(t *testing.T) {
	b := &Box{ID: "b-1", logger: slog.New(slog.DiscardHandler), link: link.New(new(kills), link.Config{})}
	time.AfterFunc(50*time.Millisecond, func() { b.link.Fail(&EndedError{ExitCode: 137, Memory: true}) })
	err := b.sent(errors.New("write unix /tmp/x/agent.sock->@: write: broken pipe"))
	if told, ok := errors.AsType[*Error](err); !ok || told.Code != BoxGone || !strings.Contains(err.Error(), "exit code 137: it was killed just after its memory was used up") || strings.Contains(err.Error(), "agent.sock") {
		t.Errorf("%v", err)
	}
}
