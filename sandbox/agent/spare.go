//go:build linux

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// spareRoom is how long a command for a spare can be. It is memory of each
	// spare, and what a longer command does takes longer than a shell to start.
	spareRoom = 8 << 10

	// spareText bounds what a spare is told besides. A socket holds it at once.
	spareText = 64 << 10
)

// spare is a shell that was started before its command came.
//
// It is started as `bash -c TEXT` like any other, with a text that only keeps
// room, and stops before that in the file that BASH_ENV names, waiting at a
// socket. Its command is then written over the text where the kernel put it, in
// the shell's own memory: bash looks at its argument when its start-up files are
// done. So the command is what `bash -c` was given, and not the argument of an
// eval, which would show: in error messages, in the trace of `set -x`, in exit
// codes, and since a shell replaces itself by its last program only where that is
// all there is to do, in its processes. What still shows is in the comment of
// the package.
//
// Commands have the spare's user id. What waits is kept from them all the same: it
// is in a domain of its own (see domains), so they can neither trace it nor open what
// it has, and where there are no domains it does not wait while any of them lives. One
// into whose output a command has written is not used. Nothing keeps commands from
// sending it signals, and where one has killed it a new shell is taken, nor from
// setting its priority and its processors. Where a run is killed the spares are too.
type spare struct {
	pid  int
	tree *tree
	talk *os.File // what it waits at
	out  [2]*os.File

	text uintptr // where its command goes
	home string  // its directory, as the kernel names it

	waits bool // it is ready; like gone, guarded by the agent's mu
	gone  bool // it is not to be used
}

// spareScript is what a spare does before its command. The last line leaves in $_
// what it is in a new shell.
const spareScript = `\exec 4<&-
\builtin printf . >&3
\builtin read -r -u 3 -N 1000000 BASH_ENV
\exec 3<&-
\builtin eval -- "$BASH_ENV"
\builtin : %s
`

// roomKeeper is the text that a command is written over. Were that in vain, it
// would run the command all the same.
var roomKeeper = fmt.Sprintf("%-*s", spareRoom, `eval -- "$BASH_EXECUTION_STRING"`)

// bashEnv is as long as a mark, by which it is replaced once bash has read it:
// then /proc/PID/environ is a new shell's.
var bashEnv = fmt.Sprintf("BASH_ENV=%s/dev/fd/4", strings.Repeat("/", markLen-len("BASH_ENV=/dev/fd/4")))

// spareFile returns the script as a file that nobody can change: for a moment of
// each spare's life others can open it.
func spareFile(shell string) (fd int, err error) {
	fd, err = unix.MemfdCreate("spare", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	_, err = unix.Pwrite(fd, fmt.Appendf(nil, spareScript, shell), 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// newSpare starts one. The caller holds a.mu.
func (a *Agent) newSpare(script int) (*spare, error) {
	s := &spare{tree: newTree()}
	files := fds{a.null}
	defer func() { files.close(a.null) }()
	for i := range s.out {
		ours, err := files.pipe(false)
		if err != nil {
			s.close()
			return nil, err
		}
		s.out[i] = ours
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.close()
		return nil, err
	}
	unix.SetNonblock(ends[0], true)
	s.talk = os.NewFile(uintptr(ends[0]), "spare")
	files = append(files, uintptr(ends[1]))
	env := latest(slices.Concat([]string{bashEnv}, a.env))
	s.pid, err = a.fork(&program{argv: []string{a.shell.path, "-c", roomKeeper}, env: env, dir: a.dir, files: append(files, uintptr(script))})
	if err != nil {
		s.close()
		return nil, err
	}
	s.tree.forker = a.forker
	preferForOOM(s.pid)
	return s, nil
}

// close gives back what the agent has of a spare that no run took.
func (s *spare) close() {
	for _, f := range []*os.File{s.talk, s.out[0], s.out[1]} {
		if f != nil {
			f.Close()
		}
	}
}

var errNoSpare = errors.New("not a shell that can be a spare")

// await waits until the spare waits, and finds the place for its command.
func (s *spare) await(shell string) error {
	var word [1]byte
	if _, err := s.talk.Read(word[:]); err != nil {
		return err
	}
	p, ok := readProc(s.pid)
	began := shell + "\x00-c\x00"
	was := []byte(began + roomKeeper + "\x00" + bashEnv)
	is := make([]byte, len(was))
	if n, err := peek(s.pid, p.args, is); !ok || err != nil || n < len(is) || !bytes.Equal(is, was) {
		return errNoSpare
	}
	home, err := os.Readlink(procPath(s.pid, "cwd"))
	if err != nil {
		return err
	}
	s.text, s.home = p.args+uintptr(len(began)), home
	return poke(s.pid, p.args+uintptr(len(was)-len(bashEnv)), []byte(s.tree.mark))
}

// peek reads another process's memory.
func peek(pid int, at uintptr, p []byte) (int, error) {
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	return unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(p)}}, 0)
}

// poke writes another process's memory, all of p or nothing that counts.
func poke(pid int, at uintptr, p []byte) error {
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := unix.ProcessVMWritev(pid, local, []unix.RemoteIovec{{Base: at, Len: len(p)}}, 0)
	if err == nil && n < len(p) {
		err = unix.EFAULT
	}
	return err
}

// give makes the spare run a command. Where it fails the spare is as good as dead.
// The caller holds a.mu, so that the pid is still the spare's.
func (s *spare) give(dir string, body wire.StartBody) error {
	if !s.silent() {
		return errNoSpare
	}
	var command [spareRoom]byte // zeros to the end, where the room keeper was
	copy(command[:], asArgument(body.Cmd))
	if err := poke(s.pid, s.text, command[:]); err != nil {
		return err
	}
	raw, err := s.talk.SyscallConn()
	if err != nil {
		return err
	}
	text := s.bootstrap(dir, body)
	if e := raw.Control(func(fd uintptr) {
		var n int
		if n, err = unix.Write(int(fd), text); err == nil && n < len(text) {
			err = unix.EAGAIN
		}
		if err == nil {
			err = unix.Shutdown(int(fd), unix.SHUT_WR)
		}
	}); e != nil {
		return e
	}
	unix.Kill(s.pid, unix.SIGCONT) // somebody may have stopped it
	return err
}

// silent reports whether nothing is in its pipes. What is there some command has
// put there, which can open them.
func (s *spare) silent() bool {
	for _, f := range s.out {
		raw, err := f.SyscallConn()
		if err != nil {
			return false
		}
		n := -1
		raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if n != 0 {
			return false
		}
	}
	return true
}

// bootstrap returns what makes the waiting shell as one that starts now. It is
// made for bash as it is before any command: nothing is defined that could get
// between.
func (s *spare) bootstrap(dir string, body wire.StartBody) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "SECONDS=0 BASH_EXECUTION_STRING=%s\nexport %s", quote(asArgument(body.Cmd)), s.tree.mark)
	for _, v := range body.Env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, " %s=%s", name, quote(value))
	}
	b.WriteByte('\n')
	if !s.isIn(dir) {
		// -P as the kernel would say it, and with one slash, since bash keeps two.
		fmt.Fprintf(&b, "cd -P -- %s || exit\nunset -v OLDPWD\nexport OLDPWD\n", quote("/"+strings.TrimLeft(dir, "/")))
	}
	b.WriteString("unset -v BASH_ENV\n")
	return b.Bytes()
}

// isIn reports whether the spare is in a directory, and that has still the name
// that the spare knows it by.
func (s *spare) isIn(dir string) bool {
	var want, has unix.Stat_t
	cwd := procPath(s.pid, "cwd")
	if unix.Stat(dir, &want) != nil || unix.Stat(cwd, &has) != nil || want.Dev != has.Dev || want.Ino != has.Ino {
		return false
	}
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(cwd, buf[:])
	return err == nil && string(buf[:n]) == s.home
}

// unheard reports whether the spare ended before it had read what it was given:
// then the socket tells of bytes that nobody took. It is asked once.
func (s *spare) unheard() bool {
	_, err := s.talk.Read(make([]byte, 1))
	return errors.Is(err, syscall.ECONNRESET)
}
