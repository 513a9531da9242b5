package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/warmbox/warmbox/sandbox"
)

const (
	// maxName and maxImage bound the names that results and logs repeat. The name of an
	// image has at most 255 bytes, its tag 128.
	maxName  = 64
	maxImage = 400
)

func startTool() mcp.Tool {
	return mcp.Tool{
		Name: "start",
		Description: `Start a sandbox container; only needed for another image, env, or a second container: exec starts one by itself. ` +
			`The same name again gives the same container.`,
		RawInputSchema: json.RawMessage(`{"type":"object","properties":{
			"image":{"type":"string"},
			"name":{"type":"string","description":"your word for it"},
			"env":{"type":"object","additionalProperties":{"type":"string"}},
			"keep":{"type":"boolean","description":"outlive the server; needs a name, which gives it back later"}
			},"additionalProperties":false}`),
		RawOutputSchema: json.RawMessage(startOutput),
		Annotations:     hints("Start a container", false, false),
	}
}

type startArgs struct {
	image, name string
	env         map[string]string
	keep        bool
}

func (a *startArgs) params() []param {
	return []param{{"image", &a.image}, {"name", &a.name}, {"env", &a.env}, {"keep", &a.keep}}
}

func (a *startArgs) check() error {
	if len(a.name) > maxName || strings.ContainsFunc(a.name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return invalid("Use a short name, such as \"tests\".", "name must have at most %d bytes, all printable, got %s", maxName, quote(a.name))
	}
	if len(a.image) > maxImage {
		return invalid("Give the name of an image, such as \"alpine:3.20\".", "the image name has %d bytes, which is too long", len(a.image))
	}
	return nil
}

// startResult describes a running box.
type startResult struct {
	ID          string   `json:"id"`
	ContainerID string   `json:"containerId"` // the same, by the name of the argument of exec and stop
	Name        string   `json:"name,omitempty"`
	Image       string   `json:"image,omitempty"`
	Status      string   `json:"status"`
	Reused      bool     `json:"reused"`
	Kept        string   `json:"kept,omitempty"`      // for how long without a server, or unused
	Workdir     string   `json:"workdir"`             // in the box
	Workspace   string   `json:"workspace,omitempty"` // on the host
	Backend     string   `json:"backend"`
	Isolated    bool     `json:"isolated"`
	Notes       []string `json:"notes,omitempty"`
	StartMs     int64    `json:"startMs"`
	news
}

const startOutput = `{"type":"object","properties":{
	"id":{"type":"string"},
	"containerId":{"type":"string"},
	"name":{"type":"string"},
	"image":{"type":"string"},
	"status":{"type":"string"},
	"reused":{"type":"boolean"},
	"kept":{"type":"string"},
	"workdir":{"type":"string"},
	"workspace":{"type":"string"},
	"backend":{"type":"string"},
	"isolated":{"type":"boolean"},
	"notes":{"type":"array","items":{"type":"string"}},
	"startMs":{"type":"integer"},
	"note":{},"room":{},"ended":{},
	"error":{"type":"string"},"code":{"type":"string"},"hint":{"type":"string"}
	},"anyOf":[{"required":["containerId","status"]},{"required":["error","code"]}],"additionalProperties":false}`

func (s *Set) handleStart(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args startArgs
	err := parse(req, args.params())
	if err == nil {
		err = args.check()
	}
	if err != nil {
		return Failed(err), nil
	}
	begin := time.Now()
	box, reused, err := s.Manager.Start(ctx, s.owner(ctx), sandbox.Request{
		Image: args.image, Name: args.name, Env: args.env, Persistent: args.keep, Progress: progressOf(ctx, req),
	})
	if err != nil {
		return Failed(err), nil
	}
	r := s.started(box, reused, args)
	if why := s.Manager.ClaimEnded(s.owner(ctx), args.name); why != nil && !reused {
		r.Notes = append(r.Notes[:len(r.Notes):len(r.Notes)], "this is a new container: "+FailureOf(why).Error+"; files outside the workspace are gone")
	}
	r.Room = s.room(s.owner(ctx), box)
	r.StartMs = time.Since(begin).Milliseconds()
	return reply(r, r.text()), nil
}

// started returns the result for a box. The arguments tell which of them were not used.
func (s *Set) started(box *sandbox.Box, reused bool, args startArgs) startResult {
	d := box.Describe()
	r := startResult{
		ID: d.ID, ContainerID: d.ID, Name: d.Name, Image: d.Image, Status: string(sandbox.Running), Reused: reused, Kept: kept(d.Persistent),
		Workdir: d.Dir, Workspace: d.Workspace, Backend: d.Backend, Isolated: s.Manager.Isolates(), Notes: d.Notes,
	}
	if reused && (args.image != "" && args.image != box.Place.Image || len(args.env) > 0) {
		note := fmt.Sprintf("a container named %q stood already, so image and env of this call were not used; stop it first to have another", r.Name)
		r.Notes = append(r.Notes[:len(r.Notes):len(r.Notes)], note)
	}
	return r
}

// kept renders for how long a persistent box is kept, "" for other boxes.
func kept(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// text renders the whole result as text.
func (r startResult) text() string {
	how := "started in " + took(time.Duration(r.StartMs)*time.Millisecond)
	if r.Reused {
		how = "stood already"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s · containerId %s · %s\n", r.Status, r.ContainerID, how)
	fact(&b, "name", r.Name)
	if r.Kept != "" {
		fact(&b, "kept", "for "+r.Kept+" without a server or unused")
	}
	fact(&b, "image", r.Image)
	fact(&b, "workdir", r.Workdir)
	fact(&b, "workspace on the host", r.Workspace)
	if r.Isolated {
		fact(&b, "backend", r.Backend+", isolated from the host")
	} else {
		fact(&b, "backend", r.Backend+", NOT isolated: commands run on the host itself")
	}
	for _, note := range r.Notes {
		fact(&b, "note", note)
	}
	return b.String()
}
