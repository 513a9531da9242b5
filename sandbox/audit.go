package sandbox

import (
	"errors"
	"log/slog"
	"slices"
	"time"
)

// audit writes down who did what, a line each: boxes that start and end,
// commands that begin, end or may not run. A nil one writes nothing. It is told
// text that has its secrets masked, and of owners what is no secret.
type audit struct {
	log   *slog.Logger
	mask  func(string) string
	names map[string]string // of principals, for people
}

func (m *Manager) newAudit() *audit {
	if m.Audit == nil {
		return nil
	}
	return &audit{m.Audit, m.Secrets.Text, m.PrincipalNames}
}

// note writes a line. Whatever text it has may repeat what a client gave.
func (a *audit) note(what string, owner Owner, more ...any) {
	if a == nil {
		return
	}
	for i, value := range more {
		if text, ok := value.(string); ok {
			more[i] = a.mask(text)
		}
	}
	a.log.Info(what, slices.Concat(a.whose(owner), more)...)
}

// whose is what of an owner may be written down: the name of its principal, where
// that has one, and a mark of the whole, as the logs have it. The owner itself lets who
// knows it into the session.
func (a *audit) whose(owner Owner) []any {
	session := []any{"session", owner.mark()}
	if name := a.names[owner.Principal]; name != "" {
		return append([]any{"owner", name}, session...)
	}
	return session
}

// started notes a box that stands, or that may not.
func (a *audit) started(owner Owner, req Request, box *Box, err error) {
	switch {
	case err == nil:
		a.note("start", owner, "box", box.ID, "name", box.Name, "image", box.Place.Image)
	case isDenial(err):
		a.note("denied", owner, "image", req.Image, "why", err.Error())
	}
}

func (a *audit) stopped(b *Box) {
	a.note("stop", b.owner, "box", b.ID, "after", time.Since(b.Started).Round(time.Millisecond).String())
}

// asked notes a command that begins, or that may not run.
func (a *audit) asked(b *Box, c Command, r *Run, err error) {
	if a == nil {
		return
	}
	switch {
	case err == nil:
		a.note("exec", b.owner, "box", b.ID, "exec", r.ID, "cmd", c.Cmd, "workdir", c.Dir, "shell", c.Shell, "userAllowed", string(c.Approval), "trace", r.trace)
	case isDenial(err):
		a.note("denied", b.owner, "box", b.ID, "cmd", c.Cmd, "why", err.Error())
	}
}

// ended notes how a command ended.
func (a *audit) ended(r *Run, e Exit) {
	if a == nil {
		return
	}
	line := []any{"box", r.Box.ID, "exec", r.ID, "status", string(e.Status), "code", e.Code, "signal", e.Signal, "took", e.Took.String()}
	if e.Err != nil {
		line = append(line, "why", e.Err.Error())
	}
	a.note("exit", r.Box.owner, line...)
}

// isDenial reports whether an error is a rule's, and no accident.
func isDenial(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Code == ExecValidation || e.Code == ImageDenied)
}
