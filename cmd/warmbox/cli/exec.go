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
		Short: "runs one command in a box, and prints what a model would see",
		Long: "Runs one command in a box of its own, the way that a model's call does, and prints the text that the model\n" +
			"would get. One word is a line for the shell; several are a program and its arguments. Standard input is passed\n" +
			"on unless it is a terminal.\n\n" +
			"  warmbox exec -- 'ls | wc -l'\n" +
			"  warmbox exec --workspace . -- go test ./...\n\n" +
			"It exits as the command does: with its code, or with 128 and the number of the signal that ended it. It exits\n" +
			"with 124 if the command took too long, and with 125 if it could not be run to its end.",
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
	var news heldNews
	log := c.Log
	if c.Config.Log.File == "" {
		log = slog.New(newsHolder{c.Log.Handler(), &news})
	}
	manager, err := newManager(c.Config, log)
	if err != nil {
		return tools.ExecResult{}, err
	}
	defer signOff(manager)
	defer manager.Close()
	// The box is started first, for somebody who looks on while it takes long.
	progress := func(line string) { fmt.Fprintln(c.Stderr, line) }
	if _, err := manager.DefaultBox(ctx, sandbox.Owner{}, progress); err != nil {
		return tools.ExecResult{}, err
	}
	set, err := newTools(c.Config, manager, c.Log)
	if err != nil {
		return tools.ExecResult{}, err
	}
	// Nobody asks again for a command that still runs, so this call waits for
	// its end.
	set.Wait = time.Duration(c.Config.Exec.Timeout) + time.Minute
	r, err := set.Exec(ctx, sandbox.Owner{}, tools.ExecArgs{Cmd: commandLine(c.Args)}, c.passedInput())
	news.release(len(r.Changed) == 0)
	return r, err
}

// heldNews are the lines of the log that tell of changed files. The result tells of
// them too, to the same person: they are held until it is known whether it does.
type heldNews struct {
	mu    sync.Mutex
	over  bool
	lines []func() error
}

// release writes what was held, or drops it. What comes later is written.
func (n *heldNews) release(write bool) {
	n.mu.Lock()
	lines := n.lines
	n.over, n.lines = true, nil
	n.mu.Unlock()
	for _, line := range lines {
		if write {
			line()
		}
	}
}

type newsHolder struct {
	slog.Handler
	news *heldNews
}

func (h newsHolder) Handle(ctx context.Context, r slog.Record) error {
	h.news.mu.Lock()
	hold := r.Message == sandbox.ChangesMessage && !h.news.over
	if hold {
		h.news.lines = append(h.news.lines, func() error { return h.Handler.Handle(ctx, r) })
	}
	h.news.mu.Unlock()
	if hold {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h newsHolder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return newsHolder{h.Handler.WithAttrs(attrs), h.news}
}

func (h newsHolder) WithGroup(name string) slog.Handler {
	return newsHolder{h.Handler.WithGroup(name), h.news}
}

// execFailure returns what is left to say about an error. A program that reads
// JSON gets that error as a model would, and nothing is left.
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

// exitCode makes the program end as the command did.
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

// commandLine makes one line for the shell of the words of a command.
func commandLine(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return shellquote.Line(words)
}
