package tools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

const (
	// fewPrograms is how many programs a call without a range lists. Of more it shows how often
	// each was executed.
	fewPrograms = 60

	// programBytes bounds the line of one program of several.
	programBytes = 400
)

// programsResult is what logs says of the programs of a command.
type programsResult struct {
	Status     sandbox.Status `json:"status"`
	ExitCode   *int           `json:"exitCode,omitempty"`
	Signal     string         `json:"signal,omitempty"`
	DurationMs int64          `json:"durationMs,omitempty"`
	Total      int            `json:"totalPrograms"`
	Missing    int64          `json:"missingPrograms,omitempty"` // not recorded, besides Total
	Matches    *int           `json:"matches,omitempty"`
	Programs   []programEntry `json:"programs,omitempty"`
	Next       int            `json:"next,omitempty"`
	Hint       string         `json:"hint,omitempty"`
	news

	lasted string
	lines  string // the programs as text
	shown  string // which programs these are
}

// A programEntry is a program, several in a row that are alike, or in an overview all of one path.
type programEntry struct {
	Number int      `json:"line,omitempty"` // from 1, in the order in which they began
	Last   int      `json:"lastLine,omitempty"`
	Times  int      `json:"times,omitempty"`
	At     float64  `json:"seconds,omitempty"` // since the start of the command
	Pid    int      `json:"pid,omitempty"`
	Parent int      `json:"parent,omitempty"`
	Path   string   `json:"path"`
	As     string   `json:"as,omitempty"` // what the program is told to be its name, if it is not that of the path
	Args   []string `json:"args,omitempty"`
	More   int      `json:"moreArgs,omitempty"` // -1: unknown
	Exit   *int     `json:"exitCode,omitempty"`
	Note   string   `json:"note,omitempty"`
}

// programsOutput are the properties of the output of logs for programs.
const programsOutput = `"programs":{"type":"array"},"totalPrograms":{"type":"integer"},"missingPrograms":{"type":"integer"},`

// recordsPrograms reports whether the tools mention programs.
func (s *Set) recordsPrograms() bool {
	return s.Manager != nil && (s.Manager.Defaults.AuditPrograms || s.Manager.Defaults.Shims != nil)
}

// programsText describes the argument programs of logs.
func (s *Set) programsText() string {
	if s.Manager.Defaults.AuditPrograms {
		return "instead of output, the programs that it executed"
	}
	return "instead of output, its calls of programs that have a shim"
}

// onlyShims says that a list has no other programs.
const onlyShims = "Only calls of shims are recorded: others need programs = true in the section [audit]."

// logPrograms replies with the programs of a command.
func (s *Set) logPrograms(ctx context.Context, owner sandbox.Owner, a *logsArgs) *mcp.CallToolResult {
	var r programsResult
	err := s.whenReattached(ctx, owner, func() (err error) {
		r, err = s.programs(owner, a)
		return err
	})
	if err != nil {
		return Failed(err)
	}
	return reply(r, r.text())
}

// programs reads the programs of a command.
func (s *Set) programs(owner sandbox.Owner, a *logsArgs) (r programsResult, err error) {
	q, err := a.query()
	if err != nil {
		return r, err
	}
	p, err := s.Manager.Programs(owner, clip(a.execID))
	if err != nil {
		return r, err
	}
	if p.Unrecorded != "" {
		return r, &sandbox.Error{Code: sandbox.InvalidArgument, Text: p.Unrecorded, Hint: "Without programs, logs reads the output."}
	}
	e := p.Record.Exit
	r = programsResult{
		Status: e.Status, ExitCode: exitCode(e), Signal: e.Signal, DurationMs: e.Took.Milliseconds(), lasted: lasted(e),
		Total: len(p.List), Missing: p.Missing,
	}
	if !s.Manager.Defaults.AuditPrograms && !slices.ContainsFunc(p.List, func(p sandbox.Program) bool { return !p.Shim }) {
		r.Hint = onlyShims
	}
	if a.end() && len(p.List) > fewPrograms {
		r.overview(p.List)
		r.Hint = strings.TrimSpace("With fromLine, tail or grep, logs lists them one by one. " + r.Hint)
		return r, nil
	}
	r.list(p.List, a, q.Match, q.Bytes)
	return r, nil
}

// list shows programs one by one.
func (r *programsResult) list(all []sandbox.Program, a *logsArgs, match *regexp.Regexp, room int) {
	from, most := 1, pageLines
	if a.fromLine != nil {
		from = *a.fromLine
	}
	if a.lines != nil {
		most = *a.lines
	}
	entries := foldPrograms(all, from, match)
	if match != nil {
		n := 0
		for _, e := range entries {
			n += e.Times
		}
		r.Matches = &n
	}
	if a.tail != nil {
		most = *a.tail
		entries = entries[max(0, len(entries)-most):]
	}
	var b strings.Builder
	for i, e := range entries {
		line := e.line()
		if len(line) > programBytes && most > 1 {
			line = excerpt.Clip(line, programBytes) + " […]"
			e.shorten()
		}
		if i == most || i > 0 && b.Len()+len(line) > room {
			r.Next = e.Number
			break
		}
		if i == 0 {
			line = excerpt.Clip(line, room)
		}
		b.WriteString(line + "\n")
		r.Programs = append(r.Programs, e.forReader())
	}
	r.lines = b.String()
	r.shown = programRange(r)
}

// programRange says which programs are shown.
func programRange(r *programsResult) string {
	total := plural(r.Total, "program")
	if r.Matches != nil {
		total = fmt.Sprintf("%s of %s", thousands(int64(*r.Matches)), total)
	}
	if n := len(r.Programs); n > 0 && (r.Next > 0 || r.Programs[0].Number > 1) && r.Matches == nil {
		last := max(r.Programs[n-1].Number, r.Programs[n-1].Last)
		return fmt.Sprintf("%s–%s of %s", thousands(int64(r.Programs[0].Number)), thousands(int64(last)), total)
	}
	return total
}

func plural(n int, what string) string { return excerpt.Count(int64(n), what) }

// foldPrograms returns the programs from a number on that match. Programs in a row that are
// alike but for the time and the process are one entry.
func foldPrograms(all []sandbox.Program, from int, match *regexp.Regexp) (list []programEntry) {
	last := ""
	for i := max(0, from-1); i < len(all); i++ {
		e := newProgramEntry(i+1, all[i])
		same := e.what()
		if match != nil && !match.MatchString(same) {
			last = ""
			continue
		}
		if n := len(list); n > 0 && same == last {
			list[n-1].Last, list[n-1].Times = i+1, list[n-1].Times+1
			continue
		}
		list, last = append(list, e), same
	}
	return list
}

func newProgramEntry(number int, p sandbox.Program) programEntry {
	e := programEntry{
		Number: number, Times: 1, At: p.At.Round(time.Millisecond).Seconds(), Pid: p.Pid, Parent: p.Parent,
		Path: inertLine(p.Path), More: p.More, Exit: p.Exit, Note: noteOf(p),
	}
	for i, arg := range p.Args {
		switch {
		case i > 0:
			e.Args = append(e.Args, inertLine(arg))
		case arg != p.Path && arg != path.Base(p.Path):
			e.As = inertLine(arg)
		}
	}
	return e
}

// inertLine makes untrusted text inert, without line breaks.
func inertLine(s string) string { return oneLine(s, len(s)) }

// noteOf says what is not known of a program, or that it is none.
func noteOf(p sandbox.Program) string {
	var notes []string
	if p.Shim {
		notes = append(notes, "a shim answered")
	}
	switch {
	case p.Denied:
		notes = append(notes, "denied")
	case p.Failed:
		notes = append(notes, "failed to start")
	}
	if p.Limited {
		notes = append(notes, "its output was cut")
	}
	if p.Unsure {
		notes = append(notes, "it is unknown whether it started")
	}
	if p.Unread {
		notes = append(notes, "its path or arguments could not be read")
	}
	if p.Cut {
		notes = append(notes, "its text is cut")
	}
	return strings.Join(notes, ", ")
}

// what is all of an entry that does not tell apart programs that are alike.
func (e programEntry) what() string {
	words := []string{word(e.Path)}
	if e.As != "" {
		words = append(words, "(as "+word(e.As)+")")
	}
	for _, arg := range e.Args {
		words = append(words, word(arg))
	}
	switch {
	case e.More > 0:
		words = append(words, fmt.Sprintf("[… %s]", plural(e.More, "argument")))
	case e.More < 0:
		words = append(words, "[… more arguments]")
	}
	text := strings.Join(words, " ")
	if e.Exit != nil {
		text += fmt.Sprintf(" · exit %d", *e.Exit)
	}
	if e.Note != "" {
		text += " · " + e.Note
	}
	return text
}

// word returns an argument so that it is one word: what is not plain is quoted.
func word(s string) string {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"'`\\$&|;<>()*?[]{}~#!·", c) >= 0 {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// line renders an entry: number, seconds, pid and its parent, and what it is.
func (e programEntry) line() string {
	if e.Number == 0 {
		return fmt.Sprintf("%s× %s", thousands(int64(e.Times)), e.what())
	}
	if e.Times > 1 {
		return fmt.Sprintf("%d-%d %.3f s: %s · %s times", e.Number, e.Last, e.At, e.what(), thousands(int64(e.Times)))
	}
	return fmt.Sprintf("%d %.3f s %d<%d: %s", e.Number, e.At, e.Pid, e.Parent, e.what())
}

// shorten shortens the arguments of an entry like those of its line.
func (e *programEntry) shorten() {
	room := programBytes
	for i, arg := range e.Args {
		if room -= len(arg); room < 0 {
			if e.More >= 0 {
				e.More += len(e.Args) - i
			}
			e.Args = e.Args[:i]
			break
		}
	}
	if len(e.Path) > programBytes {
		e.Path = excerpt.Clip(e.Path, programBytes)
	}
}

// forReader returns an entry without what goes without saying.
func (e programEntry) forReader() programEntry {
	if e.Times == 1 {
		e.Times = 0
	} else {
		e.Pid, e.Parent = 0, 0
	}
	return e
}

// overview shows how often each program was executed, the most frequent first.
func (r *programsResult) overview(all []sandbox.Program) {
	count := map[string]*programEntry{}
	for i, p := range all {
		e := newProgramEntry(i+1, p)
		e = programEntry{Path: e.Path, Exit: e.Exit, Note: e.Note}
		key := e.what()
		if count[key] == nil {
			count[key] = &e
		}
		count[key].Times++
	}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b].Times, count[a].Times), strings.Compare(a, b))
	})
	var b strings.Builder
	rest := 0
	for i, key := range keys {
		e := *count[key]
		if i >= fewPrograms {
			rest += e.Times
			continue
		}
		e.Path = excerpt.Clip(e.Path, programBytes)
		b.WriteString(e.line() + "\n")
		r.Programs = append(r.Programs, e)
	}
	r.shown = plural(r.Total, "program")
	if rest > 0 {
		r.shown += fmt.Sprintf(", the most frequent first, without %s others", thousands(int64(rest)))
	}
	r.lines = b.String()
}

func (r programsResult) line() string {
	s := r.verdict()
	if len(r.Programs) > 0 {
		s += elsewhere
	}
	return s
}

func (r programsResult) verdict() string {
	parts := []string{ending(r.Status, r.ExitCode, r.Signal), r.lasted, r.shown}
	if r.Missing > 0 {
		parts = append(parts, thousands(r.Missing)+" more not recorded")
	}
	if r.Next > 0 {
		parts = append(parts, fmt.Sprintf("next %d", r.Next))
	}
	return strings.Join(parts, " · ")
}

func (r programsResult) short() any {
	return programsResult{Status: r.Status, ExitCode: r.ExitCode, Signal: r.Signal, Total: r.Total, Missing: r.Missing, Next: r.Next}
}

// text renders the whole result. Each line of a program begins with its number.
func (r programsResult) text() string {
	var facts strings.Builder
	fact(&facts, "hint", r.Hint)
	if r.lines == "" {
		return r.verdict() + "\n" + facts.String()
	}
	return r.verdict() + "\n" + facts.String() + "programs:\n" + r.lines
}
