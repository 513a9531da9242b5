package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/warmbox/warmbox/sandbox/rawlog"
	"github.com/warmbox/warmbox/sandbox/redact"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// Programs are the programs that the processes of a command executed, as its agent reports
// them, in the order in which the calls began. Paths and arguments are masked, and are what
// the processes said: hostile text. This is audit and no boundary: a process can change what
// it executes after the agent has looked.
type Programs struct {
	Record Record
	List   []Program

	// Missing is how many more there were, which the agent or this program dropped.
	// AtLeast says that the number is not final, or that its end is not known.
	Missing int64
	AtLeast bool

	// Unrecorded is why there is no record of programs, "" if there is one. It is a sentence.
	Unrecorded string
}

// A Program is a program that a process executed, or tried to.
type Program struct {
	At          time.Duration // since the start of the command
	Pid, Parent int           // in the box; Parent is 0 if it is unknown
	Path        string        // as the process gave it
	Args        []string      // the first ones, the program's name first
	More        int           // number of arguments that are not listed; -1: unknown
	Cut         bool          // Path or one of Args is cut
	Unread      bool          // Path or Args could not be read
	Failed      bool          // the call failed: no program was executed
	Unsure      bool          // it is not known whether the call succeeded
	Shim        bool          // a call of a shim
	Denied      bool          // the shim's rules deny the call: no program was executed
	Limited     bool          // the shim's limits of output cut what the call printed
	Exit        *int          // the exit code, if the process ended by itself and the agent saw it

	number int64 // from 1, in the order in which the calls began
}

// A programLine is what is stored of a record of a program. Its meaning is wire.Program's.
type programLine struct {
	Seq     int64    `json:"n"`
	At      int64    `json:"t,omitempty"` // microseconds since the start of the run
	Pid     int      `json:"pid,omitempty"`
	Parent  int      `json:"ppid,omitempty"`
	Path    string   `json:"path,omitempty"`
	Args    []string `json:"args,omitempty"`
	More    int      `json:"more,omitempty"`
	Cut     bool     `json:"cut,omitempty"`
	Unread  bool     `json:"unread,omitempty"`
	Failed  bool     `json:"failed,omitempty"`
	Unsure  bool     `json:"unsure,omitempty"`
	Shim    bool     `json:"shim,omitempty"`
	Denied  bool     `json:"denied,omitempty"`
	Limited bool     `json:"limited,omitempty"`
	Exit    *int     `json:"exit,omitempty"`
	End     bool     `json:"end,omitempty"`
	Total   bool     `json:"total,omitempty"`
}

// programBook keeps the records of programs of a box's runs. The reader goroutine of the box
// owns it.
type programBook struct {
	wanted bool
	rules  *Shims            // the box has shims, whose calls are recorded; nil: none
	answer *wire.AuditedBody // of the agent; nil: it knows nothing of programs
	runs   map[wire.ID]*programLog
}

func newProgramBook(spec Spec) programBook {
	return programBook{wanted: spec.AuditPrograms, rules: spec.Shims, runs: map[wire.ID]*programLog{}}
}

// answered records what the agent's Hello says, and tells the user if programs are wanted and
// not recorded.
func (p *programBook) answered(b *Box, hello wire.HelloBody) {
	p.answer = hello.Audited
	if why := p.unrecorded(); p.wanted && why != "" {
		b.logger.Warn("programs are not recorded", "why", why)
		b.Place.Notes = append(slices.Clip(b.Place.Notes), why)
	}
}

// programLog is the record of one run.
type programLog struct {
	records *rawlog.Records
	last    int64          // highest number
	limited map[int64]bool // numbers of calls of shims whose output was cut, up to maxLimited
}

// maxLimited bounds the calls whose cut output is counted, so that a box cannot fill memory.
const maxLimited = 10_000

// receivePrograms stores the records of a frame. A record of a run that is not open is
// ignored: the agent may not know yet that the run is over. Records without a run only go to
// the audit record.
func (b *Box) receivePrograms(f wire.Frame) error {
	if !b.programs.wanted && b.programs.rules == nil {
		return wire.Violation("%v, which this host did not ask for", f.Kind)
	}
	var body wire.ProgramsBody
	if err := wire.Decode(f, &body); err != nil {
		return err
	}
	if len(body.List) > wire.MaxProgramList {
		return wire.Violation("%v with %d records, more than %d", f.Kind, len(body.List), wire.MaxProgramList)
	}
	now := time.Now()
	for _, p := range body.List {
		if !p.Valid() {
			return wire.Violation("%v with a record that is out of range: number %d, %d microseconds old, pid %d, parent %d, %d arguments and %d more",
				f.Kind, p.Seq, p.Micros, p.Pid, p.Parent, len(p.Args), p.More)
		}
		id, err := hex.DecodeString(p.Run)
		if err != nil || len(id) != len(wire.ID{}) && len(id) != 0 {
			return wire.Violation("%v with an invalid run of %d bytes", f.Kind, len(p.Run))
		}
		if len(id) == 0 {
			b.audit.executed(b, nil, p)
		} else if r := b.run(wire.ID(id)); r != nil {
			b.storeProgram(r, p, now)
		}
	}
	return nil
}

// storeProgram stores a record of a run.
func (b *Box) storeProgram(r *Run, p wire.Program, now time.Time) {
	log := b.programs.runs[r.wireID]
	if log == nil {
		log = &programLog{records: b.logs.Records(r.ID), limited: map[int64]bool{}}
		b.programs.runs[r.wireID] = log
	}
	log.last = max(log.last, p.Seq)
	if p.Limited && len(log.limited) < maxLimited && !log.limited[p.Seq] {
		log.limited[p.Seq] = true
		r.limited.Add(1)
	}
	line := programLine{Seq: p.Seq, Failed: p.Failed, Denied: p.Denied, Limited: p.Limited, Exit: p.Exit, End: p.End, Total: p.Total}
	if !p.End && !p.Total {
		line.Path, line.Cut = boundText(p.Path, p.Cut)
		room := maxProgramText
		for _, arg := range p.Args {
			var cut bool
			arg, cut = boundTo(arg, room)
			line.Args, line.Cut, room = append(line.Args, arg), line.Cut || cut, room-len(arg)
		}
		at := now.Add(-time.Duration(p.Micros) * time.Microsecond).Sub(r.beganAt())
		line.At, line.Pid, line.Parent, line.More = max(0, at.Microseconds()), p.Pid, p.Parent, p.More
		line.Unread, line.Unsure, line.Shim = p.Unread, p.Unsure, p.Shim
	}
	log.records.Append(line.encode(), p.Total)
	if !p.Total {
		b.audit.executed(b, r, p)
	}
}

// maxProgramText bounds the text of a record: bytes that are no UTF-8 have become three.
const maxProgramText = 3 * wire.MaxProgramText

func boundText(s string, cut bool) (string, bool) {
	s, more := boundTo(s, maxProgramText)
	return s, cut || more
}

func boundTo(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}

// encode returns the line of a file.
func (l programLine) encode() []byte {
	text, _ := json.Marshal(l) // cannot fail: numbers and strings
	return append(text, '\n')
}

// beganAt returns when the run began, by this program's clock.
func (r *Run) beganAt() time.Time {
	if r.resumed != nil {
		return r.resumed.began
	}
	return r.Started
}

// closePrograms closes the record of a run. It says how many records there were if not all of
// them are stored.
func (b *Box) closePrograms(r *Run) {
	log := b.programs.runs[r.wireID]
	if log == nil {
		return
	}
	delete(b.programs.runs, r.wireID)
	if log.records.Lost() > 0 {
		log.records.Append(programLine{Seq: log.last, Total: true}.encode(), true)
	}
	log.records.Close()
}

// unrecorded returns why the agent of a box does not see programs, "" if it does.
func (p *programBook) unrecorded() string {
	switch {
	case !p.wanted:
		return unwantedPrograms
	case p.answer == nil:
		return "The agent of this box is older than the audit of programs, so they are not recorded in it."
	case p.answer.On:
		return ""
	}
	reason := ""
	if p.answer.Errno != 0 {
		reason = fmt.Sprintf(" (%s)", errnoText(p.answer.Errno))
	}
	switch p.answer.Step {
	case wire.AuditLate:
		return "The programs of this box are not recorded: it was started without [audit] programs. Start another box."
	case wire.AuditPrivs:
		return "Programs are not recorded: no_new_privs cannot be set" + reason + "."
	case wire.AuditFilter:
		return "Programs are not recorded: the seccomp filter that reports them cannot be installed" + reason +
			". It needs Linux 5.5, a seccomp profile that allows seccomp, and no other program around the box that has such a filter."
	case wire.AuditMemory:
		return "Programs are not recorded: the agent cannot read the memory of processes" + reason + ". The seccomp profile must allow process_vm_readv."
	}
	return "Programs are not recorded: the agent does not know this processor."
}

const unshimmedPrograms = "There is no record of a call of a shim by this command, and other programs are not recorded: the owner of this server can switch that on with programs = true in the section [audit] of the configuration."

const unwantedPrograms = "Programs are not recorded: the owner of this server can switch that on with programs = true in the section [audit] of the configuration."

// Programs returns the programs that the processes of an owner's command executed so far.
// The records of a command that has ended are complete up to what its Missing says.
func (m *Manager) Programs(owner Owner, id string) (Programs, error) {
	record, err := m.Record(owner, id)
	if err != nil {
		return Programs{}, err
	}
	p := Programs{Record: record, AtLeast: record.Open || record.Exit.Status == Lost}
	file, err := m.Logs.OpenRecords(record.ID)
	if errors.Is(err, fs.ErrNotExist) {
		p.Unrecorded = m.unrecorded(owner, record)
		return p, nil
	}
	if err != nil {
		return Programs{}, err
	}
	defer file.Close()
	p.read(bufio.NewReader(file))
	p.mask(m.Secrets)
	return p, nil
}

// unrecorded returns why a run has no record.
func (m *Manager) unrecorded(owner Owner, record Record) string {
	if box, err := m.Box(owner, record.Box); err == nil {
		if why := box.programs.unrecorded(); why != "" {
			if box.programs.rules != nil && !box.programs.wanted {
				return unshimmedPrograms
			}
			return why
		}
	} else if !m.Defaults.AuditPrograms && m.Defaults.Shims != nil {
		return unshimmedPrograms
	} else if !m.Defaults.AuditPrograms {
		return unwantedPrograms
	}
	return "There is no record of the programs of this command: none was made, or it was deleted."
}

// read reads the lines of a file. A later line may amend an earlier one.
func (p *Programs) read(lines *bufio.Reader) {
	byNumber, highest := map[int64]int{}, int64(0)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			break // the last line may be incomplete
		}
		var l programLine
		if json.Unmarshal(bytes.TrimSpace(text), &l) != nil || l.Seq < 1 {
			continue
		}
		highest = max(highest, l.Seq)
		i, known := byNumber[l.Seq]
		switch {
		case l.Total:
		case l.End && known:
			was := &p.List[i]
			was.Failed, was.Unsure, was.Exit, was.Denied, was.Limited = l.Failed, false, l.Exit, l.Denied, l.Limited
		case l.End:
		case !known:
			byNumber[l.Seq] = len(p.List)
			p.List = append(p.List, Program{
				number: l.Seq, At: time.Duration(l.At) * time.Microsecond, Pid: l.Pid, Parent: l.Parent, Path: l.Path, Args: l.Args, More: l.More,
				Cut: l.Cut, Unread: l.Unread, Failed: l.Failed, Unsure: l.Unsure, Shim: l.Shim, Denied: l.Denied, Limited: l.Limited, Exit: l.Exit,
			})
		}
	}
	p.Missing = highest - int64(len(p.List))
	slices.SortFunc(p.List, func(a, b Program) int { return cmp.Compare(a.number, b.number) })
}

// mask masks the secrets of the list.
func (p *Programs) mask(secrets *redact.Redactor) {
	for i := range p.List {
		one := &p.List[i]
		one.Path, one.Args = maskProgram(secrets, one.Path, one.Args, one.Cut || one.Unread)
	}
}

// maskProgram masks a path and arguments, also if one tells that the next is a secret. Of texts
// that are cut, also the beginning of a known secret is masked.
func maskProgram(secrets *redact.Redactor, path string, args []string, cut bool) (maskedPath string, maskedArgs []string) {
	maskedPath, maskedArgs = secrets.Text(path), secrets.Args(args)
	if cut {
		maskedPath = secrets.Name(maskedPath)
		for i, arg := range maskedArgs {
			maskedArgs[i] = secrets.Name(arg)
		}
	}
	return maskedPath, maskedArgs
}

// executed records a program, or how an earlier one ended. r is nil if its run is unknown.
func (a *audit) executed(b *Box, r *Run, p wire.Program) {
	if a == nil || p.Total {
		return
	}
	line := []any{"box", b.ID}
	if r != nil {
		line = append(line, "exec", r.ID)
	}
	line = append(line, "number", p.Seq)
	if p.End {
		if p.Path != "" { // an older agent does not repeat it
			path, _ := boundText(p.Path, false)
			path, _ = maskProgram(b.secrets, path, nil, true)
			line = append(line, "path", path)
		}
		a.write("programEnd", b.owner, append(line, outcome(p)...)...)
		return
	}
	path, _ := boundText(p.Path, false)
	path, args := maskProgram(b.secrets, path, p.Args, true)
	began := time.Now().Add(-time.Duration(p.Micros) * time.Microsecond).UTC()
	line = append(line, "began", began.Format(time.RFC3339Nano), "pid", p.Pid, "parent", p.Parent, "path", path)
	if a.lines {
		line = append(line, "args", fmt.Sprintf("%q", args))
	} else {
		line = append(line, "args", args)
	}
	if p.More != 0 {
		line = append(line, "moreArgs", p.More)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"cut", p.Cut}, {"unread", p.Unread}, {"unsure", p.Unsure}, {"shim", p.Shim}} {
		if flag.set {
			line = append(line, flag.name, true)
		}
	}
	a.write("program", b.owner, append(line, outcome(p)...)...)
}

// outcome is what is known of how a program ended.
func outcome(p wire.Program) (attrs []any) {
	if p.Failed {
		attrs = append(attrs, "failed", true)
	}
	if p.Denied {
		attrs = append(attrs, "denied", true)
	}
	if p.Limited {
		attrs = append(attrs, "limited", true)
	}
	if p.Exit != nil {
		attrs = append(attrs, "code", *p.Exit)
	}
	return attrs
}
