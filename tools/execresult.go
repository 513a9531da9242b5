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

// ExecResult says how a command ended. Status, ExitCode and Signal come from the kernel.
type ExecResult struct {
	Status        sandbox.Status `json:"status"`
	ExitCode      *int           `json:"exitCode,omitempty"` // nil if the command did not end by itself
	Signal        string         `json:"signal,omitempty"`
	Code          string         `json:"code,omitempty"` // "" for success
	Summary       string         `json:"summary"`
	SummaryBy     string         `json:"summaryBy"`
	Hint          string         `json:"hint,omitempty"`
	DurationMs    int64          `json:"durationMs"`
	ContainerID   string         `json:"containerId"`
	ExecID        string         `json:"execId"`
	LogPath       string         `json:"logPath,omitempty"`
	Log           *LogGap        `json:"log,omitempty"`      // nil if the log is complete
	Leftover      []sandbox.Proc `json:"leftover,omitempty"` // some of the processes that still run
	LeftoverCount int            `json:"leftoverCount,omitempty"`
	Changed       []string       `json:"changed,omitempty"` // paths of the workspace that the host may run
	ShownOutput

	took     time.Duration
	digested bool            // the summary was made from the whole output
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
	"error":{"type":"string"}
	},"anyOf":[{"required":["status","summary","execId","stdout","stderr"]},{"required":["error","code"]}],"additionalProperties":false}`

// newExecResult returns the result of a run without its output. The exit was read before, so
// that the output of a run that has ended is complete.
func newExecResult(ctx context.Context, run *sandbox.Run, exit sandbox.Exit) ExecResult {
	r := ExecResult{
		Status: exit.Status, Signal: exit.Signal, Code: codeOf(exit), took: exit.Took, DurationMs: exit.Took.Milliseconds(),
		ExitCode: exitCode(exit), ContainerID: run.Box.ID, ExecID: run.ID, LogPath: run.LogPath(),
		Leftover: inertNames(exit.Leftover), LeftoverCount: len(exit.Leftover) + exit.More,
	}
	log := run.LogStats()
	if !log.Complete {
		r.Log = &LogGap{LostBytes: log.Lost, Reason: log.Reason}
	}
	r.Hint = strings.Join(execHints(ctx, run, exit), " ")
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

// shortSummary is the summary of an output that is shown whole or still grows: how the command
// ended, and the last line that it printed.
func (r *ExecResult) shortSummary() string {
	from, line := "stdout", lastLine(r.Stdout)
	if e := lastLine(r.Stderr); e != "" && (r.Code != "" || line == "") {
		from, line = "stderr", e
	}
	end := ending(r.Status, r.ExitCode, r.Signal)
	if line == "" {
		return end + "; no output"
	}
	return fmt.Sprintf("%s; last line of %s: %s", end, from, strconv.Quote(excerpt.ClipRunes(line, 200)))
}

// Text renders the whole result as text. The first line is the verdict. The output comes last,
// each stream below a header with the id of the run and the number of lines that follow: a
// command knows neither.
func (r ExecResult) Text() string {
	var b strings.Builder
	b.WriteString(r.verdict() + "\n")
	fact(&b, "summary ("+r.SummaryBy+")", indented(r.Summary))
	fact(&b, "code", r.Code)
	fact(&b, "hint", r.Hint)
	fact(&b, "still running", procNames(r.Leftover, r.LeftoverCount-len(r.Leftover)))
	if r.Log != nil {
		fact(&b, "log incomplete", r.Log.sentence())
	}
	fmt.Fprintf(&b, "containerId: %s · execId: %s\n", r.ContainerID, r.ExecID)
	r.section(&b, "stdout", r.Stdout)
	r.section(&b, "stderr", r.Stderr)
	return b.String()
}

// indented indents the text of a box: lines of ours begin at the margin.
func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// verdict is the first line of the text.
func (r ExecResult) verdict() string {
	parts := []string{ending(r.Status, r.ExitCode, r.Signal), took(r.took), "no output"}
	if r.lines > 0 {
		parts[2] = excerpt.Count(r.lines, "line")
	}
	if r.Status == sandbox.Running {
		parts[2] += " so far"
	}
	if r.Truncated {
		parts = append(parts, fmt.Sprintf("truncated: %s, %s left out",
			excerpt.Count(r.OmittedLines, "line"), excerpt.Count(r.OmittedBytes, "byte")))
	}
	if r.LogPath != "" {
		parts = append(parts, "log "+r.LogPath)
	}
	return strings.Join(parts, " · ")
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

// section writes a stream below its header.
func (r ExecResult) section(b *strings.Builder, name, text string) {
	if text == "" {
		return
	}
	end := ""
	if midLine(text) {
		end = "\n"
	}
	lines := int64(strings.Count(text, "\n") + len(end))
	fmt.Fprintf(b, "--- %s of %s: the next %s, %s ---\n%s%s", name, r.ExecID,
		excerpt.Count(lines, "line"), excerpt.Count(int64(len(text)), "byte"), text, end)
}
