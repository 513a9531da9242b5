package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// maxJournal bounds the stored part of a line, and lastLines the number of last lines
// that are stored for the error of a server that ended.
const (
	maxJournal = 8 << 10
	lastLines  = 3
)

// A journal reads the log of a server, lines of JSON, for what no reply contains: the
// address that it listens on, and the start of a box in the pool.
type journal struct {
	next io.Writer // may be nil

	serving chan string // receives the address
	started chan string // receives how the server reaches a new box: "socket", "relay" or "pipe"

	mu   sync.Mutex // guards what follows
	line []byte
	last []string
}

func newJournal(next io.Writer) *journal {
	return &journal{next: next, serving: make(chan string, 1), started: make(chan string, 1)}
}

// Write never fails, so that reading its log cannot end a server.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for piece := range bytes.Lines(p) {
		j.line = append(j.line, piece[:min(len(piece), maxJournal-min(maxJournal, len(j.line)))]...)
		if piece[len(piece)-1] == '\n' {
			j.read(j.line)
			j.line = j.line[:0]
		}
	}
	if j.next != nil {
		j.next.Write(p)
	}
	return len(p), nil
}

func (j *journal) read(line []byte) {
	j.last = append(j.last[max(0, len(j.last)-lastLines+1):], strings.TrimSpace(string(line)))
	var entry struct{ Msg, URL, Path string }
	json.Unmarshal(line, &entry) // other lines stay empty and are ignored
	switch entry.Msg {
	case "serving":
		offer(j.serving, entry.URL)
	case "box started":
		offer(j.started, entry.Path)
	}
}

// offer sends without waiting, and drops text if the channel is full.
func offer(to chan string, text string) {
	select {
	case to <- text:
	default:
	}
}

// tail returns the last lines.
func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.last, "\n")
}
