// Package tools has the tools that a model can call: start, exec, logs, input, list and
// stop, over the boxes and the logs of one sandbox.Manager.
//
// It parses arguments strictly, with errors that a model can act on, waits for commands, and
// renders each result twice: as structured content and as text, because most hosts show their
// model only one of the two. Either has all that the next step needs, and is short where the
// host is known to show the other one; only the structured content has the rest. The output of
// a box comes last in the text, where it cannot look like a line of ours: all that follows a
// verdict which ends with the name of a stream, or a header with the id of the run, which the
// box does not know.
//
// The package starts no server and knows no transport. Boxes, runs and logs belong to the
// Manager, which masks secrets in all text that it returns. The caller leaves mcp-go's own
// validation of input off, whose errors would replace ours, and sets Set.Owner: the boxes
// of an owner do not exist for others.
package tools

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/summary"
)

const (
	// defaultWait is below the 60 s after which most hosts cancel a call.
	defaultWait = 45 * time.Second

	// defaultTimeout ends commands that hang, and lets builds and tests finish.
	defaultTimeout = 600 * time.Second

	// defaultMaxBytes is some 25,000 tokens, the limit of hosts for one result.
	defaultMaxBytes = 100_000

	// defaultWhole and defaultCut: an output of up to defaultWhole bytes is shown
	// whole, else defaultCut bytes of it, or up to defaultWhole if its failures need them.
	defaultWhole = 8000
	defaultCut   = 4000
)

// alwaysLoad is the key by which a tool asks Claude Code to show it to the model at once. Others are
// found by a search, which costs a turn.
const alwaysLoad = "anthropic/alwaysLoad"

// A Set is the tools over one Manager. It is used like http.Server: set its fields, then
// call.
type Set struct {
	Manager  *sandbox.Manager
	Owner    func(ctx context.Context) sandbox.Owner // returns the owner of a call; nil: all calls have one owner
	NoWait   func(ctx context.Context) bool          // reports whether a call must not wait for its command; nil: every call may
	Wait     time.Duration                           // how long exec waits by default; 0: 45 s
	Timeout  time.Duration                           // after which a command is killed by default; 0: 600 s
	Limits   excerpt.Limits                          // how much output a result shows by default; 0: 8000 whole, else about 4000
	MaxBytes int                                     // how much output a call may request; 0: 100,000
	Model    Model                                   // summarises instead of the built-in summariser; nil: none
	Sampler  Sampler                                 // summarises by the model of the calling client; nil: none
	Terse    bool                                    // no output is summarised
	Loop     bool                                    // the model has no tools, only commands that run one after the other: hints name no tool
	Ask      time.Duration                           // how long the user may take to approve a command that the allowlist lacks; 0: users are not asked
	RunOn    bool                                    // the commands of a client that disconnects run on; else its calls are cancelled
	Replies  Form                                    // which forms of a reply are whole; "": those that the client shows its model
	Logger   *slog.Logger                            // nil: nothing is logged

	results   *pending[ExecResult] // whose summary the client was asked for; made by Tools
	questions *pending[*question]  // to users; made by Tools
	told      sessions             // of what replies said
}

// A Model writes summaries instead of the built-in summariser, whose summary is used if the
// Model fails.
type Model interface {
	// Name identifies the author of a summary, such as "anthropic".
	Name() string
	// Summarize returns a checked summary. It limits its own duration.
	Summarize(ctx context.Context, d summary.Digest) (string, error)
}

// Tools returns the tools in the order in which a model should read them.
func (s *Set) Tools() []mcpserver.ServerTool {
	if s.results == nil {
		// Some clients fail a call if they refuse the question to their model. One
		// that has not answered is not asked again.
		s.results = &pending[ExecResult]{each: 1}
		s.questions = &pending[*question]{each: maxQuestions}
	}
	return s.informed([]mcpserver.ServerTool{
		{Tool: startTool(), Handler: s.masked(s.handleStart)},
		{Tool: s.execTool(), Handler: s.masked(s.handleExec)},
		{Tool: s.logsTool(), Handler: s.masked(s.handleLogs)},
		{Tool: inputTool(), Handler: s.masked(s.handleInput)},
		{Tool: listTool(), Handler: s.masked(s.handleList)},
		{Tool: stopTool(), Handler: s.masked(s.handleStop)},
	})
}

func (s *Set) owner(ctx context.Context) sandbox.Owner {
	if s.Owner == nil {
		return sandbox.Owner{}
	}
	return s.Owner(ctx)
}

func (s *Set) wait() time.Duration    { return cmp.Or(s.Wait, defaultWait) }
func (s *Set) timeout() time.Duration { return cmp.Or(s.Timeout, defaultTimeout) }
func (s *Set) maxBytes() int          { return cmp.Or(s.MaxBytes, defaultMaxBytes) }

// mustNotWait reports whether a call must not wait for its command.
func (s *Set) mustNotWait(ctx context.Context) bool { return s.NoWait != nil && s.NoWait(ctx) }

// waitLimit is how long a call waits for its command: the seconds that it requests, else the
// default.
func (s *Set) waitLimit(ctx context.Context, requested *float64, byDefault time.Duration) time.Duration {
	switch {
	case s.mustNotWait(ctx):
		return 0
	case requested != nil:
		return seconds(*requested)
	}
	return byDefault
}

// limits is how much output a result shows: the bytes that the call requests, else the
// default.
func (s *Set) limits(requested *int) excerpt.Limits {
	if requested != nil {
		return excerpt.Limits{Whole: *requested, Cut: *requested}
	}
	return excerpt.Limits{Whole: cmp.Or(s.Limits.Whole, defaultWhole), Cut: cmp.Or(s.Limits.Cut, defaultCut)}
}

func (s *Set) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// readOnlyHints returns the annotations of a tool that changes nothing.
func readOnlyHints(title string) mcp.ToolAnnotation {
	h := hints(title, false, false)
	*h.ReadOnlyHint = true
	return h
}

// hints returns the annotations of a tool. Hosts show them and decide by them.
func hints(title string, destructive, openWorld bool) mcp.ToolAnnotation {
	readOnly := false
	return mcp.ToolAnnotation{Title: title, ReadOnlyHint: &readOnly, DestructiveHint: &destructive, OpenWorldHint: &openWorld}
}
