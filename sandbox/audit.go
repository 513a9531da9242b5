package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// An audit writes the record of who did what, a line each: boxes that start and end, commands
// that begin, end or are denied. It masks secrets and does not name sessions. A nil audit
// writes nothing.
type audit struct {
	log  *slog.Logger
	mask func(string) string
	// command masks a command line, also values of options that only their names tell.
	command func(string) string
	names   map[string]string // of principals, for people
	lines   bool              // each event is a line by itself: AuditLines

	// manager marks the records of one Manager. The processes of a user have the same owner,
	// and may write to one file.
	manager string
}

// newAudit is called once, by share.
func (m *Manager) newAudit() *audit {
	if m.Audit == nil {
		return nil
	}
	_, lines := m.Audit.Handler().(*AuditLines)
	var id [4]byte
	rand.Read(id[:])
	return &audit{
		log: m.Audit, mask: m.Secrets.Text, command: m.Secrets.Command, names: m.PrincipalNames, lines: lines,
		manager: hex.EncodeToString(id[:]),
	}
}

// write writes a line, with secrets masked: its text may repeat what a client sent.
func (a *audit) write(what string, owner Owner, more ...any) {
	if a == nil {
		return
	}
	for i, value := range more {
		if text, ok := value.(string); ok {
			more[i] = a.mask(text)
		}
	}
	a.log.Info(what, slices.Concat(a.ownerAttrs(owner), more)...)
}

// ownerAttrs identifies an owner without its session, which is secret: by the name of its
// principal, if that has one, and by its mark, with that of the Manager.
func (a *audit) ownerAttrs(owner Owner) []any {
	mark := owner.mark()
	if a.manager != "" {
		mark += "-" + a.manager
	}
	session := []any{"session", mark}
	if name := a.names[owner.Principal]; name != "" {
		return append([]any{"owner", name}, session...)
	}
	return session
}

// started records a box that was started, or denied.
func (a *audit) started(owner Owner, req Request, box *Box, err error) {
	switch {
	case err == nil:
		a.write("start", owner, "box", box.ID, "name", box.Name, "image", box.Place.Image)
	case isDenial(err):
		a.write("denied", owner, a.denial(err, "image", req.Image, "why", err.Error())...)
	}
}

// stopped records a box that ended.
func (a *audit) stopped(b *Box) {
	a.write("stop", b.owner, "box", b.ID, "after", time.Since(b.Started).Round(time.Millisecond).String())
}

// asked records a command that begins, or is denied.
func (a *audit) asked(b *Box, c Command, r *Run, err error) {
	if a == nil {
		return
	}
	switch {
	case err == nil:
		a.write("exec", b.owner, "box", b.ID, "exec", r.ID, "cmd", a.command(c.Cmd), "workdir", c.Dir, "shell", c.Shell, "userAllowed", string(c.Approval), "trace", r.trace)
	case isDenial(err):
		a.write("denied", b.owner, a.denial(err, "box", b.ID, "cmd", a.command(c.Cmd), "why", err.Error())...)
	}
}

// ended records how a command ended.
func (a *audit) ended(r *Run, e Exit) {
	if a == nil {
		return
	}
	line := []any{"box", r.Box.ID, "exec", r.ID, "status", string(e.Status), "code", e.Code, "signal", e.Signal, "took", e.Took.String()}
	if e.Err != nil {
		line = append(line, "why", e.Err.Error())
	}
	if a.lines { // a reader of JSON finds the command by the id
		line = append(line, "cmd", a.command(r.Command.Cmd))
	}
	a.write("exit", r.Box.owner, line...)
}

// denial adds the code of a denial in the line form, which has no other place for it.
func (a *audit) denial(err error, line ...any) []any {
	if e, ok := errors.AsType[*Error](err); ok && a != nil && a.lines {
		line = append(line, "denial", e.Code)
	}
	return line
}

// isDenial reports whether an error comes from a rule.
func isDenial(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Code == ExecValidation || e.Code == ImageDenied)
}

// Check returns why no box may run a command of an owner, nil where one may. A denial is
// recorded. A caller that would start a box for the command alone checks it first; Exec checks
// it again.
func (m *Manager) Check(owner Owner, c Command) error {
	if err := c.Check(); err != nil {
		return err
	}
	err := denial(m.Commands.Judge(c.Cmd, c.Env).Denial)
	if a := m.share().audit; a != nil && err != nil {
		a.write("denied", owner, a.denial(err, "cmd", a.command(c.Cmd), "why", err.Error())...)
	}
	return err
}
