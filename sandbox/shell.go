package sandbox

import (
	"sync"

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
