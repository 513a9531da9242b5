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
	// spareRoom bounds a command for a spare shell, in bytes. Each spare shell reserves
	// that much memory, and a longer command takes more time than a shell takes to start.
	spareRoom = 8 << 10

	// spareText bounds the script that a spare shell is sent. A socket buffers that much
	// at once.
	spareText = 64 << 10
)

// spare is a shell that was started before its command arrived.
//
// It is started as `bash -c TEXT` like any other, where TEXT only reserves memory. Before
// bash runs TEXT it reads the file that BASH_ENV names, in which it waits at a socket.
// The agent writes the command over TEXT at the address where the kernel put it in the
// shell's memory: bash reads its argument only after its start-up files. So the command
// is the argument of `bash -c`, not that of an eval. An eval would show: in error
// messages, in the trace of `set -x` and in exit codes. It would also show in the
// processes, since a shell replaces itself by its last program only if nothing else is
// left to do. The package comment lists what still shows.
//
// Commands have the spare shell's user id, and are still kept from it: it is in a
// Landlock domain of its own (see domains), so they can neither trace it nor open its
// descriptors and memory. Without domains no spare shell runs while any command lives. A
// spare shell into whose output a command has written is not used. Commands can still
// signal it (a new shell is started if one has killed it) and set its priority and
// processors. When a run is killed, the spare shells are too.
type spare struct {
	pid  int
	tree *tree
	talk *os.File // the socket at which it waits
	out  *pump    // without a run

	text uintptr // the address of its command
	home string  // its working directory, as the kernel names it

	idle      bool // it waits for a command; like discarded, guarded by the lock of processes
	discarded bool // it must not be used
}

// spareScript is what a spare shell runs before its command. The last line sets $_ to its
// value in a new shell.
const spareScript = `\exec 4<&-
\builtin printf . >&3
\builtin read -r -u 3 -N 1000000 BASH_ENV
\exec 3<&-
\builtin eval -- "$BASH_ENV"
\builtin : %s
`

// placeholder is the text that the command is written over. If it were run all the same,
// it would still run the command.
var placeholder = fmt.Sprintf("%-*s", spareRoom, `eval -- "$BASH_EXECUTION_STRING"`)

// bashEnv is as long as a mark, which replaces it after bash has read it: then
// /proc/PID/environ is like that of a new shell.
var bashEnv = fmt.Sprintf("BASH_ENV=%s/dev/fd/4", strings.Repeat("/", markLen-len("BASH_ENV=/dev/fd/4")))

// spareFile returns the script as a file that cannot be changed: for a moment of each
// spare shell's life, other processes can open it.
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

// newSpare starts a spare shell. The caller holds the lock.
func (a *Agent) newSpare(script int) (*spare, error) {
	s := &spare{tree: newTree()}
	files := fds{a.null}
	defer func() { files.close(a.null) }()
	out, err := files.outputs()
	if err != nil {
		return nil, err
	}
	s.out = out
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.close()
		return nil, err
	}
	unix.SetNonblock(ends[0], true)
	s.talk = os.NewFile(uintptr(ends[0]), "spare")
	files = append(files, uintptr(ends[1]))
	env := lastOfEach(slices.Concat([]string{bashEnv}, a.env))
	s.pid, err = a.fork(&program{argv: []string{a.shell.path, "-c", placeholder}, env: env, dir: a.dir, files: append(files, uintptr(script))})
	if err != nil {
		s.close()
		return nil, err
	}
	s.tree.forker = a.procs.forker
	preferForOOM(s.pid)
	return s, nil
}

// close closes the agent's descriptors of a spare shell that no run has claimed.
func (s *spare) close() {
	if s.talk != nil {
		s.talk.Close()
	}
	s.out.close()
}

var errNoSpare = errors.New("the shell cannot be used as a spare")

// await waits until the spare shell is idle, and finds the address for its command.
func (s *spare) await(shell string) error {
	var ready [1]byte
	if _, err := s.talk.Read(ready[:]); err != nil {
		return err
	}
	p, ok := readProc(s.pid)
	began := shell + "\x00-c\x00"
	was := []byte(began + placeholder + "\x00" + bashEnv)
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

// peek reads memory of another process.
func peek(pid int, at uintptr, p []byte) (int, error) {
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	return unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: at, Len: len(p)}}, 0)
}

// poke writes memory of another process. A partial write is an error.
func poke(pid int, at uintptr, p []byte) error {
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := unix.ProcessVMWritev(pid, local, []unix.RemoteIovec{{Base: at, Len: len(p)}}, 0)
	if err == nil && n < len(p) {
		err = unix.EFAULT
	}
	return err
}

// assign makes the spare shell run a command. After an error the spare shell cannot be
// used. The caller holds the lock, so that the pid is still the spare shell's.
func (s *spare) assign(dir string, body wire.StartBody) error {
	if !s.silent() {
		return errNoSpare
	}
	var command [spareRoom]byte // zeros overwrite the rest of the placeholder
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
	unix.Kill(s.pid, unix.SIGCONT) // a command may have stopped it
	return err
}

// silent reports whether its output pipes are empty. A command can open them and write to
// them.
func (s *spare) silent() bool {
	return !slices.ContainsFunc(s.out.sources, func(x *source) bool {
		n, err := x.unread()
		return n > 0 || err != nil
	})
}

// bootstrap returns the script that gives the idle shell the state of one that starts
// now. It relies on bash having run no command yet, so that no definition can interfere.
func (s *spare) bootstrap(dir string, body wire.StartBody) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "SECONDS=0 BASH_EXECUTION_STRING=%s\nexport %s", quote(asArgument(body.Cmd)), s.tree.mark)
	for _, v := range body.Env {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, " %s=%s", name, quote(value))
	}
	b.WriteByte('\n')
	if !s.isIn(dir) {
		// -P gives the kernel's name of the directory. One leading slash, since bash keeps two.
		fmt.Fprintf(&b, "cd -P -- %s || exit\nunset -v OLDPWD\nexport OLDPWD\n", quote("/"+strings.TrimLeft(dir, "/")))
	}
	b.WriteString("unset -v BASH_ENV\n")
	return b.Bytes()
}

// isIn reports whether the spare shell is in a directory that still has the name under
// which the shell entered it.
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

// unheard reports whether the spare shell ended before it had read what it was sent: then
// the socket reports unread bytes. Call it once.
func (s *spare) unheard() bool {
	_, err := s.talk.Read(make([]byte, 1))
	return errors.Is(err, syscall.ECONNRESET)
}
