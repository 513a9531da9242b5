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
		Name:            "stop",
		Description:     `Stop a container and all that runs in it; its logs stay. Without containerId: the one that you have.`,
		RawInputSchema:  json.RawMessage(`{"type":"object","properties":{"containerId":{"type":"string"}},"additionalProperties":false}`),
		RawOutputSchema: json.RawMessage(stopOutput),
		Annotations:     hints("Stop a container", true, false),
	}
}

type stopArgs struct{ containerID string }

func (a *stopArgs) params() []param { return []param{{"containerId", &a.containerID}} }

type stopResult struct {
	ContainerID string `json:"containerId"`
	Status      string `json:"status"`
	DurationMs  int64  `json:"durationMs"`
}

const stopOutput = `{"type":"object","properties":{
	"containerId":{"type":"string"},
	"status":{"type":"string"},
	"durationMs":{"type":"integer"},
	"error":{"type":"string"},"code":{"type":"string"},"hint":{"type":"string"}
	},"anyOf":[{"required":["containerId","status"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleStop(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args stopArgs
	if err := parse(req, args.params()); err != nil {
		return Failed(err), nil
	}
	begin := time.Now()
	id, err := s.stop(s.owner(ctx), clip(args.containerID))
	if err != nil {
		return Failed(err), nil
	}
	after := time.Since(begin)
	return reply(stopResult{id, "stopped", after.Milliseconds()}, fmt.Sprintf("stopped · containerId %s · %s\n", id, took(after))), nil
}

func (s *Set) stop(owner, id string) (string, error) {
	var err error
	if id == "" {
		id, err = s.only(owner)
	}
	if err == nil {
		err = s.Manager.Stop(owner, id)
	}
	return id, err
}

// only returns the box that an owner means who does not say which: the one that
// it has. Where there are several, a guess could end the wrong work.
func (s *Set) only(owner string) (string, error) {
	var ids []string
	for _, b := range s.Manager.Boxes(owner) {
		if b.Gone() == nil {
			ids = append(ids, b.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", sandbox.Errorf(sandbox.BoxNotFound, "There is nothing to stop; exec starts a container when one is wanted.", "you have no container")
	case 1:
		return ids[0], nil
	}
	return "", invalid("Say in containerId which one. You have: "+strings.Join(ids, ", ")+".", "there are %d containers to stop", len(ids))
}
