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
	a.hold([]byte("b"))
	a.hold([]byte("c"))
	a.send([]byte("d"))
	a.send([]byte("e"))
	a.hold([]byte("f"))
	a.letGo()
	a.letGo()
	if want := (writes{"a", "bcd", "e", "f"}); !slices.Equal(got, want) {
		t.Errorf("written is %q, want %q", got, want)
	}
}
