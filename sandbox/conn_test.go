package sandbox

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox/link"
)

// A write may fail before the reader goroutine has learned how the box ended, which
// says more than the write does.
func TestFailedWriteReportsHowTheBoxEnded(t *testing.T) {
	b := testBox("b-1", new(killRecorder), link.Config{})
	time.AfterFunc(50*time.Millisecond, func() { b.conn.Fail(&EndedError{ExitCode: 137, Memory: true}) })
	err := b.conn.explain(errors.New("write unix /tmp/x/agent.sock->@: write: broken pipe"))
	if told, ok := errors.AsType[*Error](err); !ok || told.Code != BoxGone || !strings.Contains(err.Error(), "exit code 137: it was killed just after its memory was used up") || strings.Contains(err.Error(), "agent.sock") {
		t.Errorf("%v", err)
	}
}
