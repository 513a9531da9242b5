//go:build linux

package agent

import (
	"slices"
	"testing"
)

// writes records each write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestDelayedFramesAreSentFirst(t *testing.T) {
	var got writes
	o := &outbox{stream: &got}
	o.send([]byte("a"))
	o.sendLater([]byte("b"))
	o.sendLater([]byte("c"))
	o.send([]byte("d"))
	o.send([]byte("e"))
	o.sendLater([]byte("f"))
	o.flush()
	o.flush()
	if want := (writes{"a", "bcd", "e", "f"}); !slices.Equal(got, want) {
		t.Errorf("written is %q, want %q", got, want)
	}
}
