package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// maxShells bounds how many named shells a box has: each has a state in it, for
// as long as the box stands.
const maxShells = 100

// What became of a named shell with a command.
const (
	ShellSaved = wire.ShellSaved // it is as the command left it
	ShellKept  = wire.ShellKept  // it is as it was before
	ShellLost  = wire.ShellLost  // it begins anew
)

func checkShell(name string) error {
	if name != "" && !wire.ShellName(name) {
		return Errorf(InvalidArgument, `Use up to 64 letters, digits, "_", "." and "-", such as "dev".`, "a shell cannot be named %.80q", name)
	}
	return nil
}

// enterShell waits for the end of the commands that came before in the shell of
// that name: in one shell they run one after the other. A command in no shell
// waits for nobody.
func (b *Box) enterShell(ctx context.Context, c Command) (*gate, error) {
	if c.Shell == "" {
		return nil, nil
	}
	b.mu.Lock()
	if b.shells[c.Shell] == nil && len(b.shells) >= maxShells {
		b.mu.Unlock()
		return nil, Errorf(LimitReached, "Use one of those that there are, or another box.", "box %s has %d named shells, and no more are allowed", b.ID, maxShells)
	}
	g := b.shellGate(c.Shell)
	b.mu.Unlock()
	if !g.enter(ctx, c.Patience) {
		return nil, cmp.Or(ctx.Err(), b.busyShell(c.Shell))
	}
	return g, nil
}

// shellGate returns the gate of the shell of that name. The caller holds b.mu.
func (b *Box) shellGate(name string) *gate {
	if b.shells == nil {
		b.shells = map[string]*gate{}
	}
	if b.shells[name] == nil {
		b.shells[name] = &gate{most: 1}
	}
	return b.shells[name]
}

// busyShell says what runs in a shell.
func (b *Box) busyShell(name string) error {
	what := "other commands"
	for _, r := range b.inShell(name) {
		what = fmt.Sprintf("command %s %s", r.ID, strconv.Quote(excerpt.Clip(r.Command.Cmd, 40)))
	}
	return Errorf(LimitReached, "Wait until it has ended (logs with waitSeconds), end it with stop and its execId, or use another shell.",
		"the shell %q is busy with %s", name, what)
}

func (b *Box) inShell(name string) (list []*Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.runs {
		if r.Command.Shell == name && !r.ended() {
			list = append(list, r)
		}
	}
	return list
}

// leaveShell lets the next command into the run's shell.
func (r *Run) leaveShell() {
	if r.shell != nil {
		r.shell.leave()
	}
}
