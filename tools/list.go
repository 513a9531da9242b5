package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/excerpt"
)

// maxListed is how many commands a list has. Those that run come first.
const maxListed = 50

// backWait is how long a list waits for containers that were kept to come back, which
// takes an engine less than a second.
const backWait = 3 * time.Second

func listTool() mcp.Tool {
	return mcp.Tool{
		Name:            "list",
		Description:     `List your containers and commands, running and recent, with their ids.`,
		RawInputSchema:  json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		RawOutputSchema: json.RawMessage(listOutput),
		Annotations:     readOnlyHints("List containers and commands"),
	}
}

// listResult is what an owner has, as it stands.
type listResult struct {
	Containers []listedBox `json:"containers"`
	Commands   []listedRun `json:"commands"`
	Omitted    int         `json:"omitted,omitempty"` // commands
	Changed    []string    `json:"changed,omitempty"` // of workspaces, that the host may run
	Hint       string      `json:"hint,omitempty"`
}

type listedBox struct {
	ContainerID string `json:"containerId"`
	Name        string `json:"name,omitempty"`
	Image       string `json:"image,omitempty"`
	Started     string `json:"started"`
	Running     int    `json:"running"`        // commands
	Kept        string `json:"kept,omitempty"` // for how long after its server, or unused
}

type listedRun struct {
	ExecID      string         `json:"execId"`
	Status      sandbox.Status `json:"status"`
	ExitCode    *int           `json:"exitCode,omitempty"`
	Signal      string         `json:"signal,omitempty"`
	Cmd         string         `json:"cmd"`
	ContainerID string         `json:"containerId"`
	Started     string         `json:"started"`
	DurationMs  int64          `json:"durationMs"`
	Lines       int64          `json:"lines"`
	LogPath     string         `json:"logPath,omitempty"`
	Leftover    []sandbox.Proc `json:"leftover,omitempty"` // what it left behind at its end, while any of it runs
}

const listOutput = `{"type":"object","properties":{
	"containers":{"type":"array"},
	"commands":{"type":"array"},
	"omitted":{"type":"integer"},
	"changed":{"type":"array"},
	"error":{"type":"string"},"code":{"type":"string"},"hint":{"type":"string"}
	},"anyOf":[{"required":["containers","commands"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleList(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if err := parse(req, nil); err != nil {
		return Failed(err), nil
	}
	back := s.Manager.AwaitReattach(ctx, s.owner(ctx), backWait)
	r := s.list(s.owner(ctx))
	news := s.Manager.Changes(s.owner(ctx), newsWait)
	hints := changedHint(news)
	if !back {
		hints = append(hints, "Containers that were kept are still being looked for: list again in a moment.")
	}
	r.Changed, r.Hint = changedPaths(news), strings.Join(hints, " ")
	return reply(r, r.text()), nil
}

func (s *Set) list(owner sandbox.Owner) listResult {
	r := listResult{Containers: []listedBox{}, Commands: []listedRun{}}
	for _, b := range s.Manager.Boxes(owner) {
		if b.Gone() == nil {
			d := b.Describe()
			r.Containers = append(r.Containers, listedBox{d.ID, d.Name, d.Image, clock(d.Started), d.Running, kept(d.Persistent)})
		}
	}
	runs := s.Manager.Records(owner)
	slices.SortStableFunc(runs, func(a, b sandbox.Record) int { return cmp.Compare(afterRunning(a), afterRunning(b)) })
	for _, run := range runs[:min(len(runs), maxListed)] {
		r.Commands = append(r.Commands, listedRun{
			ExecID: run.ID, Status: run.Exit.Status, ExitCode: exitCode(run.Exit), Signal: run.Exit.Signal,
			Cmd: oneLine(run.Cmd, 200), ContainerID: run.Box, Started: clock(run.Started),
			DurationMs: run.Exit.Took.Milliseconds(), Lines: run.Log.Lines, LogPath: run.LogPath, Leftover: leftoverOf(run),
		})
	}
	r.Omitted = len(runs) - len(r.Commands)
	return r
}

// leftoverOf names what runs of a command that has ended.
func leftoverOf(r sandbox.Record) []sandbox.Proc {
	if !r.Open {
		return nil
	}
	return inertNames(r.Exit.Leftover)
}

// afterRunning sorts what runs, or has left something behind, before the rest.
func afterRunning(r sandbox.Record) int {
	if r.Exit.Status == sandbox.Running || len(leftoverOf(r)) > 0 {
		return 0
	}
	return 1
}

// clock renders a time so that it can be compared with the output's own.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (r listResult) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s · %s\n", excerpt.Count(int64(len(r.Containers)), "container"), excerpt.Count(int64(len(r.Commands)+r.Omitted), "command"))
	for _, c := range r.Containers {
		fmt.Fprintf(&b, "container %s · %s", c.ContainerID, excerpt.Count(int64(c.Running), "command")+" running")
		for _, detail := range []string{c.Name, c.Image} {
			if detail != "" {
				b.WriteString(" · " + detail)
			}
		}
		if c.Kept != "" {
			b.WriteString(" · kept for " + c.Kept)
		}
		fmt.Fprintf(&b, " · since %s\n", c.Started)
	}
	for _, c := range r.Commands {
		fmt.Fprintf(&b, "command %s · %s · %s · %s · in %s · at %s · log %s · %s\n", c.ExecID, ending(c.Status, c.ExitCode, c.Signal),
			took(time.Duration(c.DurationMs)*time.Millisecond), excerpt.Count(c.Lines, "line"), c.ContainerID, c.Started, cmp.Or(c.LogPath, "none"), c.Cmd)
		fact(&b, "  still running", procNames(c.Leftover, 0))
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "%d older ones are left out\n", r.Omitted)
	}
	fact(&b, "hint", r.Hint)
	return b.String()
}
