package tools

import (
	"context"
	"encoding/json"
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

const (
	// maxResult bounds a result as JSON, both forms together. Hosts refuse or cut
	// larger ones.
	maxResult = 200 << 10

	// envelope is the size of the protocol's own parts, a link and the hint to the
	// rest of the output.
	envelope = 1 << 10

	// surelyFits is an amount of output that fits whatever it consists of: "<" is
	// written as \u003c, six bytes, in both forms.
	surelyFits = 15_000

	// maxLeftover is how many processes a result names. LeftoverCount counts all.
	maxLeftover = 10
)

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

// ShownOutput is what a result shows of the output of a command, made inert, and how much it
// omits.
type ShownOutput struct {
	Truncated    bool   `json:"truncated"`
	OmittedBytes int64  `json:"omittedBytes,omitempty"` // of both streams
	OmittedLines int64  `json:"omittedLines,omitempty"`
	Stdout       string `json:"stdout"`
	Stderr       string `json:"stderr"`

	lines int64 // of both streams
	shown int64 // bytes of both streams, before they were made inert
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

// readOn says how to read the output that the result does not show.
func (r *ExecResult) readOn() string {
	switch {
	case r.LogPath == "":
		return ""
	case r.Status == sandbox.Running:
		next := r.logged + 1
		if midLine(r.Stdout) || midLine(r.Stderr) {
			next = max(1, r.logged)
		}
		return fmt.Sprintf(`Follow it with logs {"execId": %q, "fromLine": %d, "waitSeconds": 45}.`, r.ExecID, next)
	case r.Truncated:
		return fmt.Sprintf(`Read the rest with logs {"execId": %q, "fromLine": 1}, or search it with grep.`, r.ExecID)
	}
	return ""
}

// midLine reports whether a text ends within a line.
func midLine(text string) bool { return text != "" && !strings.HasSuffix(text, "\n") }

// fit shows output within limits. If the result is too large as JSON, it shows less: first in
// proportion, and if the rest has more escapes than the whole, surelyFits.
func (r *ExecResult) fit(output func(excerpt.Limits) (stdout, stderr excerpt.Excerpt), l excerpt.Limits) {
	r.show(output(l))
	if r.shown <= surelyFits {
		return
	}
	const room = maxResult - envelope
	size := r.size()
	for _, n := range []int{int(r.shown) * (room - envelope) / size, surelyFits} {
		if size <= room {
			return
		}
		r.show(output(excerpt.Limits{Whole: n, Cut: n}))
		size = r.size()
	}
}

// size returns the size of both forms as JSON.
func (r *ExecResult) size() int {
	structured, _ := json.Marshal(r)
	text, _ := json.Marshal(r.Text())
	return len(structured) + len(text)
}

// show sets the output that the result shows.
func (r *ExecResult) show(stdout, stderr excerpt.Excerpt) {
	r.Stdout, r.Stderr = stdout.Text, stderr.Text
	r.lines = stdout.Lines + stderr.Lines
	r.OmittedBytes = stdout.OmittedBytes + stderr.OmittedBytes
	r.OmittedLines = stdout.OmittedLines + stderr.OmittedLines
	r.Truncated = r.OmittedBytes > 0
	r.shown = stdout.Bytes + stderr.Bytes - r.OmittedBytes
	if !r.digested {
		r.Summary = r.shortSummary()
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

// execHints are the sentences of a hint about a command.
func execHints(ctx context.Context, run *sandbox.Run, exit sandbox.Exit) []string {
	var list []string
	switch exit.Status {
	case sandbox.Running:
		if exit.Err != nil {
			list = append(list, lostHint(exit.Err))
		}
		list = append(list, runningHint(run.Command.Timeout))
	case sandbox.TimedOut:
		list = append(list, fmt.Sprintf("After %s the command was killed, with every process that it had started. Give a larger timeoutSeconds, or let the command do less at once.", took(run.Command.Timeout)))
	case sandbox.Killed:
		list = append(list, killedHint(ctx, run.Box, exit.Err))
	case sandbox.Lost:
		list = append(list, lostHint(exit.Err))
	case sandbox.Exited:
		if exit.Code == 127 {
			list = append(list, missingHint(run.Box.Place.Image))
		}
	}
	list = append(list, memoryHint(exit)...)
	if n := len(exit.Leftover) + exit.More; n > 0 {
		list = append(list, leftoverHint(n))
	}
	return append(list, shellHint(run.Command.Shell, exit.Shell)...)
}

// memoryHint reports a process that the kernel killed. The kernel counts those of a container,
// so the hint does not say whose process it was.
func memoryHint(exit sandbox.Exit) []string {
	kill := exit.MemoryKill
	if kill == nil {
		return nil
	}
	list := []string{"While the command ran, the kernel killed a process of this container because memory was short."}
	switch {
	case kill.Shared:
		list = append(list, "Other commands ran there at the same time: the process may have been theirs.")
	case exit.Status == sandbox.Exited:
		list = append(list, "The command succeeded all the same: check whether its result is complete.")
	}
	limit := "its limit"
	if kill.Limit > 0 {
		limit = "its limit of " + memory(kill.Limit)
	}
	return append(list, fmt.Sprintf("Use less, e.g. fewer parallel jobs, or have the owner raise %s (--exec-memory, or memory under [exec]).", limit))
}

// memory renders a memory limit in the units of the setting.
func memory(n int64) string {
	if n >= 1<<30 {
		return strconv.FormatFloat(float64(n)/(1<<30), 'g', 3, 64) + " GB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'g', 4, 64) + " MB"
}

// shellHint reports a named shell whose state is not that which the command left.
func shellHint(name, fate string) []string {
	switch fate {
	case sandbox.ShellKept:
		return []string{fmt.Sprintf("The shell %q has the same state as before this command. The state after it was not saved: the command was killed, it replaced the shell (exec), or the box has no room for the state (df /dev/shm).", name)}
	case sandbox.ShellLost:
		return []string{fmt.Sprintf("The state of the shell %q is lost: its directory, variables and functions.", name)}
	}
	return nil
}

func runningHint(timeout time.Duration) string {
	if timeout == 0 {
		return "The command continues until it ends, or until stop with its execId ends it."
	}
	return fmt.Sprintf("The command was not killed: it continues until it ends, at most %s in all (timeoutSeconds).", took(timeout))
}

func killedHint(ctx context.Context, box *sandbox.Box, why error) string {
	switch {
	case why != nil:
		return lostHint(why)
	case ctx.Err() != nil:
		return "The call was cancelled, so the command was killed, with every process that it had started."
	case box.Gone() != nil:
		return "Its container was stopped."
	}
	return "The command was stopped, with every process that it had started."
}

func lostHint(err error) string {
	f := FailureOf(err)
	return strings.TrimSpace(strings.TrimSuffix(f.Error, ".") + ". " + f.Hint)
}

func missingHint(image string) string {
	if image == "" {
		return "Exit code 127 mostly means that the command was not found in the PATH."
	}
	return fmt.Sprintf("Exit code 127 mostly means that the image %s does not have the command. Do without it, start a container with another image, or have the owner set another default (--image, or default under [images]).", image)
}

func leftoverHint(n int) string {
	if n == 1 {
		return "1 process that the command started is still running, and its output is added to the log; stop with this execId ends the process."
	}
	return fmt.Sprintf("%d processes that the command started are still running, and their output is added to the log; stop with this execId ends them.", n)
}
