package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

const (
	// maxWait is the longest wait of a call. No host lets a call run longer.
	maxWait = 600 * time.Second

	// maxTimeout is the longest timeout of a command: enough for a night's work.
	maxTimeout = 24 * time.Hour

	// maxWorkdir is the maximum length of a path on Linux, in bytes (PATH_MAX).
	maxWorkdir = 4096

	// killWait is how long a cancelled call waits for its command to die. The
	// sandbox ends the whole box before that, if nothing else helps.
	killWait = 15 * time.Second
)

func (s *Set) execTool() mcp.Tool {
	return mcp.Tool{
		Name: "exec",
		Description: `Run a shell command in your Linux sandbox container and return exit code, summary and output. ` +
			`One call is enough: without containerId your own container is started if need be. ` +
			`Files stay for the next command; shell state (cd, export) only within one named shell. ` +
			`No network unless the owner of the sandbox allowed it. ` +
			`Of a long output you get a summary and an excerpt; logs reads or searches all of it, so do not run a command again to see more. ` +
			`After waitSeconds a command is not killed: status "running", it goes on, follow it with logs; timeoutSeconds kills.`,
		RawInputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{
			"cmd":{"type":"string","description":"for the shell"},
			"containerId":{"type":"string","description":"of start; default: your own container"},
			"workdir":{"type":"string","description":"default: the workspace"},
			"env":{"type":"object","additionalProperties":{"type":"string"}},
			"stdin":{"type":"string"},
			"waitSeconds":{"type":"number","minimum":0,"maximum":%v,"description":"default %v; 0 returns at once"},
			"timeoutSeconds":{"type":"number","exclusiveMinimum":0,"maximum":%v,"description":"default %v"},
			"maxBytes":{"type":"integer","minimum":1,"maximum":%d,"description":"of output to show, default %d"},
			"want":{"type":"string","description":"words that you look for, at most 100 characters: a long output shows lines with them, after the first failures"},
			"background":{"type":"boolean","description":"do not wait for its end; no timeout, stdin open for input"},
			"tty":{"type":"boolean","description":"give it a terminal, 80x24 unless cols and rows say, with stdin open for input"},
			"cols":{"type":"integer"},
			"rows":{"type":"integer"},
			"shell":{"type":"string","description":"name of a shell that keeps directory, variables and functions from call to call"}
			},"required":["cmd"],"additionalProperties":false}`,
			maxWait.Seconds(), s.wait().Seconds(), maxTimeout.Seconds(), s.timeout().Seconds(), s.maxBytes(), s.limits(nil).Whole)),
		RawOutputSchema: json.RawMessage(execOutput),
		Annotations:     hints("Run a command", true, true),
		Meta:            &mcp.Meta{AdditionalFields: map[string]any{"anthropic/maxResultSizeChars": maxResult, alwaysLoad: true}},
	}
}

// ExecArgs are the arguments of exec. A nil or empty one means the default.
type ExecArgs struct {
	Cmd            string
	ContainerID    string // empty: the owner's default box, which is started if it does not run
	Workdir        string // relative to the directory of the box
	Env            map[string]string
	Stdin          string
	WaitSeconds    *float64
	TimeoutSeconds *float64
	MaxBytes       *int
	Want           string // what the summary should show first
	Background     bool   // the call waits for first output only; no timeout unless TimeoutSeconds is given
	TTY            bool   // with a terminal of Cols and Rows
	Cols, Rows     *int   // nil: 80 and 24
	Shell          string // the name of the shell that it runs in; empty: a new shell
}

// An execCall is a call of exec.
type execCall struct {
	ExecArgs
	ask      bool             // ask the user to approve a command that the allowlist lacks
	follows  bool             // the caller can call again to follow a command that runs on
	approval sandbox.Approval // that the user gave in an earlier call
}

func (a *ExecArgs) params() []param {
	return []param{
		{"cmd", &a.Cmd}, {"containerId", &a.ContainerID}, {"workdir", &a.Workdir}, {"env", &a.Env}, {"stdin", &a.Stdin},
		{"waitSeconds", &a.WaitSeconds}, {"timeoutSeconds", &a.TimeoutSeconds}, {"maxBytes", &a.MaxBytes}, {"want", &a.Want},
		{"background", &a.Background}, {"tty", &a.TTY}, {"cols", &a.Cols}, {"rows", &a.Rows}, {"shell", &a.Shell},
	}
}

// check checks the arguments that are not part of the command; sandbox.Command.Check checks
// those.
func (a *ExecArgs) check(maxBytes int) error {
	if len(a.Workdir) > maxWorkdir {
		return invalid("", "workdir has %d bytes, and a path has at most %d", len(a.Workdir), maxWorkdir)
	}
	if w := a.WaitSeconds; w != nil && !(*w >= 0 && *w <= maxWait.Seconds()) {
		return invalid("The command continues after the call returns; to wait longer, call logs with waitSeconds.",
			"waitSeconds must be between 0 and %v, got %v", maxWait.Seconds(), *w)
	}
	if t := a.TimeoutSeconds; t != nil && !(*t > 0 && *t <= maxTimeout.Seconds()) {
		return invalid("Leave it out for the default.", "timeoutSeconds must be above 0 and at most %v, got %v", maxTimeout.Seconds(), *t)
	}
	if n := a.MaxBytes; n != nil && (*n < 1 || *n > maxBytes) {
		return invalid("The file at logPath contains all of the output.", "maxBytes must be between 1 and %d, got %d", maxBytes, *n)
	}
	if !a.TTY && (a.Cols != nil || a.Rows != nil) {
		return invalid("Add tty: true, or leave cols and rows out.", "cols and rows are the size of a terminal, which needs tty")
	}
	return nil
}

// size returns the size of the command's terminal, nil without tty.
func (a *ExecArgs) size() *sandbox.Size {
	if !a.TTY {
		return nil
	}
	size := sandbox.Size{Cols: 80, Rows: 24}
	if a.Cols != nil {
		size.Cols = *a.Cols
	}
	if a.Rows != nil {
		size.Rows = *a.Rows
	}
	return &size
}

// handleExec serves a call of exec, or one that brings the answer to a question.
func (s *Set) handleExec(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	owner := s.owner(ctx)
	if brings(req) {
		return s.handleAnswer(ctx, owner, req), nil
	}
	call := execCall{ask: true, follows: true}
	if err := parse(req, call.params()); err != nil {
		return Failed(err), nil
	}
	return s.execAsking(ctx, owner, req, call), nil
}

// handleAnswer continues a call after the client answered a question: to its user before a
// command ran, or to its model afterwards.
func (s *Set) handleAnswer(ctx context.Context, owner sandbox.Owner, req mcp.CallToolRequest) *mcp.CallToolResult {
	if q, ok := s.questions.claim(owner, req.Params.RequestState); ok {
		call, err := q.approved(req.Params.InputResponses)
		if err != nil {
			return Failed(err)
		}
		return s.execAsking(ctx, owner, req, call)
	}
	r, err := s.answered(owner, req)
	if err != nil {
		return Failed(err)
	}
	return execReply(ctx, r)
}

// execAsking runs a command. The reply is its result, or a question that the client has to
// answer first.
func (s *Set) execAsking(ctx context.Context, owner sandbox.Owner, req mcp.CallToolRequest, call execCall) *mcp.CallToolResult {
	r, err := s.exec(ctx, owner, call, nil, progressOf(ctx, req))
	if q, ok := errors.AsType[*question](err); ok {
		return s.replyWithQuestion(owner, q)
	}
	if err != nil {
		return Failed(err)
	}
	if question := s.replyWithSampling(owner, r); question != nil {
		return question
	}
	return execReply(ctx, r)
}

// execReply renders a result, with a hint and a link to the rest of the output.
func execReply(ctx context.Context, r ExecResult) *mcp.CallToolResult {
	r.Hint = strings.TrimSpace(r.Hint + " " + r.readOn())
	res := reply(r, r.Text())
	addLink(ctx, res, r)
	return res
}

// Exec runs a command for an owner and waits for it as long as Wait or the arguments say. A
// stdin that is not nil replaces that of the arguments. The command is killed when ctx ends.
// An error means that no command ran; the result of one that ran says how it ended.
func (s *Set) Exec(ctx context.Context, owner sandbox.Owner, args ExecArgs, stdin io.Reader) (ExecResult, error) {
	return s.exec(ctx, owner, execCall{ExecArgs: args}, stdin, nil)
}

func (s *Set) exec(ctx context.Context, owner sandbox.Owner, args execCall, stdin io.Reader, progress func(string)) (ExecResult, error) {
	if err := args.check(s.maxBytes()); err != nil {
		return ExecResult{}, err
	}
	limits := s.limits(args.MaxBytes)
	run, err := s.begin(ctx, owner, args, s.command(args, stdin, limits), progress)
	if err != nil {
		return ExecResult{}, err
	}
	args.await(ctx, run, progress)
	if ctx.Err() != nil && !args.Background && !s.runsOn(ctx) {
		run.Kill()
		awaitDeath(run.Done())
	}
	exit := exitOf(run)
	s.logger().DebugContext(ctx, "command", "box", run.Box.ID, "exec", run.ID, "status", exit.Status, "code", exit.Code, "took", exit.Took)
	if exit.Status == sandbox.Exited && exit.Err != nil {
		return ExecResult{}, exit.Err
	}
	return s.result(ctx, owner, args, run, exit, limits), nil
}

// begin starts a command in the box of a call.
func (s *Set) begin(ctx context.Context, owner sandbox.Owner, args execCall, command sandbox.Command, progress func(string)) (*sandbox.Run, error) {
	wait := s.wait()
	if args.Background {
		wait = firstOutput
	}
	command.WaitLimit = s.waitLimit(ctx, args.WaitSeconds, wait)
	if err := command.Check(); err != nil {
		return nil, err
	}
	box, err := s.box(ctx, owner, args.ContainerID, progress)
	if err != nil {
		return nil, err
	}
	command.Dir = inContainer(box, command.Dir)
	if args.ask && s.Ask > 0 {
		command.Approve = func(ctx context.Context, denial error) (sandbox.Approval, error) {
			return s.askUser(ctx, box, args, denial, progress)
		}
	}
	return box.Exec(ctx, command)
}

// inContainer returns the directory of a box that a directory of the user's machine is seen as, or
// the directory itself: a model knows the paths of its user.
func inContainer(box *sandbox.Box, dir string) string {
	host := box.Place.Workspace
	if rest, ok := strings.CutPrefix(dir, host); ok && host != "" && (rest == "" || rest[0] == '/') {
		return box.Place.Dir + rest
	}
	return dir
}

// result returns what a call says of its command.
func (s *Set) result(ctx context.Context, owner sandbox.Owner, args execCall, run *sandbox.Run, exit sandbox.Exit, limits excerpt.Limits) ExecResult {
	r := s.newExecResult(ctx, run, exit)
	if args.follows {
		r.Room = s.room(owner, run.Box)
		if exit.Status == sandbox.Running {
			s.told.follow(owner, run)
		}
	}
	r.Hint = strings.TrimSpace(approvalHint(run.Command.Approval) + " " + r.Hint)
	if args.ContainerID == "" {
		r.hint(replacedHint(s.Manager.ClaimReplaced(owner))...)
	}
	if dir := run.Command.Dir; dir != args.Workdir {
		r.hint(workspaceHint(run.Box))
	}
	changes := run.Box.Changes(changesWait(exit, args.follows))
	r.Changed = changedPaths(changes)
	r.hint(s.changedHint(owner, run.ID, changes)...)
	s.summarize(ctx, run, &r)
	output := func(l excerpt.Limits) (stdout, stderr excerpt.Excerpt) { return run.Excerpt(ctx, l) }
	r.fit(output, limits)
	if hints := s.deadEnds(owner, args.follows, run, exit, &r); len(hints) > 0 {
		r.hint(hints...)
		r.fit(output, limits)
	}
	if args.follows {
		r.look(run, limits)
	}
	r.interleave(run)
	return r
}

// box returns the box of an id, "" for the owner's default one.
func (s *Set) box(ctx context.Context, owner sandbox.Owner, id string, progress func(string)) (*sandbox.Box, error) {
	if id == "" {
		return s.Manager.DefaultBox(ctx, owner, progress)
	}
	var box *sandbox.Box
	err := s.findReattached(ctx, owner, func() (err error) {
		box, err = s.Manager.Box(owner, clip(id))
		return err
	})
	return box, err
}

// command returns the command of a call.
func (s *Set) command(args execCall, stdin io.Reader, limits excerpt.Limits) sandbox.Command {
	if stdin == nil && args.Stdin != "" {
		stdin = strings.NewReader(args.Stdin)
	}
	timeout := s.timeout()
	if args.Background {
		timeout = 0
	}
	if args.TimeoutSeconds != nil {
		timeout = max(seconds(*args.TimeoutSeconds), time.Nanosecond)
	}
	return sandbox.Command{
		Cmd: args.Cmd, Dir: args.Workdir, Env: args.Env, Stdin: stdin, Timeout: timeout,
		Interactive: args.TTY || args.Background && stdin == nil, TTY: args.size(), Shell: args.Shell,
		ExcerptSize: max(sandbox.DefaultExcerptSize, limits.Whole, limits.Cut), SummarizeAbove: s.whole(limits), Want: args.Want,
		Approval: args.approval,
	}
}

// whole is how much output needs no summary.
func (s *Set) whole(limits excerpt.Limits) int {
	if s.Terse {
		return 0
	}
	return limits.Whole
}

// ErrDisconnected is the cause of a call's context if its client disconnected, rather than
// cancelled the call.
var ErrDisconnected = errors.New("the client disconnected")

// runsOn reports whether the command of a call that has ended runs on.
func (s *Set) runsOn(ctx context.Context) bool {
	return s.RunOn && errors.Is(context.Cause(ctx), ErrDisconnected)
}

// await returns when the command has ended, the wait is over, or the call has ended. For a
// caller that can follow the command it also returns when the box does not respond, and when
// the command is silent after output.
func (a *execCall) await(ctx context.Context, run *sandbox.Run, progress func(string)) {
	wait := run.Command.WaitLimit
	var silent <-chan struct{}
	if a.follows && wait > 0 {
		var done func()
		silent, done = run.Box.Monitor()
		defer done()
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	beat := time.NewTimer(firstProgress)
	defer beat.Stop()
	var q quiet
	if silence := a.silence(); silence > 0 && wait > 0 {
		q = quietFrom(run, 0, silence)
		defer func() { q.stop() }()
	}
	for {
		select {
		case <-run.Done():
			return
		case <-q.changed:
			q.restart()
		case <-q.over:
			return
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		case <-silent:
			return
		case <-beat.C:
			if progress != nil {
				progress(progressLine(run))
				beat.Reset(nextProgress)
			}
		}
	}
}

// silence is how long the command may print nothing after some output until the call returns; 0:
// for ever. At a terminal it then waits for input. In the background it has started.
func (a *execCall) silence() time.Duration {
	switch {
	case !a.follows:
		return 0
	case a.TTY:
		return quietTime
	case a.Background && a.WaitSeconds == nil:
		return quietStart
	}
	return 0
}

// exitOf returns the exit of a command. That of a running one has an error if its box does not
// respond.
func exitOf(run *sandbox.Run) sandbox.Exit {
	exit := run.Exit()
	if exit.Status == sandbox.Running && exit.Err == nil {
		exit.Err = run.Box.Unresponsive()
	}
	return exit
}

// awaitDeath waits until a killed command is dead, but not longer than killWait.
func awaitDeath(dead <-chan struct{}) {
	limit := time.NewTimer(killWait)
	defer limit.Stop()
	select {
	case <-dead:
	case <-limit.C:
	}
}

// progressLine is the text of a progress notification: the last line that the command printed.
func progressLine(run *sandbox.Run) string {
	const room = 1000
	stdout, stderr := run.Output(excerpt.Limits{Whole: room, Cut: room})
	if line := lastLine(stdout.Text); line != "" {
		return excerpt.ClipRunes(line, 120)
	}
	return cmp.Or(excerpt.ClipRunes(lastLine(stderr.Text), 120), string(sandbox.Running))
}

// lastLine returns the last line of a text that is not empty, without the mark for overwritten
// text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(strings.TrimPrefix(text[strings.LastIndexByte(text, '\n')+1:], "␍"))
}
