//go:build linux

package agent

import (
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// mostSpares stand after a burst of commands.
	mostSpares = 4

	// calmTime is how long after a burst there are more than usual.
	calmTime = 10 * time.Second

	// spareWait is how long a run may go on before its host is told and another spare
	// is started: most end before, and what is done while they run makes them slower.
	spareWait = 20 * time.Millisecond

	// spareTries is how many may fail to get ready before none is started for
	// sparePause: the shell of this image is no bash, or the kernel does not let us
	// write into it, or somebody kills them.
	spareTries = 3
	sparePause = time.Minute
)

// spares are the shells that stand ready. The agent's mu guards them.
type spares struct {
	usual  int            // how many the host wants; 0: none, for ever
	want   int            // how many now, more after a burst
	all    map[int]*spare // by pid, until they are taken or reaped
	ready  []*spare
	script int // the file that they begin with
	failed int // in a row
	held   int // kills under way; until they are done none is started

	calm *time.Timer // ends a burst
	late *time.Timer // a run goes on: its host is told, and the next spare started
}

// renewSpares begins anew for what a Hello says.
func (a *Agent) renewSpares(usual int) {
	a.mu.Lock()
	s := &a.spares
	a.discardSpares()
	s.usual = min(usual, mostSpares)
	if !a.domains.apart() {
		s.usual = min(s.usual, 1) // whoever takes it ends the others
	}
	if !a.shell.bash || !plainStart(a.env) {
		s.usual = 0
	}
	s.want, s.failed = s.usual, 0
	if s.usual > 0 && s.all == nil {
		s.begin(a)
	}
	a.mu.Unlock()
	if usual > 0 {
		go a.refill()
	}
}

// begin makes what all spares need.
func (s *spares) begin(a *Agent) {
	var err error
	if s.script, err = spareFile(a.shell.path); err != nil {
		s.usual, s.want = 0, 0
		return
	}
	s.all = map[int]*spare{}
	s.late = stopped(func() {
		a.letGo()
		a.refill()
	})
	s.calm = stopped(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.want = s.usual
		a.retire(len(s.ready) - s.want)
	})
}

// stopped returns a timer that somebody must set.
func stopped(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// refill starts as many spares as are missing.
func (a *Agent) refill() {
	for a.addSpare() {
	}
}

func (a *Agent) addSpare() bool {
	a.checkLimits()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.spares
	if s.held > 0 || s.standing() >= s.want || !a.domains.apart() && a.occupied() {
		return false
	}
	next, err := a.newSpare(s.script)
	if err != nil {
		return false // the box is full, or the directory gone: after the next run it may not be
	}
	s.all[next.pid] = next
	go a.prepare(next)
	return true
}

// standing counts those that are ready or will be.
func (s *spares) standing() (n int) {
	for _, one := range s.all {
		if !one.gone {
			n++
		}
	}
	return n
}

// prepare makes a new spare one that is ready. It ends with the spare at the
// latest.
func (a *Agent) prepare(one *spare) {
	err := one.await(a.shell.path)
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.spares
	switch {
	case one.gone:
	case err != nil:
		a.discard(one)
		if s.failed++; s.failed >= spareTries {
			s.failed, s.want = 0, 0
			s.calm.Reset(sparePause)
		}
	case s.all[one.pid] != one: // it has ended since
		one.close()
	default:
		s.failed, one.waits = 0, true
		s.ready = append(s.ready, one)
	}
}

// discard ends a spare. The caller holds a.mu, which keeps it from being reaped
// and its pid from being another's.
func (a *Agent) discard(one *spare) {
	one.gone = true
	one.close()
	if a.spares.all[one.pid] == one {
		unix.Kill(one.pid, unix.SIGKILL)
	}
}

// retire ends so many of those that are ready. The caller holds a.mu.
func (a *Agent) retire(n int) {
	s := &a.spares
	for range n {
		a.discard(s.ready[0])
		s.ready = slices.Delete(s.ready, 0, 1)
	}
}

// bury notes that a spare has ended, if it was one. The caller holds a.mu.
func (s *spares) bury(pid int) bool {
	one := s.all[pid]
	if one == nil {
		return false
	}
	delete(s.all, pid)
	s.ready = slices.DeleteFunc(s.ready, func(other *spare) bool { return other == one })
	if one.waits { // else who prepares it learns it by itself
		one.gone = true
		one.close()
	}
	return true
}

// holdSpares ends all spares, and starts none, until releaseSpares. A command
// that is to be killed may have planted in a spare what shall outlive it, and where
// the whole box is emptied no run may take one that is about to die.
func (a *Agent) holdSpares() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spares.held++
	a.discardSpares()
}

// discardSpares ends all there are. The caller holds a.mu.
func (a *Agent) discardSpares() { a.discardBut(nil) }

func (a *Agent) discardBut(kept *spare) {
	for _, one := range a.spares.all {
		if one != kept {
			a.discard(one)
		}
	}
	a.spares.ready = nil
}

// holdsSpares reports whether no shell may be started that nobody asked for.
func (a *Agent) holdsSpares() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spares.held > 0
}

func (a *Agent) releaseSpares() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spares.held--
}

// takeSpare gives the run a shell that stands ready, if there is one and it can be
// what a new one would be.
func (r *run) takeSpare(dir string, body wire.StartBody) bool {
	a := r.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.spares
	if s.usual == 0 || !spareCan(body) {
		return false
	}
	for len(s.ready) > 0 {
		one := s.ready[len(s.ready)-1]
		s.ready = s.ready[:len(s.ready)-1]
		if !a.domains.apart() {
			a.discardBut(one)
		}
		if err := one.give(dir, body); err != nil {
			a.discard(one)
			continue
		}
		delete(s.all, one.pid)
		r.spare, r.tree = one, one.tree
		r.out = []*pump{newPump(r, wire.Stdout, one.out[0]), newPump(r, wire.Stderr, one.out[1])}
		r.note(one.pid)
		return true
	}
	if s.want > 0 && a.domains.apart() { // else none gets ready here, or no more than one
		s.want = min(s.want+1, mostSpares)
		s.calm.Reset(calmTime)
	}
	s.late.Reset(spareWait)
	return false
}

// replaceSpare starts the spares that the run's end has left room for. What it
// sends has left.
func (a *Agent) replaceSpare() {
	a.mu.Lock()
	if a.spares.late != nil {
		a.spares.late.Stop()
	}
	a.mu.Unlock()
	a.letGo() // of runs that began meanwhile
	a.refill()
}

// restart starts a new shell for a run whose spare somebody killed before it had
// heard of its command, which then has not begun.
func (r *run) restart(st exitStatus, body wire.StartBody) (again bool) {
	defer r.spare.talk.Close()
	r.mu.Lock() // so that a kill which comes now finds the new shell
	defer r.mu.Unlock()
	if !st.wait.Signaled() || r.killing != nil || r.tree.collateral.Load() || r.agent.holdsSpares() || !r.spare.unheard() {
		return false
	}
	for _, p := range r.out {
		p.file.Close()
		<-p.closed
	}
	r.out = nil
	dir, err := r.agent.resolve(body.Dir)
	if err == nil {
		_, err = r.spawnNew(dir, body)
	}
	if err != nil {
		r.out = nil
		return false
	}
	for _, p := range r.out {
		go p.copy()
	}
	return true
}

// spareCan reports whether a spare can carry out a Start.
func spareCan(body wire.StartBody) bool {
	if body.Stdin || body.TTY != nil || body.Shell != "" || len(body.Cmd) >= spareRoom-1 || strings.Contains(body.Cmd, "\x00") {
		return false
	}
	size := 0
	for _, v := range body.Env {
		size += 4*len(v) + 2 // as quotes make it at worst
		if name, _, ok := strings.Cut(v, "="); !ok || !identifier(name) || strings.Contains(v, "\x00") {
			return false
		}
	}
	return size < spareText-5*spareRoom && sameAtRuntime(body.Env)
}

// plainStart reports whether a bash with this environment comes to where spares
// wait, and does there what they are told.
func plainStart(env []string) bool {
	return !slices.ContainsFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "BASH") || slices.Contains([]string{"SHELLOPTS", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "TMOUT"}, name)
	})
}

// sameAtRuntime reports whether it is the same to bash to find variables in its
// environment and to be given them later: to none of them it does anything of its
// own.
func sameAtRuntime(env []string) bool {
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		for _, prefix := range []string{"BASH", "LD_", "LC_", "HIST", "COMP", "MAIL", "PROMPT_", "PS", "EPOCH", "TEXTDOMAIN", "GLIBC_", "MALLOC_"} {
			if strings.HasPrefix(name, prefix) {
				return false
			}
		}
		if slices.Contains(ofBash, name) {
			return false
		}
	}
	return true
}

// ofBash are the other variables that bash sets, reads or treats apart.
var ofBash = strings.Fields(`
_ CDPATH CHILD_MAX COLUMNS COPROC DIRSTACK EMACS ENV EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST GLOBIGNORE GLOBSORT
GROUPS HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LANGUAGE LINENO LINES MACHTYPE MAPFILE OLDPWD
OPTARG OPTERR OPTIND OSTYPE PIPESTATUS POSIXLY_CORRECT POSIX_PEDANTIC PPID PWD RANDOM READLINE_ARGUMENT READLINE_LINE
READLINE_MARK READLINE_POINT REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM TERM TIMEFORMAT TMOUT TZ UID WARMBOX_RUN
auto_resume histchars ignoreeof`)
