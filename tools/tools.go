// Package tools is what a model can call: start, exec, logs, input, list and stop,
// over the boxes and the logs of one sandbox.Manager.
//
// It reads arguments, strictly and with words that a model can act on, waits
// for commands, and renders what came of them twice: as structured content and
// as text, because a host shows its model only one of the two. Either carries
// everything. What a box printed comes last in the text, below headers that the
// box cannot forge.
//
// The package starts no server and knows no transport; boxes, runs and logs are
// the Manager's. Whoever registers the tools leaves mcp-go's own validation of
// input off, since its messages would come before ours, and tells in Set.Owner
// whose call each one is: an owner's boxes exist for nobody else.
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
	// defaultWait is below the 60 s after which most hosts give a call up.
	defaultWait = 45 * time.Second

	// defaultTimeout ends what hangs, and lets builds and test suites finish.
	defaultTimeout = 600 * time.Second

	// defaultMaxBytes is some 25,000 tokens, what hosts bear in one result.
	defaultMaxBytes = 100_000

	// defaultWhole and defaultCut: small outputs are shown as they are, and of
	// large ones so much that head and tail both tell something.
	defaultWhole = 8000
	defaultCut   = 4000
)

// A Set is the tools over one Manager. It is used like http.Server: set its
// fields, then call.
type Set struct {
	Manager  *sandbox.Manager
	Owner    func(ctx context.Context) sandbox.Owner // whose call this is; nil: one owner for all
	NoWait  func(ctx context.Context) bool          // whether this call must not wait for a command; nil: none must not
	Wait     time.Duration                           // how long exec waits where the call does not say; 0: 45 s
	Timeout  time.Duration                           // after which a command is killed where the call does not say; 0: 600 s
	Limits   excerpt.Limits                          // how much output a result shows; 0: 8000 whole, else 4000
	MaxBytes int                                     // how much a call may ask for; 0: 100,000
	Model    Model                                   // summarises in place of the built-in; nil: none does
	Sampler  Sampler                                 // has the calling client's own model summarise; nil: none does
	Terse    bool                                    // no output is summarised
	Ask      time.Duration                           // how long the user is asked for whether a command may run that the list does not have, where the client can; 0: not at all
	RunOn    bool                                    // a client that disconnects leaves its commands running; else it cancels its calls
	Logger   *slog.Logger                            // told of every command that ended or was left running; nil: nobody

	results   *pending[ExecResult] // whose summaries the client was asked for; made by Tools
	questions *pending[*question]  // that the user was asked; made by Tools
}

// A Model writes summaries in place of the built-in one. Where it fails, for
// whatever reason, the built-in one stands.
type Model interface {
	// Name says who wrote them, such as "anthropic".
	Name() string
	// Summarize returns within a time of its own. Its words have been checked
	// as far as words can be.
	Summarize(ctx context.Context, d summary.Digest) (string, error)
}

// Tools returns the tools in the order in which a model should read of them.
func (s *Set) Tools() []mcpserver.ServerTool {
	if s.results == nil {
		// Clients fail a call whose question to their model they refuse, so one
		// that leaves it without an answer is not asked another.
		s.results = &pending[ExecResult]{each: 1}
		s.questions = &pending[*question]{each: maxQuestions}
	}
	return []mcpserver.ServerTool{
		{Tool: startTool(), Handler: s.discreet(s.handleStart)},
		{Tool: s.execTool(), Handler: s.discreet(s.handleExec)},
		{Tool: logsTool(), Handler: s.discreet(s.handleLogs)},
		{Tool: inputTool(), Handler: s.discreet(s.handleInput)},
		{Tool: listTool(), Handler: s.discreet(s.handleList)},
		{Tool: stopTool(), Handler: s.discreet(s.handleStop)},
	}
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

// patience is how long a call waits for a command, which may ask for so many
// seconds.
func (s *Set) patience(ctx context.Context, asked *float64, otherwise time.Duration) time.Duration {
	switch {
	case s.NoWait != nil && s.NoWait(ctx):
		return 0
	case asked != nil:
		return seconds(*asked)
	}
	return otherwise
}

// limits says how much output a call is shown, which may ask for so many bytes.
func (s *Set) limits(asked *int) excerpt.Limits {
	if asked != nil {
		return excerpt.Limits{Whole: *asked, Cut: *asked}
	}
	return excerpt.Limits{Whole: cmp.Or(s.Limits.Whole, defaultWhole), Cut: cmp.Or(s.Limits.Cut, defaultCut)}
}

func (s *Set) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// readOnlyHints are those of a tool that changes nothing.
func readOnlyHints(title string) mcp.ToolAnnotation {
	h := hints(title, false, false)
	*h.ReadOnlyHint = true
	return h
}

// hints renders what hosts show or decide by.
func hints(title string, destructive, openWorld bool) mcp.ToolAnnotation {
	readOnly := false
	return mcp.ToolAnnotation{Title: title, ReadOnlyHint: &readOnly, DestructiveHint: &destructive, OpenWorldHint: &openWorld}
}
