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
	// mostSpares bounds the spare shells, also after a burst of commands.
	mostSpares = 4

	// burstTime is how long after a burst there are more than usual.
	burstTime = 10 * time.Second

	// slowRunDelay is how long a run lasts before its Started is sent and the next spare
	// shell is started. Most end earlier, and work done while they run slows them down.
	slowRunDelay = 20 * time.Millisecond

	// spareTries is how many in a row may fail to become idle before none is started for
	// sparePause: the shell of this image is no bash, the kernel does not allow writing
	// to its memory, or a command kills them.
	spareTries = 3
	sparePause = time.Minute
)

// spares are the spare shells. The lock of processes guards them.
type spares struct {
	usual     int            // how many the host wants; 0: none
	want      int            // how many to keep now, more after a burst
	all       map[int]*spare // by pid, until they are claimed or reaped
	ready     []*spare       // those that are idle
	script    int            // the descriptor of spareScript
	failed    int            // number of failures in a row
	suspended int            // number of kills under way; none is started meanwhile

	calm *time.Timer // ends a burst or a pause after failures
	late *time.Timer // a run lasts: flushes its Started and starts the next spare shell
}

// setSpares replaces the spare shells according to a Hello.
func (a *Agent) setSpares(usual int) {
	a.procs.do(func() { a.resetSpares(usual) })
	if usual > 0 {
		go a.refill()
	}
}

// resetSpares ends all spare shells and sets how many there are to be. The caller
// holds the lock.
func (a *Agent) resetSpares(usual int) {
	s := &a.spares
	a.discardSpares()
	s.usual = min(usual, mostSpares)
	if !a.domains.apart() {
		s.usual = min(s.usual, 1) // a claim ends the others
	}
	if !a.shell.bash || !plainStart(a.env) {
		s.usual = 0
	}
	s.want, s.failed = s.usual, 0
	if s.usual > 0 && s.all == nil {
		s.begin(a)
	}
}

// begin creates what all spare shells share.
func (s *spares) begin(a *Agent) {
	var err error
	if s.script, err = spareFile(a.shell.path); err != nil {
		s.usual, s.want = 0, 0
		return
	}
	s.all = map[int]*spare{}
	s.late = stopped(func() {
		a.out.flush()
		a.refill()
	})
	s.calm = stopped(func() {
		a.procs.do(func() {
			s.want = s.usual
			a.retire(len(s.ready) - s.want)
		})
	})
}

// stopped returns a timer that is not running.
func stopped(f func()) *time.Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// refill starts the missing spare shells.
func (a *Agent) refill() {
	for a.addSpare() {
	}
}

func (a *Agent) addSpare() (added bool) {
	a.checkLimits()
	a.procs.do(func() { added = a.startSpare() })
	return added
}

// startSpare starts a spare shell if one is missing. The caller holds the lock.
func (a *Agent) startSpare() bool {
	s := &a.spares
	if s.suspended > 0 || s.count() >= s.want || !a.domains.apart() && a.occupied() {
		return false
	}
	next, err := a.newSpare(s.script)
	if err != nil {
		return false // the box is full or the directory missing: retried after the next run
	}
	s.all[next.pid] = next
	go a.prepare(next)
	return true
}

// count returns how many are idle or starting.
func (s *spares) count() (n int) {
	for _, one := range s.all {
		if !one.discarded {
			n++
		}
	}
	return n
}

// prepare waits until a new spare shell is idle. It ends with the spare shell at the
// latest.
func (a *Agent) prepare(one *spare) {
	err := one.await(a.shell.path)
	a.procs.do(func() { a.addIdle(one, err) })
}

// addIdle records that a spare shell is idle, or that it failed to become idle. The
// caller holds the lock.
func (a *Agent) addIdle(one *spare, err error) {
	s := &a.spares
	switch {
	case one.discarded:
	case err != nil:
		a.discard(one)
		if s.failed++; s.failed >= spareTries {
			s.failed, s.want = 0, 0
			s.calm.Reset(sparePause)
		}
	case s.all[one.pid] != one: // it has ended meanwhile
		one.close()
	default:
		s.failed, one.idle = 0, true
		s.ready = append(s.ready, one)
	}
}

// discard ends a spare shell. The caller holds the lock, so that it is not reaped and its pid
// not reused.
func (a *Agent) discard(one *spare) {
	one.discarded = true
	one.close()
	if a.spares.all[one.pid] == one {
		unix.Kill(one.pid, unix.SIGKILL)
	}
}

// retire ends n of the idle ones. The caller holds the lock.
func (a *Agent) retire(n int) {
	s := &a.spares
	for range n {
		a.discard(s.ready[0])
		s.ready = slices.Delete(s.ready, 0, 1)
	}
}

// reaped records that a process has ended, if it was a spare shell. The caller holds the lock.
func (s *spares) reaped(pid int) bool {
	one := s.all[pid]
	if one == nil {
		return false
	}
	delete(s.all, pid)
	s.ready = slices.DeleteFunc(s.ready, func(other *spare) bool { return other == one })
	if one.idle { // otherwise prepare notices it
		one.discarded = true
		one.close()
	}
	return true
}

// suspendSpares ends all spare shells and starts none until resumeSpares. A command that
// is to be killed may have planted code in a spare shell, which would outlive the
// command. And when the whole box is emptied, no run may claim a shell that is about to
// die.
func (a *Agent) suspendSpares() {
	a.procs.do(func() {
		a.spares.suspended++
		a.discardSpares()
	})
}

// discardSpares ends all spare shells. The caller holds the lock.
func (a *Agent) discardSpares() { a.discardExcept(nil) }

func (a *Agent) discardExcept(claimed *spare) {
	for _, one := range a.spares.all {
		if one != claimed {
			a.discard(one)
		}
	}
	a.spares.ready = nil
}

// sparesSuspended reports whether no spare shell may be started.
func (a *Agent) sparesSuspended() (yes bool) {
	a.procs.do(func() { yes = a.spares.suspended > 0 })
	return yes
}

func (a *Agent) resumeSpares() {
	a.procs.do(func() { a.spares.suspended-- })
}

// claimSpare gives the run an idle spare shell, if there is one and the command would see
// no difference to a new shell.
func (r *run) claimSpare(dir string, body wire.StartBody) (claimed bool) {
	r.agent.procs.do(func() { claimed = r.claimIdle(dir, body) })
	return claimed
}

// claimIdle is claimSpare for a caller that holds the lock.
func (r *run) claimIdle(dir string, body wire.StartBody) bool {
	a, s := r.agent, &r.agent.spares
	if s.usual == 0 || !spareCan(body) {
		return false
	}
	for len(s.ready) > 0 {
		one := s.ready[len(s.ready)-1]
		s.ready = s.ready[:len(s.ready)-1]
		if !a.domains.apart() {
			a.discardExcept(one)
		}
		if err := one.assign(dir, body); err != nil {
			a.discard(one)
			continue
		}
		delete(s.all, one.pid)
		r.spare, r.tree = one, one.tree
		r.prints(one.out)
		r.register(one.pid, []string{a.shell.path, "-c", body.Cmd})
		return true
	}
	if s.want > 0 && a.domains.apart() { // otherwise there are none, or one at most
		s.want = min(s.want+1, mostSpares)
		s.calm.Reset(burstTime)
	}
	s.late.Reset(slowRunDelay)
	return false
}

// refillAfterRun starts the missing spare shells at the end of a run, after its Exit is
// sent.
func (a *Agent) refillAfterRun() {
	a.procs.do(func() {
		if a.spares.late != nil {
			a.spares.late.Stop()
		}
	})
	a.out.flush() // the Started of runs that began meanwhile
	a.refill()
}

// restart starts a new shell for a run whose spare shell was killed before it had read
// its command. The command has not begun then.
func (r *run) restart(st exitStatus, body wire.StartBody) (again bool) {
	defer r.spare.talk.Close()
	r.do(func() { again = r.restartUnread(st, body) }) // a kill that comes now must find the new shell
	return again
}

// restartUnread is restart for a caller that holds the run's lock.
func (r *run) restartUnread(st exitStatus, body wire.StartBody) bool {
	if !st.wait.Signaled() || r.killing != nil || r.tree.collateral.Load() || r.agent.sparesSuspended() || !r.spare.unheard() {
		return false
	}
	ended := r.out
	ended.poll.Close()
	<-ended.closed
	dir, err := r.agent.resolve(body.Dir)
	if err == nil {
		_, err = r.spawnNew(dir, body)
	}
	if err != nil {
		r.out = ended
		return false
	}
	go r.out.copy()
	return true
}

// spareCan reports whether a spare shell can carry out a Start.
func spareCan(body wire.StartBody) bool {
	if body.Stdin || body.Window > 0 || body.TTY != nil || body.Shell != "" || len(body.Cmd) >= spareRoom-1 || strings.Contains(body.Cmd, "\x00") {
		return false
	}
	size := 0
	for _, v := range body.Env {
		size += 4*len(v) + 2 // the worst case of quoting
		if name, _, ok := strings.Cut(v, "="); !ok || !identifier(name) || strings.Contains(v, "\x00") {
			return false
		}
	}
	return size < spareText-5*spareRoom && sameAtRuntime(body.Env)
}

// plainStart reports whether a bash with this environment runs spareScript as intended.
func plainStart(env []string) bool {
	return !slices.ContainsFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "BASH") || slices.Contains([]string{"SHELLOPTS", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "TMOUT"}, name)
	})
}

// sameAtRuntime reports whether bash treats variables alike whether they are in its
// environment or set later, because it gives none of them a meaning of its own.
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

// ofBash are the other variables that bash sets, reads or treats specially.
var ofBash = strings.Fields(`
_ CDPATH CHILD_MAX COLUMNS COPROC DIRSTACK EMACS ENV EUID EXECIGNORE FCEDIT FIGNORE FUNCNAME FUNCNEST GLOBIGNORE GLOBSORT
GROUPS HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LANGUAGE LINENO LINES MACHTYPE MAPFILE OLDPWD
OPTARG OPTERR OPTIND OSTYPE PIPESTATUS POSIXLY_CORRECT POSIX_PEDANTIC PPID PWD RANDOM READLINE_ARGUMENT READLINE_LINE
READLINE_MARK READLINE_POINT REPLY SECONDS SHELL SHELLOPTS SHLVL SRANDOM TERM TIMEFORMAT TMOUT TZ UID WARMBOX_RUN
auto_resume histchars ignoreeof`)
