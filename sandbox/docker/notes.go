package docker

import (
	"log/slog"
	"sync"
)

// A noteLog gives each note about boxes once, to the first box that it concerns: a
// note says how boxes differ from what was asked for, and would repeat itself with
// each box.
type noteLog struct {
	logger *slog.Logger
	given  sync.Map // the notes so far
}

// add appends a note to a box's notes unless the log has given it before.
func (n *noteLog) add(notes []string, note string) []string {
	if _, given := n.given.LoadOrStore(note, true); given {
		return notes
	}
	n.logger.Warn("box differs from what was asked for", "note", note)
	return append(notes, note)
}
