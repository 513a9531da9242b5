package tools

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warmbox/warmbox/sandbox"
	"github.com/warmbox/warmbox/sandbox/boxtest"
	"github.com/warmbox/warmbox/sandbox/redact"
)

// A persister is a backend with persistent boxes. It searches for detached ones until searched is
// closed.
type persister struct {
	sandbox.Launcher
	searched chan struct{}
}

func (p persister) Detached(ctx context.Context) ([]sandbox.Detached, error) {
	select {
	case <-p.searched:
	case <-ctx.Done():
	}
	return nil, nil
}

func (persister) Reattach(context.Context, sandbox.Detached) (io.ReadWriteCloser, error) {
	return nil, errors.ErrUnsupported
}

// TestRunningBoxDoesNotBecomePersistent: a request to keep a running box is refused.
func TestRunningBoxDoesNotBecomePersistent(t *testing.T) {
	p := persister{boxtest.Agent(t), make(chan struct{})}
	close(p.searched)
	s := &Set{Manager: boxtest.Manager(t, p, sandbox.Spec{})}
	c := connect(t, s)
	callTool(t, c, "start", `{"name":"dev"}`).has(t, map[string]any{"reused": false, "kept": nil})
	r := callTool(t, c, "start", `{"name":"dev","keep":true}`)
	r.has(t, map[string]any{"code": sandbox.InvalidArgument, "containerId": nil})
	r.says(t, `a container named "dev" is already running and is not persistent`, "hint: Stop that container")
	callTool(t, c, "start", `{"name":"dev"}`).has(t, map[string]any{"reused": true, "kept": nil})
	s.Manager.ReattachTimeout = 90 * time.Minute
	r = callTool(t, c, "start", `{"name":"old","keep":true}`)
	r.has(t, map[string]any{"reused": false, "kept": "1h30m"})
	r.says(t, "kept: for 1h30m without a server or unused")
	callTool(t, c, "start", `{"name":"old","keep":true}`).has(t, map[string]any{"reused": true, "kept": "1h30m"})
	if text := callTool(t, c, "list", `{}`).text; strings.Count(text, " · kept for 1h30m · ") != 1 {
		t.Errorf("%s", text)
	}
}

// TestListWaitsForReattachedBoxes: the first list of a new server waits for persistent boxes, and
// says so if that takes too long.
func TestListWaitsForReattachedBoxes(t *testing.T) {
	p := persister{boxtest.Agent(t), make(chan struct{})}
	s := &Set{Manager: boxtest.Manager(t, p, sandbox.Spec{})}
	c := connect(t, s)
	s.Manager.Warm(sandbox.Owner{})
	callTool(t, c, "list", `{}`).says(t, "0 containers", "hint: Containers that were kept are still being looked for")
	time.AfterFunc(50*time.Millisecond, func() { close(p.searched) })
	callTool(t, c, "list", `{}`).has(t, map[string]any{"hint": nil})
}

// TestUnknownIdWaitsForReattachedBoxes: a call with an id waits until the server has reattached to
// persistent boxes before it denies that there is such a box or command, and while the server has
// not, the denial says so.
func TestUnknownIdWaitsForReattachedBoxes(t *testing.T) {
	for _, test := range []struct{ tool, args, code string }{
		{"exec", `{"cmd":"true","containerId":"b-none"}`, sandbox.BoxNotFound},
		{"stop", `{"containerId":"b-none"}`, sandbox.BoxNotFound},
		{"stop", `{"execId":"e-none"}`, sandbox.ExecNotFound},
		{"logs", `{"execId":"e-none"}`, sandbox.ExecNotFound},
		{"input", `{"execId":"e-none","text":"x"}`, sandbox.ExecNotFound},
	} {
		t.Run(test.tool+test.args, func(t *testing.T) {
			t.Parallel()
			p := persister{boxtest.Agent(t), make(chan struct{})}
			s := &Set{Manager: boxtest.Manager(t, p, sandbox.Spec{})}
			c := connect(t, s)
			s.Manager.Warm(sandbox.Owner{})
			r := callTool(t, c, test.tool, test.args)
			r.has(t, map[string]any{"code": test.code, "hint": "Try again in a few seconds."})
			r.says(t, "unless the server has yet to reattach to it")
			time.AfterFunc(50*time.Millisecond, func() { close(p.searched) })
			r = callTool(t, c, test.tool, test.args)
			r.has(t, map[string]any{"code": test.code})
			if strings.Contains(r.text, "reattach") {
				t.Errorf("%s", r.text)
			}
		})
	}
}

// TestNamesShowNoSecret: in the names of containers and processes secrets are masked.
func TestNamesShowNoSecret(t *testing.T) {
	const secret = "kP9vWx3LmQ8sTz4RbN7yHc2D"
	s := newSet(t)
	s.Manager.Secrets = &redact.Redactor{Values: []string{secret}}
	c := connect(t, s)
	r := callTool(t, c, "start", `{"name":"`+secret+`"}`)
	run := callTool(t, c, "exec", `{"cmd":"cp \"$(command -v sleep)\" \"$PWD/`+secret+`\"; ./`+secret+` 60 & sleep 0.2","containerId":"`+r.fields["containerId"].(string)+`"}`)
	list := callTool(t, c, "list", `{}`)
	run.says(t, "still running: ", "‹secret›")
	for _, a := range []answer{r, run, list} {
		if strings.Contains(a.text+a.json, secret[:8]) {
			t.Errorf("%s", a.text)
		}
	}
}
