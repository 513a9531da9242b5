package sandbox

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/rawlog"
)

const (
	// remembered is how many closed runs a history has, of all owners together. Older
	// ones are read from their logs.
	remembered = 1000

	// recordCmd is how many bytes of a command a Record has: enough to recognise it.
	recordCmd = 1000
)

// A Record describes a run, running or ended.
type Record struct {
	ID      string
	Box     string
	Cmd     string // the beginning of a long one; its secrets are masked
	Started time.Time
	Exit    Exit
	LogPath string
	Log     rawlog.Stats
	Limited Limited // unknown of a run of an earlier server
	Open    bool    // the log may still grow: by the command or by processes that it left behind

	// Changed is closed when the log or the status changes, Done when the command has
	// ended, Over when neither can change any more. They are nil if the run is closed or
	// another process runs it.
	Changed, Done, Over <-chan struct{}
}

// Record returns the record of an owner's run. Runs of other owners are not found, nor
// are old ones whose log has been deleted.
func (m *Manager) Record(owner Owner, id string) (Record, error) {
	r, err := m.record(owner, id)
	r.Cmd = m.Mask(r.Cmd)
	return r, err
}

func (m *Manager) record(owner Owner, id string) (Record, error) {
	if r, ok := m.history.find(owner, id); ok {
		return r, nil
	}
	written := m.Logs.Written(id) // before the index is read: a run that closes in between has its end there
	head, err := m.Logs.Head(id)
	if err != nil || head.Owner != owner.mark() && head.Owner != owner.all().mark() {
		return Record{}, Errorf(ExecNotFound, "Use an execId that exec returned; the tool list shows recent commands. Old logs are deleted.",
			"there is no command with the execId %q", id)
	}
	return m.recorded(head, written), nil
}

// Run returns a run of an owner that is not closed: its command runs, or processes that
// the command left behind do.
func (m *Manager) Run(owner Owner, id string) (*Run, error) {
	if r := m.history.open(owner, id); r != nil {
		return r, nil
	}
	record, err := m.record(owner, id)
	if err != nil {
		return nil, err
	}
	switch record.Exit.Status {
	case Running:
		return nil, Errorf(ExecNotFound, "logs with this execId reads its output.", "command %s runs, but this server has no connection to it", record.ID)
	case Lost:
		return nil, Errorf(ExecNotFound, "logs with this execId reads what it printed.", "command %s was lost: %w", record.ID, cmp.Or(record.Exit.Err, errors.New("its box ended")))
	}
	return nil, endedError(record.ID, record.Exit)
}

// endedError is the error of a call that needs a running command.
func endedError(id string, e Exit) error {
	how := string(e.Status)
	if e.Status == Exited {
		how = "exit code " + itoa(e.Code)
	}
	return Errorf(ExecEnded, "Read its output with logs, or start it again.", "command %s has ended: %s", id, how)
}

// recorded makes a record from a log. An earlier server may have written it.
func (m *Manager) recorded(x *rawlog.Index, written bool) Record {
	r := Record{
		ID: x.Exec, Box: x.Box, Cmd: clipCmd(x.Cmd), Started: x.Start, LogPath: m.Logs.Path(x.Exec),
		Log: rawlog.Stats{Complete: true}, Open: written,
	}
	if x.Totals != nil {
		r.Log = *x.Totals
	}
	switch {
	case x.End != nil:
		r.Exit = Exit{Status: Status(x.End.Status), Code: x.End.Code, Signal: x.End.Signal, Took: x.End.Took}
	case written:
		r.Exit = Exit{Status: Running, Code: -1, Took: time.Since(x.Start)}
	default:
		r.Exit = Exit{Status: Lost, Code: -1, Err: errors.New("the server ended while the command ran"), AtLeast: true}
		if n := len(x.Spans); n > 0 {
			r.Exit.Took = x.Spans[n-1].At // of its last output
		}
	}
	return r
}

// Records returns the records of an owner's runs, those that are open and the last ones
// that are closed, the newest first.
func (m *Manager) Records(owner Owner) []Record {
	list := m.history.list(owner)
	for i := range list {
		list[i].Cmd = m.Mask(list[i].Cmd)
	}
	slices.SortFunc(list, func(a, b Record) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return list
}

// A history has the runs of a Manager: the open ones and the last closed ones. A run is
// open until nothing can be added to its log. A nil history stays empty.
type history struct {
	mu     sync.Mutex
	runs   map[string]*historyEntry // by id
	closed []string                 // ids of closed runs, the oldest first

	ended   map[Status]int64 // how many runs are closed, by status
	printed int64            // bytes that those printed
}

// A historyEntry is one run of a history.
type historyEntry struct {
	owner  Owner
	run    *Run   // nil if the run is closed
	record Record // of a closed run

	digested <-chan struct{} // closed when the summary is final
	summary  string
}

// add adds an open run.
func (h *history) add(owner Owner, r *Run) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[string]*historyEntry{}
	}
	h.runs[r.ID] = &historyEntry{owner: owner, run: r, digested: r.digest.done}
}

// settle replaces a run that is closed by its record.
func (h *history) settle(r *Run) {
	if h == nil {
		return
	}
	record := r.record()
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.runs[r.ID]
	if p == nil || p.run == nil {
		return
	}
	p.run, p.record = nil, record
	h.count(r.ID, record)
	if extra := len(h.closed) - remembered; extra > 0 {
		for _, id := range h.closed[:extra] {
			delete(h.runs, id)
		}
		h.closed = slices.Delete(h.closed, 0, extra)
	}
}

// count counts a run as closed. The caller holds h.mu.
func (h *history) count(id string, record Record) {
	if h.ended == nil {
		h.ended = map[Status]int64{}
	}
	h.ended[record.Exit.Status]++
	h.printed += record.Log.Bytes
	h.closed = append(h.closed, id)
}

// detach replaces a run of a detached box by its record. The run is not closed: it may be
// reattached.
func (h *history) detach(r *Run) {
	if h == nil {
		return
	}
	record := r.record()
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.runs[r.ID]; p != nil && p.run == r {
		p.run, p.record = nil, record
	}
}

// lose closes the runs of a detached box that was not reattached.
func (h *history) lose(box string, cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.runs {
		if p.run != nil || p.record.Box != box || slices.Contains(h.closed, id) {
			continue
		}
		if e := &p.record.Exit; e.Status == Running {
			e.Status, e.AtLeast = Lost, true
			e.Err = Errorf(BoxGone, "The log has what the command printed before.", "command %s was lost, because the connection to its box broke: %w", id, cause)
		}
		h.count(id, p.record)
	}
}

// reattach forgets that a run was lost.
func (h *history) reattach(id string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = slices.DeleteFunc(h.closed, func(lost string) bool { return lost == id })
}

// figures returns how many runs are open, how many closed ones ended with each status,
// and how many bytes all of them printed.
func (h *history) figures() (open int, ended map[Status]int64, printed int64) {
	h.mu.Lock()
	var runs []*Run
	for _, p := range h.runs {
		if p.run != nil {
			runs = append(runs, p.run)
		}
	}
	ended, printed = maps.Clone(h.ended), h.printed
	h.mu.Unlock()
	for _, r := range runs {
		printed += r.LogStats().Bytes
	}
	return len(runs), ended, printed
}

// summarize stores a run's summary.
func (h *history) summarize(id, text string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.runs[id]; p != nil {
		p.summary = text
	}
}

// summary returns the final summary of an owner's run, "" if it has none or is unknown.
func (h *history) summary(ctx context.Context, owner Owner, id string) string {
	p := h.entry(owner, id)
	if p == nil {
		return ""
	}
	select {
	case <-p.digested:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.summary
}

// forget removes the closed runs of an owner.
func (h *history) forget(owner Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = slices.DeleteFunc(h.closed, func(id string) bool {
		gone := h.runs[id].owner == owner
		if gone {
			delete(h.runs, id)
		}
		return gone
	})
}

func (h *history) find(owner Owner, id string) (Record, bool) {
	p := h.entry(owner, id)
	if p == nil {
		return Record{}, false
	}
	h.mu.Lock()
	run, record := p.run, p.record
	h.mu.Unlock()
	if run == nil {
		return record, true
	}
	// Read before the rest, so that no change is missed.
	changed := run.changed()
	record = run.record()
	record.Open, record.Changed, record.Done, record.Over = true, changed, run.done, run.over
	return record, true
}

// open returns an open run, or nil.
func (h *history) open(owner Owner, id string) *Run {
	p := h.entry(owner, id)
	if p == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.run
}

// entry returns the entry of a run that the owner may use, or nil.
func (h *history) entry(owner Owner, id string) *historyEntry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.runs[id]; p != nil && owner.reaches(p.owner) {
		return p
	}
	return nil
}

// list returns the records of an owner's runs, without those that never started.
func (h *history) list(owner Owner) []Record {
	var list []Record
	var open []*Run
	h.mu.Lock()
	for _, p := range h.runs {
		switch {
		case !owner.reaches(p.owner):
		case p.run != nil:
			open = append(open, p.run)
		default:
			list = append(list, p.record)
		}
	}
	h.mu.Unlock()
	for _, r := range open {
		record := r.record()
		record.Open = true
		list = append(list, record)
	}
	return slices.DeleteFunc(list, Record.neverStarted)
}

// neverStarted reports whether the agent refused the command. Exec returned that error.
func (r Record) neverStarted() bool { return r.Exit.Status == Exited && r.Exit.Err != nil }

func (r *Run) changed() <-chan struct{} {
	<-r.opened
	return r.log.Changed()
}

// record reads the exit before the figures of the log, so that those of a command that
// has ended are complete.
func (r *Run) record() Record {
	exit := r.Exit()
	return Record{
		ID: r.ID, Box: r.Box.ID, Cmd: clipCmd(r.Command.Cmd), Started: r.Started,
		Exit: exit, LogPath: r.LogPath(), Log: r.LogStats(), Limited: r.Limited(),
	}
}

func clipCmd(cmd string) string { return excerpt.Clip(cmd, recordCmd) }
