package sandbox

import (
	"bytes"
	"sync"
)

// LastLines keeps the last 50 lines of what is written to it, within 16 KiB: a
// box's stderr for an EndedError. The zero value is ready, and safe for use
// by several goroutines.
type LastLines struct {
	mu   sync.Mutex
	text []byte
}

const (
	lastLines = 50
	lastBytes = 16 << 10
)

// Write never fails.
func (l *LastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	l.text = append(l.text, last(p)...)
	if len(l.text) > 2*lastBytes { // not at each write: the rest is moved
		l.text = append(l.text[:0], last(l.text)...)
	}
	return n, nil
}

// String returns the lines without the last one's newline.
func (l *LastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.TrimRight(last(l.text), "\n")
	start := len(text)
	for range lastLines {
		start = bytes.LastIndexByte(text[:start], '\n')
		if start < 0 {
			break
		}
	}
	return string(text[start+1:])
}

func last(text []byte) []byte { return text[max(0, len(text)-lastBytes):] }
