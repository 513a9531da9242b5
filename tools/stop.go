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

func stopTool() mcp.Tool {
	return mcp.Tool{
		Name: "stop",
		Description: `Stop a command (execId) with all that it started, or a container and all that runs in it; logs stay. ` +
			`Without arguments: the container that you have.`,
		RawInputSchema: json.RawMessage(`{"type":"object","properties":{
			"execId":{"type":"string"},
			"containerId":{"type":"string"}
			},"additionalProperties":false}`),
		RawOutputSchema: json.RawMessage(stopOutput),
		Annotations:     hints("Stop a command or container", true, false),
	}
}

type stopArgs struct{ execID, containerID string }

func (a *stopArgs) params() []param {
	return []param{{"execId", &a.execID}, {"containerId", &a.containerID}}
}

type stopResult struct {
	ExecID      string `json:"execId,omitempty"` // only of a command
	ContainerID string `json:"containerId"`
	Status      string `json:"status"` // "stopped", or of a command how it ended
	ExitCode    *int   `json:"exitCode,omitempty"`
	Signal      string `json:"signal,omitempty"`
	Hint        string `json:"hint,omitempty"`
	DurationMs  int64  `json:"durationMs"`
	news

	took time.Duration
}

const stopOutput = `{"type":"object","properties":{
	"execId":{"type":"string"},
	"containerId":{"type":"string"},
	"status":{"type":"string"},
	"exitCode":{},"signal":{},
	"durationMs":{"type":"integer"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"},"code":{"type":"string"},"hint":{"type":"string"}
	},"anyOf":[{"required":["containerId","status"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleStop(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args stopArgs
	err := parse(req, args.params())
	if err == nil && args.execID != "" && args.containerID != "" {
		err = invalid("Give execId to stop one command, or containerId to stop a container with everything in it.", "stop needs execId or containerId, not both")
	}
	if err != nil {
		return Failed(err), nil
	}
	begin := time.Now()
	owner := s.owner(ctx)
	var r stopResult
	err = s.findReattached(ctx, owner, func() (err error) {
		r, err = s.stop(owner, clip(args.execID), clip(args.containerID))
		return err
	})
	if err != nil {
		return Failed(err), nil
	}
	r.took = time.Since(begin)
	r.DurationMs = r.took.Milliseconds()
	return reply(r, r.text()), nil
}

// stop stops a command or a box.
func (s *Set) stop(owner sandbox.Owner, execID, containerID string) (stopResult, error) {
	if execID != "" {
		return s.stopRun(owner, execID)
	}
	var err error
	if containerID == "" {
		containerID, err = s.only(owner)
	}
	if err == nil {
		err = s.Manager.Stop(owner, containerID)
	}
	return stopResult{ContainerID: containerID, Status: "stopped"}, err
}

// stopRun kills a command, or the processes that it left behind, and returns when they have ended.
// Of a command that is over it says how it ended: the caller has what it wanted.
func (s *Set) stopRun(owner sandbox.Owner, id string) (stopResult, error) {
	run, err := s.Manager.Run(owner, id)
	if err != nil {
		r, unknown := s.Manager.Record(owner, id)
		if unknown != nil || r.Exit.Status == sandbox.Running {
			return stopResult{}, err // it may run where no call can reach it
		}
		return stopped(id, r.Box, r.Exit, "The command had ended before; nothing of it runs."), nil
	}
	run.Kill()
	awaitDeath(run.Over())
	return stopped(id, run.Box.ID, run.Exit(), ""), nil
}

// stopped returns the result for a command that is over.
func stopped(id, box string, exit sandbox.Exit, hint string) stopResult {
	return stopResult{ExecID: id, ContainerID: box, Status: string(exit.Status), ExitCode: exitCode(exit), Signal: exit.Signal, Hint: hint}
}

// text renders the whole result as text.
func (r stopResult) text() string {
	how, what := r.Status, "containerId "+r.ContainerID
	if r.ExecID != "" {
		how, what = ending(sandbox.Status(r.Status), r.ExitCode, r.Signal), "execId "+r.ExecID+" in "+what
	}
	var b strings.Builder
	if r.Hint != "" { // it had ended before, so the time of this call says nothing
		fmt.Fprintf(&b, "%s · %s\n", how, what)
	} else {
		fmt.Fprintf(&b, "%s · %s · %s\n", how, what, took(r.took))
	}
	fact(&b, "hint", r.Hint)
	return b.String()
}

// only returns the only box of an owner, for a call without arguments. If there are several, a
// guess could end the wrong one.
func (s *Set) only(owner sandbox.Owner) (string, error) {
	var ids []string
	for _, b := range s.Manager.Boxes(owner) {
		if b.Gone() == nil {
			ids = append(ids, b.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", sandbox.Errorf(sandbox.BoxNotFound, "There is nothing to stop; exec starts a container when it needs one.", "you have no container")
	case 1:
		return ids[0], nil
	}
	return "", invalid("Name one of your containers in containerId: "+strings.Join(ids, ", ")+".", "you have %d containers, and stop needs to know which", len(ids))
}
