package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmbox/warmbox/exectag"
	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/tools"
)

func filterCommand() Command {
	var guide, textOnly, asJSON bool
	return Command{
		Name:  "filter",
		Short: "runs the <exec COMMAND> tags of a model's text, and writes the text with the results",
		Long: "Reads the text of a language model on standard input, runs the command of each tag <exec COMMAND> in order in\n" +
			"one box, and writes the text with the result of each tag after it. Text and results are written as they come.\n" +
			"Each command has a new shell: cd and export do not carry over to the next tag.\n" +
			"It is for loops without MCP; `warmbox filter` has no state from one run to the next but the workspace.\n\n" +
			"  echo 'I look: <exec ls>' | warmbox filter --workspace .\n" +
			"  my-model < conversation | warmbox filter --guide\n\n" +
			"A tag is within one line. It is not run in a fenced block, in inline code, in a quoted line (> …), in a result\n" +
			"of an earlier tag, or if it is not closed or contains another one. A > in quotes does not end a tag, nor does a\n" +
			"redirection: <exec grep x f > out.txt>. A result contains no tag that would run.\n\n" +
			"It exits with 0 if it has processed the text, whatever the commands did, and with 125 if a command could not be\n" +
			"run because there was no box (DOCKER_UNAVAILABLE), or if a signal ended it before the end of the text.\n\n" +
			"The settings of --guide:\n\n" + guideSettings(),
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&guide, "guide", false, "use the defaults of llm-runtime's command execution guide, as listed above, instead of the configured ones; other flags override them")
			fs.BoolVar(&textOnly, "text-only", false, "write only the results, as text, without the model's own text: what a loop adds to its conversation; no output means that no tag is left")
			fs.BoolVar(&asJSON, "json", false, "write an object of JSON a line: of the kind text, result or error")
		},
		Preset: func() *preset {
			if !guide {
				return nil
			}
			return &preset{"--guide", guideValues}
		},
		Run: func(ctx context.Context, c *Call) error {
			out, err := newFilterOutput(c.Stdout, textOnly, asJSON)
			if err != nil {
				return err
			}
			return c.filter(ctx, out)
		},
	}
}

// guideValues are the defaults of llm-runtime's command execution guide, by the key of the
// setting.
var guideValues = map[string]string{
	"exec.timeout": "30s", "exec.memory": "512m", "exec.cpu": "2",
	"network": "none", "workspace": ".", "workspace_mode": "ro",
	"commands.allow": "go test,go build,go run,go mod tidy,npm test,npm run build,npm install,node," +
		"python,python3,python -m pytest,pip install,make,make test,make build,cargo build,cargo test,cargo run," +
		"ls,cat,grep,find,head,tail,wc",
}

// guideSettings are the settings of --guide for its help.
func guideSettings() string {
	var lines []string
	for _, s := range new(settings).table() {
		value, ok := guideValues[s.key]
		if _, many := s.to.(*[]string); many {
			value = "with these commands:\n" + wrapped(list(value), 100)
		}
		if ok {
			lines = append(lines, "  --"+s.flag+" "+value)
		}
	}
	return strings.Join(lines, "\n")
}

// A filter runs the commands of a text.
type filter struct {
	*Call
	manager *sandbox.Manager
	tools   *tools.Set
	out     filterOutput
	noBox   error // why a command had no box
}

func (c *Call) filter(ctx context.Context, out filterOutput) error {
	c.warnOfVariables()
	manager, err := newManager(c.Config, c.Log)
	if err != nil {
		return err
	}
	defer signOff(manager)
	defer manager.Close()
	set, err := newTools(c.Config, manager, c.Log)
	if err != nil {
		return err
	}
	set.Wait = time.Duration(c.Config.Exec.Timeout) + time.Minute // no later call asks for a command
	set.Loop = true
	f := &filter{Call: c, manager: manager, tools: set, out: out}
	if err := f.process(ctx); err != nil {
		return err
	}
	if f.noBox != nil {
		return &codeError{exitExec, fmt.Errorf("there was no box for a command: %w", f.noBox)}
	}
	return nil
}

// process runs the tags of the text until it ends.
func (f *filter) process(ctx context.Context) error {
	var scanner exectag.Scanner
	for parts := f.read(ctx); ; {
		select {
		case <-ctx.Done():
			return interrupted()
		case part, ok := <-parts:
			switch {
			case !ok:
				return errors.Join(f.pieces(ctx, scanner.End()), f.out.end())
			case part.err != nil:
				return fmt.Errorf("read the text: %w", part.err)
			}
			if err := f.pieces(ctx, scanner.Feed(part.text)); err != nil {
				return err
			}
		}
	}
}

// textPart is a part of the text, or why it cannot be read on.
type textPart struct {
	text []byte
	err  error
}

// read sends the text as it comes, until it ends or ctx does. The goroutine that reads may
// outlast the call: nothing can end the read of a terminal or a pipe.
func (f *filter) read(ctx context.Context) <-chan textPart {
	parts := make(chan textPart)
	send := func(part textPart) (ok bool) {
		select {
		case parts <- part:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Stdin.Read(buf)
			if n > 0 && !send(textPart{text: bytes.Clone(buf[:n])}) {
				return
			}
			if errors.Is(err, io.EOF) {
				close(parts)
				return
			}
			if err != nil {
				send(textPart{err: err})
				return
			}
		}
	}()
	return parts
}

// interrupted is the error of a filter that a signal ended.
func interrupted() error {
	return &codeError{exitExec, errors.New("interrupted; the rest of the text was not processed")}
}

// pieces writes pieces of the text, and runs those that are tags.
func (f *filter) pieces(ctx context.Context, pieces []exectag.Piece) error {
	for _, p := range pieces {
		if err := f.out.text(p.Text); err != nil {
			return err
		}
		if p.Command == "" {
			continue
		}
		if err := f.out.result(f.run(ctx, p)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return interrupted()
		}
	}
	return nil
}

// run runs the command of a tag.
func (f *filter) run(ctx context.Context, p exectag.Piece) filterResult {
	r := filterResult{Command: f.manager.Mask(p.Command), tag: f.manager.Mask(p.Text)}
	if err := f.manager.Check(sandbox.Owner{}, sandbox.Command{Cmd: p.Command}); err != nil {
		return f.refused(r, exectag.ExecValidation, err)
	}
	progress := func(line string) { fmt.Fprintln(f.Stderr, line) }
	_, noBox := f.manager.DefaultBox(ctx, sandbox.Owner{}, progress)
	result, err := tools.ExecResult{}, noBox
	if noBox == nil {
		result, err = f.tools.Exec(ctx, sandbox.Owner{}, tools.ExecArgs{Cmd: p.Command}, nil)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return f.refused(r, exectag.ExecFailed, errors.New("interrupted: the command did not run"))
	case noBox != nil:
		f.noBox = noBox
		return f.refused(r, exectag.DockerUnavailable, noBox)
	case err != nil:
		return f.refused(r, exectag.ExecFailed, err)
	}
	r.show(result)
	if result.Truncated && result.LogPath != "" { // on a path that no command can read
		fmt.Fprintf(f.Stderr, "all output of the command %s is in %s\n", result.ExecID, result.LogPath)
	}
	if result.ExitCode == nil {
		f.unfinished(ctx, &r, result)
	}
	return r
}

// refused is the result of a command that did not run.
func (f *filter) refused(r filterResult, code string, err error) filterResult {
	why := tools.FailureOf(err)
	r.Kind, r.Code = "error", code
	r.Message, r.Hint = f.manager.Mask(why.Error), f.manager.Mask(why.Hint)
	return r
}

// unfinished completes the result of a command that has no exit code.
func (f *filter) unfinished(ctx context.Context, r *filterResult, result tools.ExecResult) {
	r.Kind, r.Code = "error", exectag.ExecFailed
	switch {
	case ctx.Err() != nil:
		r.Message = "interrupted: the command was killed, with every process that it had started"
	case result.Status == sandbox.TimedOut:
		r.Code = exectag.ExecTimeout
		r.Message = fmt.Sprintf("command timed out after %v", time.Duration(f.Config.Exec.Timeout))
	default:
		r.Message, r.Hint = "the command did not end by itself: "+string(result.Status), result.Hint
	}
}

// sentences joins two sentences, of which the second may be empty.
func sentences(first, second string) string {
	if second == "" {
		return first
	}
	return strings.TrimSuffix(first, ".") + ". " + second
}

// A filterResult is the result of a tag, and its form as JSON.
type filterResult struct {
	Kind         string   `json:"kind"` // "result", or "error" without an exit code
	Command      string   `json:"command"`
	ExitCode     *int     `json:"exitCode,omitempty"`
	Code         string   `json:"code,omitempty"`
	Message      string   `json:"message,omitempty"`
	Hint         string   `json:"hint,omitempty"`
	DurationMs   *int64   `json:"durationMs,omitempty"` // nil: it did not run
	Stdout       string   `json:"stdout,omitempty"`
	Stderr       string   `json:"stderr,omitempty"`
	OmittedBytes int64    `json:"omittedBytes,omitempty"` // of both streams
	OmittedLines int64    `json:"omittedLines,omitempty"`
	LogPath      string   `json:"logPath,omitempty"` // of all output, if some is omitted
	Notes        []string `json:"notes,omitempty"`

	tag string
}

// show sets what the command returned.
func (r *filterResult) show(x tools.ExecResult) {
	r.Kind, r.ExitCode, r.DurationMs = "result", x.ExitCode, &x.DurationMs
	r.Stdout, r.Stderr = x.Stdout, x.Stderr
	note := func(text string) { r.Notes = append(r.Notes, text) }
	if x.Truncated {
		r.OmittedBytes, r.OmittedLines, r.LogPath = x.OmittedBytes, x.OmittedLines, x.LogPath
		note(leftOut(x))
		note("Summary: " + x.Summary)
	}
	if x.Signal != "" && x.ExitCode != nil {
		note("A signal ended it: " + x.Signal + ".")
	}
	if n := max(x.LeftoverCount, len(x.Leftover)); n > 0 {
		var names []string
		for _, p := range x.Leftover {
			names = append(names, strconv.Quote(p.Name))
		}
		note(fmt.Sprintf("Still running: %s, such as %s.", excerpt.Count(int64(n), "process"), strings.Join(names, ", ")))
	}
	if x.Hint != "" && x.ExitCode != nil { // else it is in the message
		note(x.Hint)
	}
	if x.Log != nil {
		note(fmt.Sprintf("The log is not complete: %s are not in it (%s).", excerpt.Count(x.Log.LostBytes, "byte"), x.Log.Reason))
	}
}

// safe returns the result with text that has no tag.
func (r filterResult) safe() filterResult {
	for _, text := range []*string{&r.Command, &r.Message, &r.Hint, &r.Stdout, &r.Stderr} {
		*text = exectag.Safe(*text)
	}
	r.Notes = slices.Clone(r.Notes)
	for i := range r.Notes {
		r.Notes[i] = exectag.Safe(r.Notes[i])
	}
	return r
}

// leftOut says how much output is not shown, and how a model sees more of it.
func leftOut(x tools.ExecResult) string {
	text := "Left out of the output: "
	if x.OmittedLines > 0 {
		text += excerpt.Count(x.OmittedLines, "line") + ", "
	}
	text += excerpt.Count(x.OmittedBytes, "byte") + "."
	const again = " To see another part, run the command again with "
	switch {
	case x.OmittedLines > 0:
		text += again + "| grep TEXT or | head -n 400 | tail -n 200."
	case x.Stdout+x.Stderr != "": // a line that is cut; of binary output nothing is shown
		text += again + "| head -c 4000 | tail -c 2000."
	}
	return text
}

// block is the result in the guide's form.
func (r filterResult) block() string {
	out := exectag.Output{Stdout: r.Stdout, Stderr: r.Stderr, Notes: r.Notes}
	if r.Kind == "error" {
		message := r.Message
		if r.Code != exectag.ExecValidation { // whose form the guide gives to the byte
			message = sentences(message, r.Hint)
		}
		return exectag.Failure{Code: r.Code, Message: message, Tag: r.tag, Output: out}.String()
	}
	return exectag.Result{Command: r.Command, ExitCode: *r.ExitCode, Duration: time.Duration(*r.DurationMs) * time.Millisecond, Output: out}.String()
}
