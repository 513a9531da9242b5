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
	DurationMs  int64  `json:"durationMs"`
	news

	took time.Duration
}

const stopOutput = `{"type":"object","properties":{
	"execId":{"type":"string"},
	"containerId":{"type":"string"},
	"status":{"type":"string"},
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
func (s *Set) stopRun(owner sandbox.Owner, id string) (stopResult, error) {
	run, err := s.Manager.Run(owner, id)
	if err != nil {
		return stopResult{}, err
	}
	run.Kill()
	awaitDeath(run.Over())
	return stopResult{ExecID: id, ContainerID: run.Box.ID, Status: string(run.Exit().Status)}, nil
}

// text renders the whole result as text.
func (r stopResult) text() string {
	what := "containerId " + r.ContainerID
	if r.ExecID != "" {
		what = "execId " + r.ExecID + " in " + what
	}
	return fmt.Sprintf("%s · %s · %s\n", r.Status, what, took(r.took))
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
