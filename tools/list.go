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

const (
	// maxListed is how many commands a list has besides those that run: the last ones.
	maxListed = 10

	// maxAll is how many commands of either kind a list has at most.
	maxAll = 200
)

func listTool() mcp.Tool {
	return mcp.Tool{
		Name:            "list",
		Description:     `List your containers and commands, running and recent, with their ids.`,
		RawInputSchema:  json.RawMessage(`{"type":"object","properties":{"all":{"type":"boolean"}},"additionalProperties":false}`),
		RawOutputSchema: json.RawMessage(listOutput),
		Annotations:     readOnlyHints("List containers and commands"),
	}
}

type listArgs struct{ all bool }

func (a *listArgs) params() []param { return []param{{"all", &a.all}} }

// listResult lists the boxes and commands of an owner.
type listResult struct {
	Containers []listedBox `json:"containers"`
	Commands   []listedRun `json:"commands"`
	Omitted    int         `json:"omitted,omitempty"` // commands
	Changed    []string    `json:"changed,omitempty"` // paths of workspaces that the host may run
	Hint       string      `json:"hint,omitempty"`
	news
}

type listedBox struct {
	ContainerID string `json:"containerId"`
	Name        string `json:"name,omitempty"`
	Image       string `json:"image,omitempty"`
	Started     string `json:"started"`
	Running     int    `json:"running"`        // commands
	Kept        string `json:"kept,omitempty"` // for how long without a server, or unused
	Shells      string `json:"shells,omitempty"`
}

// A listedRun has what tells a command from others. logs with its id has the rest.
type listedRun struct {
	ExecID      string         `json:"execId"`
	Status      sandbox.Status `json:"status"`
	ExitCode    *int           `json:"exitCode,omitempty"`
	Signal      string         `json:"signal,omitempty"`
	Cmd         string         `json:"cmd"`
	ContainerID string         `json:"containerId,omitempty"` // if it is not the only container
	DurationMs  int64          `json:"durationMs"`
	Lines       int64          `json:"lines"`
	Leftover    []sandbox.Proc `json:"leftover,omitempty"` // that it left behind, while any of them runs
}

const listOutput = `{"type":"object","properties":{
	"containers":{"type":"array"},
	"commands":{"type":"array"},
	"omitted":{"type":"integer"},
	"changed":{"type":"array"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"},"code":{"type":"string"},"hint":{"type":"string"}
	},"anyOf":[{"required":["containers","commands"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleList(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args listArgs
	if err := parse(req, args.params()); err != nil {
		return Failed(err), nil
	}
	reattached := s.Manager.AwaitReattach(ctx, s.owner(ctx), reattachWait)
	r := s.list(s.owner(ctx), args.all)
	changes := s.Manager.Changes(s.owner(ctx), maxChangesWait)
	hints := s.changedHint(s.owner(ctx), "", changes)
	if !reattached {
		hints = append(hints, "Containers that were kept are still being looked for: list again in a moment.")
	}
	r.Changed, r.Hint = changedPaths(changes), strings.Join(hints, " ")
	return reply(r, r.text()), nil
}

// list lists what an owner has: boxes, what runs, and the last commands or all.
func (s *Set) list(owner sandbox.Owner, all bool) listResult {
	r := listResult{Containers: []listedBox{}, Commands: []listedRun{}}
	for _, b := range s.Manager.Boxes(owner) {
		if b.Gone() == nil {
			d := b.Describe()
			r.Containers = append(r.Containers, listedBox{d.ID, d.Name, d.Image, clock(d.Started), d.Running, kept(d.Persistent), strings.Join(b.Shells(), ", ")})
		}
	}
	runs := s.Manager.Records(owner)
	slices.SortStableFunc(runs, func(a, b sandbox.Record) int { return cmp.Compare(afterRunning(a), afterRunning(b)) })
	over, most := slices.IndexFunc(runs, func(r sandbox.Record) bool { return afterRunning(r) > 0 }), maxAll
	if over >= 0 && !all {
		most = min(over+maxListed, maxAll)
	}
	for _, run := range runs[:min(len(runs), most)] {
		r.Commands = append(r.Commands, r.listed(run))
	}
	r.Omitted = len(runs) - len(r.Commands)
	return r
}

// listed describes a command in a list that has its containers.
func (r *listResult) listed(run sandbox.Record) listedRun {
	c := listedRun{
		ExecID: run.ID, Status: run.Exit.Status, ExitCode: exitCode(run.Exit), Signal: run.Exit.Signal,
		Cmd: oneLine(run.Cmd, 80), DurationMs: run.Exit.Took.Milliseconds(), Lines: run.Log.Lines, Leftover: leftoverOf(run),
	}
	if len(r.Containers) != 1 || r.Containers[0].ContainerID != run.Box {
		c.ContainerID = run.Box
	}
	return c
}

// leftoverOf returns the processes that a command left behind, while any of them runs.
func leftoverOf(r sandbox.Record) []sandbox.Proc {
	if !r.Open {
		return nil
	}
	return inertNames(r.Exit.Leftover)
}

// afterRunning sorts commands that run, or left running processes behind, before the others.
func afterRunning(r sandbox.Record) int {
	if r.Exit.Status == sandbox.Running || len(leftoverOf(r)) > 0 {
		return 0
	}
	return 1
}

// clock renders a time in the form that most programs print.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// text renders the whole result as text.
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
		if c.Shells != "" {
			b.WriteString(" · shells " + c.Shells)
		}
		fmt.Fprintf(&b, " · since %s\n", c.Started)
	}
	for _, c := range r.Commands {
		fmt.Fprintf(&b, "command %s · %s · %s · %s", c.ExecID, ending(c.Status, c.ExitCode, c.Signal),
			took(time.Duration(c.DurationMs)*time.Millisecond), excerpt.Count(c.Lines, "line"))
		if c.ContainerID != "" {
			b.WriteString(" · in " + c.ContainerID)
		}
		fmt.Fprintf(&b, " · %s\n", c.Cmd)
		fact(&b, "  still running", procNames(c.Leftover, 0))
	}
	if r.Omitted > 0 {
		fmt.Fprintf(&b, "%s left out", excerpt.Count(int64(r.Omitted), "older one"))
		if len(r.Commands) < maxAll {
			b.WriteString(" (all: true lists them)")
		}
		b.WriteByte('\n')
	}
	fact(&b, "hint", r.Hint)
	return b.String()
}
