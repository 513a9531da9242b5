//go:build linux

package agent

import (
	"slices"
	"testing"
)

// writes notes each write.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestHeldFramesGoFirst(t *testing.T) {
	var got writes
	a := &Agent{stream: &got}
	a.send([]byte("a"))
	a.sendLater([]byte("b"))
	a.sendLater([]byte("c"))
	a.send([]byte("d"))
	a.send([]byte("e"))
	a.sendLater([]byte("f"))
	a.flush()
	a.flush()
	if want := (writes{"a", "bcd", "e", "f"}); !slices.Equal(got, want) {
		t.Errorf("written is %q, want %q", got, want)
	}
}
