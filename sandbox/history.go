package sandbox

import (
	"cmp"
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
	// remembered is how many runs that are over are told of, of all owners.
	// What is known of older ones is in their logs.
	remembered = 1000

	// recordCmd is how much of a command is remembered: enough to know it again.
	recordCmd = 1000
)

// A Record is what is known of a run, under way or long over.
type Record struct {
	ID      string
	Box     string
	Cmd     string // its beginning, if it is long
	Started time.Time
	Exit    Exit
	LogPath string
	Log     rawlog.Stats
	Open    bool // its log may still grow: by it, or by what it left behind

	// Changed is closed when something of this has changed, and Over when nothing
	// more will; both are nil where nothing will, or another process runs it.
	Changed, Over <-chan struct{}
}

// Find returns what is known of a run of an owner. One of somebody else's is
// not there, and neither is one whose log has been deleted long after its end.
func (m *Manager) Find(owner Owner, id string) (Record, error) {
	if r, ok := m.history.find(owner, id); ok {
		return r, nil
	}
	written := m.Logs.Written(id) // asked first: what is over then is so in the index
	head, err := m.Logs.Head(id)
	if err != nil || head.Owner != owner.mark() && head.Owner != owner.all().mark() {
		return Record{}, Errorf(ExecNotFound, "Use an execId that exec returned; list has the recent ones. Logs are deleted when they are old.",
			"there is no command with the execId %q", id)
	}
	return m.recorded(head, written), nil
}

// Run returns a run of an owner that is under way, or whose leftovers are.
func (m *Manager) Run(owner Owner, id string) (*Run, error) {
	if r := m.history.open(owner, id); r != nil {
		return r, nil
	}
	record, err := m.Find(owner, id)
	if err != nil {
		return nil, err
	}
	return nil, Errorf(ExecNotFound, "Its output and how it ended are in logs.", "command %s is over", record.ID)
}

// recorded tells of a run what its log tells: this server may have been started
// after it.
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
		r.Exit = Exit{Status: Lost, Code: -1, Err: errors.New("the server ended while the command ran")}
	}
	return r
}

// Runs returns what an owner has run of late and what still runs, the newest
// first.
func (m *Manager) Runs(owner Owner) []Record {
	list := m.history.list(owner)
	slices.SortFunc(list, func(a, b Record) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return list
}

// A history knows the runs of a Manager: those under way, and the last ones
// that are over. A nil one remembers nothing.
type history struct {
	mu   sync.Mutex
	runs map[string]*past // by id
	over []string         // ids of those that are over, the oldest first

	ended   map[Status]int64 // how many are over, by how they ended
	printed int64            // bytes of those
}

// A past is one of them.
type past struct {
	owner  Owner
	run    *Run // nil when it is over
	record Record

	digested <-chan struct{} // closed when there will be no other summary
	summary  string
}

func (h *history) add(owner Owner, r *Run) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[string]*past{}
	}
	h.runs[r.ID] = &past{owner: owner, run: r, digested: r.digest.done}
}

// settle takes down what is known of a run when nothing more can come of it.
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
	if h.ended == nil {
		h.ended = map[Status]int64{}
	}
	h.ended[record.Exit.Status]++
	h.printed += record.Log.Bytes
	h.over = append(h.over, r.ID)
	if extra := len(h.over) - remembered; extra > 0 {
		for _, id := range h.over[:extra] {
			delete(h.runs, id)
		}
		h.over = slices.Delete(h.over, 0, extra)
	}
}

// figures tells how many runs are not over, how the others ended, and what all
// have printed.
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

// summarize takes down a run's summary.
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

// forget forgets what an owner has run that is over.
func (h *history) forget(owner Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = slices.DeleteFunc(h.over, func(id string) bool {
		gone := h.runs[id].owner == owner
		if gone {
			delete(h.runs, id)
		}
		return gone
	})
}

func (h *history) find(owner Owner, id string) (Record, bool) {
	p := h.past(owner, id)
	if p == nil {
		return Record{}, false
	}
	h.mu.Lock()
	run, record := p.run, p.record
	h.mu.Unlock()
	if run == nil {
		return record, true
	}
	// Asked before the rest, so that no change falls between.
	changed := run.changed()
	record = run.record()
	record.Open, record.Changed, record.Over = true, changed, run.over
	return record, true
}

// open returns a run that is not over, nil where there is none.
func (h *history) open(owner Owner, id string) *Run {
	p := h.past(owner, id)
	if p == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.run
}

func (h *history) past(owner Owner, id string) *past {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.runs[id]; p != nil && owner.reaches(p.owner) {
		return p
	}
	return nil
}

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

// neverStarted reports whether the agent refused the command, which its caller
// was told.
func (r Record) neverStarted() bool { return r.Exit.Status == Exited && r.Exit.Err != nil }

func (r *Run) changed() <-chan struct{} {
	<-r.opened
	return r.log.Changed()
}

// record asks for the exit before the log's figures: those of a command that
// has ended then are all of its own.
func (r *Run) record() Record {
	exit := r.Exit()
	return Record{
		ID: r.ID, Box: r.Box.ID, Cmd: clipCmd(r.Command.Cmd), Started: r.Started,
		Exit: exit, LogPath: r.LogPath(), Log: r.LogStats(),
	}
}

func clipCmd(cmd string) string { return excerpt.Clip(cmd, recordCmd) }
