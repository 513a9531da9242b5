package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/shellquote"
	"github.com/warmbox/warmbox/tools"
)

func execCommand() Command {
	var asJSON bool
	return Command{
		Name: "exec", Arguments: "-- CMD…",
		Short: "runs one command in a box, and prints what a model would read",
		Long: "Runs one command in a box of its own, as a model's call does, and prints the text that the model would\n" +
			"receive. One argument is a shell command line; several are a program and its arguments. Standard input is\n" +
			"passed on unless it is a terminal.\n\n" +
			"  warmbox exec -- 'ls | wc -l'\n" +
			"  warmbox exec --workspace . -- go test ./...\n\n" +
			"It exits with the exit code of the command, or with 128 plus the number of the signal that ended it. It exits\n" +
			"with 124 if the command exceeded its time limit, and with 125 if it could not be run to its end.",
		Flags: func(fs *flag.FlagSet) {
			fs.BoolVar(&asJSON, "json", false, "print the structured result instead of the text")
		},
		Run: func(ctx context.Context, c *Call) error {
			if len(c.Args) == 0 {
				return Usagef("exec needs a command after its flags")
			}
			result, err := execOnce(ctx, c)
			if err != nil {
				return &codeError{exitExec, c.execFailure(err, asJSON)}
			}
			if err := printResult(c.Stdout, result, asJSON); err != nil {
				return &codeError{exitExec, err}
			}
			return exitCode(result)
		},
	}
}

func execOnce(ctx context.Context, c *Call) (tools.ExecResult, error) {
	c.warnOfVariables()
	var changes delayedChanges
	log := c.Log
	if c.Config.Log.File == "" {
		log = slog.New(changesHandler{c.Log.Handler(), &changes})
	}
	manager, err := newManager(c.Config, log)
	if err != nil {
		return tools.ExecResult{}, err
	}
	defer signOff(manager)
	defer manager.Close()
	// The box is started before the command, to print the progress of a slow start.
	progress := func(line string) { fmt.Fprintln(c.Stderr, line) }
	if _, err := manager.DefaultBox(ctx, sandbox.Owner{}, progress); err != nil {
		return tools.ExecResult{}, err
	}
	set, err := newTools(c.Config, manager, c.Log)
	if err != nil {
		return tools.ExecResult{}, err
	}
	// No later call can ask for a command that still runs, so this one waits for its
	// end.
	set.Wait = time.Duration(c.Config.Exec.Timeout) + time.Minute
	r, err := set.Exec(ctx, sandbox.Owner{}, tools.ExecArgs{Cmd: commandLine(c.Args)}, c.passedInput())
	changes.release(len(r.Changed) == 0)
	return r, err
}

// delayedChanges holds back the log lines about changed files. The result reports the
// same changes to the same user, so the lines are written only if it does not.
type delayedChanges struct {
	mu       sync.Mutex
	released bool
	lines    []func() error
}

// release writes the lines, or drops them. Later lines are written at once.
func (d *delayedChanges) release(write bool) {
	d.mu.Lock()
	lines := d.lines
	d.released, d.lines = true, nil
	d.mu.Unlock()
	for _, line := range lines {
		if write {
			line()
		}
	}
}

// hold reports whether it holds a line back.
func (d *delayedChanges) hold(line func() error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.released {
		d.lines = append(d.lines, line)
	}
	return !d.released
}

// A changesHandler passes log lines on, those about changed files through changes.
type changesHandler struct {
	slog.Handler
	changes *delayedChanges
}

func (h changesHandler) Handle(ctx context.Context, r slog.Record) error {
	line := func() error { return h.Handler.Handle(ctx, r) }
	if r.Message == sandbox.ChangesMessage && h.changes.hold(line) {
		return nil
	}
	return line()
}

func (h changesHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return changesHandler{h.Handler.WithAttrs(attrs), h.changes}
}

func (h changesHandler) WithGroup(name string) slog.Handler {
	return changesHandler{h.Handler.WithGroup(name), h.changes}
}

// execFailure returns the error to print. With --json it prints the error in the form
// that a model receives, and returns nil.
func (c *Call) execFailure(err error, asJSON bool) error {
	if !asJSON {
		return err
	}
	return printJSON(c.Stdout, tools.FailureOf(err))
}

func (c *Call) passedInput() io.Reader {
	if IsTerminal(c.Stdin) {
		return nil
	}
	return c.Stdin
}

func printResult(w io.Writer, r tools.ExecResult, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	_, err := io.WriteString(w, strings.TrimSuffix(r.Text(), "\n")+"\n")
	return err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// exitCode makes the program exit with the code of the command.
func exitCode(r tools.ExecResult) error {
	code := exitExec
	switch {
	case r.Status == sandbox.TimedOut:
		code = exitTimedOut
	case r.ExitCode != nil:
		code = *r.ExitCode
	}
	if code == 0 {
		return nil
	}
	return &codeError{code: code}
}

// commandLine returns a shell command line. A single word is one already.
func commandLine(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return shellquote.Line(words)
}
