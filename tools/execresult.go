package tools

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/summary"
)

// The codes of a command that ran and did not succeed.
const (
	execFailed  = "EXEC_FAILED"
	execTimeout = "EXEC_TIMEOUT"
)

// maxLeftover is how many processes a result names. LeftoverCount counts all.
const maxLeftover = 10

// ExecResult says how a command ended. Status, ExitCode and Signal come from the kernel. A field
// that follows from others is left out.
type ExecResult struct {
	Status        sandbox.Status `json:"status"`
	ExitCode      *int           `json:"exitCode,omitempty"` // nil if the command did not end by itself
	Signal        string         `json:"signal,omitempty"`
	Code          string         `json:"code,omitempty"` // "" for success, and for EXEC_FAILED, which Status and ExitCode tell
	Summary       string         `json:"summary"`
	SummaryBy     string         `json:"summaryBy,omitempty"` // the model that wrote it
	Hint          string         `json:"hint,omitempty"`
	DurationMs    int64          `json:"durationMs"`
	ContainerID   string         `json:"containerId"`
	ExecID        string         `json:"execId"`
	LogPath       string         `json:"logPath,omitempty"`
	Log           *LogGap        `json:"log,omitempty"`           // nil if the log is complete
	Leftover      []sandbox.Proc `json:"leftover,omitempty"`      // some of the processes that still run
	LeftoverCount int            `json:"leftoverCount,omitempty"` // how many they are, if Leftover does not name all
	Screen        string         `json:"-"`                       // of a terminal: stdout is what is to be seen there; the summary tells so
	Changed       []string       `json:"changed,omitempty"`       // paths of the workspace that the host may run
	ShownOutput
	news

	tty      bool // it has a terminal
	took     time.Duration
	both     string          // both streams by arrival, which the text shows instead of Stdout and Stderr; "": it shows those
	digested bool            // the summary was made from the whole output
	author   string          // of the summary, for metrics
	digest   *summary.Digest // for the client's model to summarise; nil: it is not asked

	// logged is the number of lines in the log before the output was read, so that a
	// client that goes on reading there misses no line.
	logged int64
}

// LogGap says that the raw log is not complete.
type LogGap struct {
	Complete  bool   `json:"complete"` // false
	LostBytes int64  `json:"lostBytes"`
	Reason    string `json:"reason"`
}

func (g LogGap) sentence() string {
	return fmt.Sprintf("%s are not in it: %s", excerpt.Count(g.LostBytes, "byte"), g.Reason)
}

const execOutput = `{"type":"object","properties":{
	"status":{"enum":["exited","running","killed","timeout","oom","lost"]},
	"exitCode":{"type":"integer"},
	"signal":{"type":"string"},
	"code":{"type":"string"},
	"summary":{"type":"string"},
	"summaryBy":{"type":"string"},
	"hint":{"type":"string"},
	"durationMs":{"type":"integer"},
	"containerId":{"type":"string"},
	"execId":{"type":"string"},
	"logPath":{"type":"string"},
	"log":{"type":"object"},
	"leftover":{"type":"array"},
	"leftoverCount":{"type":"integer"},
	"changed":{"type":"array"},
	"truncated":{"type":"boolean"},
	"omittedBytes":{"type":"integer"},
	"omittedLines":{"type":"integer"},
	"stdout":{"type":"string"},
	"stderr":{"type":"string"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"}
	},"anyOf":[{"required":["status","summary","truncated","containerId","execId"]},{"required":["error","code"]}],"additionalProperties":false}`

// newExecResult returns the result of a run without its output. The exit was read before, so
// that the output of a run that has ended is complete.
func (s *Set) newExecResult(ctx context.Context, run *sandbox.Run, exit sandbox.Exit) ExecResult {
	r := ExecResult{
		Status: exit.Status, Signal: exit.Signal, took: exit.Took, DurationMs: exit.Took.Milliseconds(),
		ExitCode: exitCode(exit), ContainerID: run.Box.ID, ExecID: run.ID, LogPath: run.LogPath(), tty: run.Command.TTY != nil,
		Leftover: inertNames(exit.Leftover),
	}
	if n := len(exit.Leftover) + exit.More; n > len(r.Leftover) {
		r.LeftoverCount = n
	}
	if code := codeOf(exit); code != execFailed {
		r.Code = code
	}
	log := run.LogStats()
	if !log.Complete {
		r.Log = &LogGap{LostBytes: log.Lost, Reason: log.Reason}
	}
	r.Hint = strings.Join(s.execHints(ctx, run, exit), " ")
	r.logged = log.Lines
	return r
}

// hint adds sentences to the result's hint.
func (r *ExecResult) hint(sentences ...string) {
	for _, s := range sentences {
		r.Hint = strings.TrimSpace(r.Hint + " " + s)
	}
}

// codeOf returns the code of a command, "" if it succeeded or may succeed.
func codeOf(e sandbox.Exit) string {
	switch e.Status {
	case sandbox.Running:
		if e.Err == nil {
			return ""
		}
		return FailureOf(e.Err).Code // the box does not respond
	case sandbox.TimedOut:
		return execTimeout
	case sandbox.Lost:
		return sandbox.BoxGone
	case sandbox.Exited:
		if e.Code == 0 {
			return ""
		}
	}
	return execFailed
}

// inertNames returns processes whose names cannot be mistaken for text of ours.
func inertNames(procs []sandbox.Proc) []sandbox.Proc {
	var list []sandbox.Proc
	for _, p := range procs[:min(len(procs), maxLeftover)] {
		list = append(list, sandbox.Proc{Pid: p.Pid, Name: oneLine(p.Name, len(p.Name))})
	}
	return list
}

// failed reports whether the command has ended without success.
func (r *ExecResult) failed() bool {
	return r.Status != sandbox.Running && (r.ExitCode == nil || *r.ExitCode != 0)
}

// interleave makes the text of a failure show both streams by arrival: an error is understood
// from what was printed around it.
func (r *ExecResult) interleave(run *sandbox.Run) {
	if r.failed() && !r.Truncated && r.Stdout != "" && r.Stderr != "" {
		if both, ok := run.Interleaved(r.Stdout, r.Stderr); ok {
			r.both = both
		}
	}
}

// shortSummary is the summary of an output that is shown whole or still grows: how the command
// ended, and how much it printed.
func (r *ExecResult) shortSummary() string {
	return ending(r.Status, r.ExitCode, r.Signal) + ", " + r.extent()
}

// extent says how much the command printed.
func (r *ExecResult) extent() string {
	s := "no output"
	switch {
	case r.Screen != "":
		return "screen " + r.Screen
	case r.binary != "":
		s = r.binary
	case r.lines > 0:
		s = excerpt.Count(r.lines, "line")
	}
	if r.Status == sandbox.Running {
		s += " so far"
	}
	return s
}

// Text renders the result as text, without what the next step does not need. The first line is
// the verdict. If it ends with the name of a stream and a colon, all that follows is output:
//
//	exit 0 · 5 ms · stdout:
//	hi
//
// Otherwise it is followed by lines of ours, and by the output below headers with the id of the
// run, which a command does not know.
func (r ExecResult) Text() string {
	var b strings.Builder
	facts, blocks := r.facts(), r.blocks()
	switch {
	case facts != "" || r.Screen != "" || r.Truncated || r.Status == sandbox.Running:
		b.WriteString(r.verdict(len(blocks)) + "\n" + facts)
	case len(blocks) == 0:
		b.WriteString(r.ended() + " · " + r.extent() + "\n")
	case len(blocks) == 1:
		b.WriteString(r.ended() + " · " + blocks[0].name + ":\n" + blocks[0].text)
		return b.String()
	default: // the id in the verdict tells which line is the next header
		b.WriteString(r.ended() + " · " + blocks[0].name + " of " + r.ExecID + ":\n")
		blocks[0].write(&b)
		blocks = blocks[1:]
	}
	for _, block := range blocks {
		fmt.Fprintf(&b, "--- %s of %s ---\n", block.name, r.ExecID)
		block.write(&b)
	}
	return b.String()
}

// ended says how the command ended, and after which time.
func (r ExecResult) ended() string {
	return ending(r.Status, r.ExitCode, r.Signal) + " · " + took(r.took)
}

// verdict is the first line of a text in which lines of ours follow.
func (r ExecResult) verdict(blocks int) string {
	s := r.ended()
	if blocks == 0 || r.Screen != "" || r.binary != "" || r.Truncated && !r.builtIn() || r.Status == sandbox.Running {
		s += " · " + r.extent()
	}
	if r.Truncated && (r.binary == "" || r.OmittedLines > 0) {
		s += fmt.Sprintf(" · truncated: %s, %s left out", excerpt.Count(r.OmittedLines, "line"), excerpt.Count(r.OmittedBytes, "byte"))
		if r.LogPath != "" {
			s += " · log " + r.LogPath
		}
	}
	return s
}

// facts are the lines of ours below the verdict: what the next step needs besides the output.
func (r ExecResult) facts() string {
	var b strings.Builder
	switch {
	case r.SummaryBy != "":
		fact(&b, "summary ("+r.SummaryBy+")", indented(r.Summary))
	case r.builtIn():
		fact(&b, "summary", indented(r.Summary))
	}
	if r.Status == sandbox.Running {
		fact(&b, "code", r.Code) // that its box does not respond; other codes follow from the verdict
	}
	fact(&b, "still running", procNames(r.Leftover, max(0, r.LeftoverCount-len(r.Leftover))))
	fact(&b, "hint", r.Hint)
	if r.Log != nil {
		fact(&b, "log incomplete", r.Log.sentence())
	}
	return b.String()
}

// builtIn reports whether the summary is that of the built-in summariser, which begins with the
// number of lines.
func (r *ExecResult) builtIn() bool { return r.digested && r.SummaryBy == "" }

// indented indents the text of a box: lines of ours begin at the margin.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// A block is a part of the output with the name of its stream.
type block struct{ name, text string }

// blocks returns the output as it is shown: both streams by arrival, or one block for each that
// is not empty.
func (r ExecResult) blocks() (list []block) {
	if r.both != "" {
		return []block{{"stdout and stderr", r.both}}
	}
	for _, x := range []block{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		if x.text != "" {
			list = append(list, x)
		}
	}
	return list
}

// write writes the text of a block as whole lines.
func (x block) write(b *strings.Builder) {
	b.WriteString(x.text)
	if midLine(x.text) {
		b.WriteByte('\n')
	}
}

// procNames names processes, and counts more that it does not name.
func procNames(procs []sandbox.Proc, more int) string {
	var list []string
	for _, p := range procs {
		list = append(list, fmt.Sprintf("%s (pid %d)", strconv.Quote(p.Name), p.Pid))
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
