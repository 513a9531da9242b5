package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
)

// answerWait is how long a call waits by default for what the command prints after its input.
const answerWait = 2 * time.Second

func inputTool() mcp.Tool {
	return mcp.Tool{
		Name: "input",
		Description: `Write to the stdin of a running command (background or tty), end it (eof), send its whole process tree a signal, or resize its terminal. ` +
			`Returns what it prints then, as logs does.`,
		RawInputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{
			"execId":{"type":"string"},
			"text":{"type":"string","description":"with \\n where Enter is meant"},
			"eof":{"type":"boolean"},
			"signal":{"enum":["INT","TERM","KILL","HUP","USR1"]},
			"cols":{"type":"integer"},
			"rows":{"type":"integer"},
			"waitSeconds":{"type":"number","minimum":0,"maximum":%v,"description":"for output, default %v"}
			},"required":["execId"],"additionalProperties":false}`, maxWait.Seconds(), answerWait.Seconds())),
		RawOutputSchema: json.RawMessage(logsOutput),
		Annotations:     hints("Answer a command", true, true),
	}
}

type inputArgs struct {
	execID, text, signal string
	eof                  bool
	cols, rows           *int
	waitSeconds          *float64
}

func (a *inputArgs) params() []param {
	return []param{
		{"execId", &a.execID}, {"text", &a.text}, {"eof", &a.eof}, {"signal", &a.signal},
		{"cols", &a.cols}, {"rows", &a.rows}, {"waitSeconds", &a.waitSeconds},
	}
}

func (a *inputArgs) check() error {
	switch {
	case a.execID == "":
		return invalid("exec returns an execId; the tool list shows those of running commands.", "input needs the argument execId")
	case a.text == "" && !a.eof && a.signal == "" && a.cols == nil && a.rows == nil:
		return invalid("Give text, eof, signal, or cols and rows. To wait for output without sending, use logs with waitSeconds.", "input for %s has nothing to send", quote(a.execID))
	case (a.cols == nil) != (a.rows == nil):
		return invalid("Give both, or neither.", "cols and rows must be given together")
	}
	if w := a.waitSeconds; w != nil && !(*w >= 0 && *w <= maxWait.Seconds()) {
		return invalid("", "waitSeconds must be between 0 and %v, got %v", maxWait.Seconds(), *w)
	}
	return nil
}

func (s *Set) handleInput(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args inputArgs
	err := parse(req, args.params())
	if err == nil {
		err = args.check()
	}
	if err != nil {
		return Failed(err), nil
	}
	owner := s.owner(ctx)
	var r logsResult
	err = s.findReattached(ctx, owner, func() (err error) {
		r, err = s.input(ctx, owner, args, progressOf(ctx, req))
		return err
	})
	if err != nil {
		return Failed(err), nil
	}
	return reply(r, r.text()), nil
}

// input sends what the arguments say and returns the output that comes after it.
func (s *Set) input(ctx context.Context, owner sandbox.Owner, args inputArgs, progress func(string)) (logsResult, error) {
	id := clip(args.execID)
	run, err := s.Manager.Run(owner, id)
	if err != nil {
		return logsResult{}, err
	}
	before, err := s.lines(ctx, owner, id, sandbox.LineQuery{Most: 1, Bytes: pageBytes})
	if err != nil {
		return logsResult{}, err
	}
	wait := s.waitLimit(ctx, args.waitSeconds, answerWait)
	if err := send(ctx, run, args, max(wait, answerWait)); err != nil {
		return logsResult{}, err
	}
	if run.Command.TTY != nil {
		awaitQuiet(ctx, run, printed{before.Bytes, strings.Count(args.text, "\n")}, wait, progress)
		wait = 0
	}
	r, err := s.answer(ctx, owner, before, wait, progress)
	if err == nil {
		r.look(run, false)
	}
	return r, err
}

// send sends what the arguments say, in the order in which a person would.
func send(ctx context.Context, run *sandbox.Run, args inputArgs, limit time.Duration) error {
	if args.cols != nil {
		if err := run.Resize(*args.cols, *args.rows); err != nil {
			return err
		}
	}
	if args.text != "" {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if err := run.Input(ctx, []byte(args.text)); err != nil {
			return err
		}
	}
	if args.eof {
		if err := run.CloseInput(); err != nil {
			return err
		}
	}
	if args.signal != "" {
		return run.Signal(strings.TrimPrefix(args.signal, "SIG"))
	}
	return nil
}

// answer waits until the command has printed something and the burst is over, or until it has
// ended, and returns the new output.
func (s *Set) answer(ctx context.Context, owner sandbox.Owner, before sandbox.Lines, wait time.Duration, progress func(string)) (logsResult, error) {
	id := before.Record.ID
	q := sandbox.LineQuery{From: before.Page.Next, Most: pageLines, Bytes: pageBytes}
	deadline, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		record, err := s.Manager.Record(owner, id)
		if err != nil {
			return logsResult{}, err
		}
		printed := record.Log.Bytes > before.Bytes || record.Exit.Status != before.Record.Exit.Status
		if !printed && record.Changed != nil && awaitChange(deadline, record, progress) {
			continue
		}
		if printed {
			s.collect(deadline, owner, id, record.Exit.Status)
		}
		v, err := s.lines(ctx, owner, id, q)
		if err != nil {
			return logsResult{}, err
		}
		return newLogsResult(v, q), nil
	}
}
