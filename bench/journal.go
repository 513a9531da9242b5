package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// maxJournal bounds what is kept of a line, and keptLines how many last ones are
// kept for who wants to know why a server ended.
const (
	maxJournal = 8 << 10
	keptLines  = 3
)

// A journal reads what a server logs, lines of JSON, for what a client is not
// told: where it serves, and that a box stands which is nobody's yet.
type journal struct {
	next io.Writer // may be nil

	serving chan string // gets the address
	started chan string // gets how a box is reached: "socket", "relay" or "pipe"

	mu   sync.Mutex // guards what follows
	line []byte
	last []string
}

func newJournal(next io.Writer) *journal {
	return &journal{next: next, serving: make(chan string, 1), started: make(chan string, 1)}
}

// Write never fails: a server is not to end because of who reads its log.
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
	j.last = append(j.last[max(0, len(j.last)-keptLines+1):], strings.TrimSpace(string(line)))
	var said struct{ Msg, URL, Path string }
	json.Unmarshal(line, &said) // what is none says nothing of interest
	switch said.Msg {
	case "serving":
		offer(j.serving, said.URL)
	case "box started":
		offer(j.started, said.Path)
	}
}

// offer drops what nobody waits for.
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
