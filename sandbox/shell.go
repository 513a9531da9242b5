package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/warmbox/warmbox/sandbox/excerpt"
	"github.com/warmbox/warmbox/sandbox/wire"
)

// maxShells bounds how many named shells a box has: each has a state in it, for
// as long as the box runs.
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

// shells are the named shells of a box. In each, commands run one after the other.
type shells struct {
	mu     sync.Mutex
	byName map[string]*limiter
}

// limiter returns the limiter of a shell, which is made where there is none, or false
// where there are as many shells as are allowed. most < 0 allows any number.
func (s *shells) limiter(name string, most int) (l *limiter, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l = s.byName[name]; l != nil {
		return l, true
	}
	if most >= 0 && len(s.byName) >= most {
		return nil, false
	}
	if s.byName == nil {
		s.byName = map[string]*limiter{}
	}
	l = &limiter{slots: 1}
	s.byName[name] = l
	return l, true
}

// Shells returns the names of the box's named shells, in order.
func (b *Box) Shells() []string {
	b.shells.mu.Lock()
	defer b.shells.mu.Unlock()
	return slices.Sorted(maps.Keys(b.shells.byName))
}

// acquireShell waits for the end of the commands that came before in the shell of
// that name. A command in no shell waits for none.
func (b *Box) acquireShell(ctx context.Context, c Command, held *slots) error {
	if c.Shell == "" {
		return nil
	}
	l, ok := b.shells.limiter(c.Shell, maxShells)
	if !ok {
		return Errorf(LimitReached, "Use one of the existing shells, or another box.", "box %s has %d named shells, which is the maximum", b.ID, maxShells)
	}
	if !l.acquire(ctx, c.WaitLimit) {
		return cmp.Or(ctx.Err(), b.busyShell(c.Shell))
	}
	held.shell = l
	return nil
}

// busyShell says what runs in a shell.
func (b *Box) busyShell(name string) error {
	what := "other commands"
	for _, r := range b.all() {
		if r.Command.Shell == name && !r.ended() {
			what = fmt.Sprintf("command %s %s", r.ID, strconv.Quote(excerpt.Clip(r.Command.Cmd, 40)))
		}
	}
	return Errorf(LimitReached, "Wait until the command has ended (logs with waitSeconds), end it with stop and its execId, or use another shell.",
		"the shell %q is busy with %s", name, what)
}
