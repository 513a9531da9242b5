//go:build linux

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// names are the named shells. A named shell is not a process but a state: a file that
// bash writes at the end of each command and reads at the start of the next (see
// bootstrap). So every command is an ordinary run, and a command that is killed leaves
// the shell unchanged.
//
// Only the agent's user can enter the directory of the files. Commands have the same user
// id and may change the files. A command that does so harms only later commands of the
// box: the agent renames the files and never interprets them.
type names struct {
	mu  sync.Mutex
	dir string           // "" before the first use
	all map[string]*name // every shell that was ever used
}

// name is a named shell.
type name struct {
	busy  bool // a command runs in it
	saved bool // its state has been saved
}

// named is one run's use of a named shell.
type named struct {
	*name
	names *names
	state string // the file with the state after the last command
	next  string // the file for the state after this command
	fresh bool   // there is no state of a last command
	trap  bool   // the command may set a trap on EXIT itself
}

func (n *names) busy(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[name] != nil && n.all[name].busy
}

// enter prepares a run in a named shell: bash reads the file that BASH_ENV names before
// its command.
func (r *run) enter(p *program, body wire.StartBody) error {
	if body.Shell == "" {
		return nil
	}
	if !r.agent.shell.bash {
		return unix.Errno(0)
	}
	n, err := r.agent.names.use(body, r.agent.env)
	if err != nil {
		return err
	}
	r.named = n
	boot := bootstrap{named: n, fd: len(p.files), environ: p.env, set: append(body.Env, r.tree.mark), dir: p.dir, move: body.Dir != ""}
	fd, err := memFile(boot.String())
	if err != nil {
		return err
	}
	p.files = append(p.files, uintptr(fd))
	p.env = append(p.env, fmt.Sprintf("BASH_ENV=/dev/fd/%d", boot.fd))
	return nil
}

// use reserves a named shell for a run.
func (n *names) use(body wire.StartBody, env []string) (*named, error) {
	called := body.Shell
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dir == "" || unix.Access(n.dir, unix.W_OK) != nil {
		if err := n.makeDir(env); err != nil {
			return nil, err
		}
	}
	if n.all == nil {
		n.all = map[string]*name{}
	}
	if n.all[called] == nil {
		n.all[called] = &name{}
	}
	if n.all[called].busy { // with a run that its host has forgotten and that is ending
		return nil, unix.EBUSY
	}
	u := &named{name: n.all[called], names: n, state: filepath.Join(n.dir, called), trap: strings.Contains(body.Cmd, "trap")}
	u.busy = true
	u.next = u.state + "~"         // no shell's name contains "~"
	file, err := os.Lstat(u.state) // opening a pipe in its place would block the command
	u.fresh = err != nil || !file.Mode().IsRegular()
	u.create()
	return u, nil
}

// makeDir creates the directory, preferably in memory: a state is some kilobytes, written
// line by line.
func (n *names) makeDir(env []string) (err error) {
	for _, base := range []string{"/dev/shm", tempDir(env)} {
		if n.dir, err = os.MkdirTemp(base, "warmbox-shells-"); err == nil {
			return nil
		}
	}
	return errnoOf(err)
}

// create creates the file to save to, since a command's umask could make it unreadable.
// If that fails, the state is not saved and the Exit says so.
func (n *named) create() {
	os.Remove(n.next)
	if fd, err := unix.Open(n.next, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600); err == nil {
		unix.Close(fd)
	}
}

// tempDir returns the directory for the states. Its name becomes part of scripts, so one
// that would need quoting is not used.
func tempDir(env []string) string {
	dir := "/tmp"
	for _, v := range env {
		if d, ok := strings.CutPrefix(v, "TMPDIR="); ok && filepath.IsAbs(d) && !strings.ContainsFunc(d, special) {
			dir = d
		}
	}
	return dir
}

func special(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+,@", r))
}

// errnoOf returns the errno in an error of package os.
func errnoOf(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

// settle ends the run's use of the shell and returns what became of its state. What a
// killed command has written is discarded.
func (n *named) settle(killed bool) string {
	n.names.mu.Lock()
	defer n.names.mu.Unlock()
	n.busy = false
	had := n.saved
	if !killed && whole(n.next) && os.Rename(n.next, n.state) == nil {
		n.saved = true
		if had && n.fresh {
			return wire.ShellLost
		}
		return wire.ShellSaved
	}
	os.Remove(n.next)
	if _, err := os.Lstat(n.state); had && err != nil {
		n.saved = false
		return wire.ShellLost
	}
	return wire.ShellKept
}

// whole reports whether a state was written completely.
func whole(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	var last [len(stateEnd) + 1]byte
	n, _ := unix.Pread(fd, last[:], st.Size-int64(len(last)))
	return string(last[:max(n, 0)]) == stateEnd+"\n"
}

// remove removes the states by their names, and leaves other files in the directory
// alone.
func (n *names) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.all {
		os.Remove(filepath.Join(n.dir, name))
		os.Remove(filepath.Join(n.dir, name+"~"))
	}
	if n.dir != "" {
		os.Remove(n.dir)
	}
}
