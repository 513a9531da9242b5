//go:build linux

package agent

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

const (
	// maxShimCalls bounds the calls at once. Each has a descriptor, a goroutine and a
	// record; a box at its process limit cannot have as many.
	maxShimCalls = 1024

	// maxShimCallsOfRun bounds those of one run, so that no run takes all from others.
	maxShimCallsOfRun = maxShimCalls / 4

	// shimRequestTime is how long a connection may take to ask. A shim asks at once.
	shimRequestTime = 10 * time.Second

	// shimBacklog is how many connections may wait to be accepted.
	shimBacklog = 1024
)

// shims puts shims in front of programs: a directory that is first in the PATH of every
// command has a link to the agent's program for each name. Executed by such a link the
// program is a shim, see there. It asks the agent at a socket, whose name another link has.
//
// Commands have the agent's user id. They can call programs by their paths, leave the
// directory out of PATH, and change it, so shims are no boundary. The agent opens, executes
// and waits for nothing that a request names: it compares what the request says, answers,
// and makes a record.
type shims struct {
	agent *Agent

	mu     sync.Mutex // guards the rest; held for moments
	rules  *wire.Shims
	dir    string // "" until the first rules
	listen *os.File
	calls  int // connections
	byRun  map[wire.ID]int
	made   shimPrint // the directory as the agent has made it
}

// setShims sets up the shims that a Hello asks for, and puts their directory into the
// environment of all runs. An error is a violation of the rules, or has the errno because of which
// there are none.
func (a *Agent) setShims(rules *wire.Shims) error {
	s := &a.shims
	s.agent = a
	if rules == nil && s.dir == "" {
		return nil
	}
	if rules != nil {
		if err := rules.Check(); err != nil {
			return err
		}
		a.programs.mute(false) // each call is recorded
	}
	var env []string
	a.procs.do(func() { env = a.env })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		s.repair() // as the last host wanted it, since that is known
	}
	s.rules = rules
	if rules != nil {
		if err := s.place(env); err != nil {
			return err
		}
	}
	s.link()
	s.made, _ = s.look()
	a.procs.do(func() { a.env = s.first(a.env) })
	return nil
}

// place makes the directory, in the first of some places where its links can be executed.
// The first is in memory, and commands empty it less often than /tmp. The caller holds the
// lock.
func (s *shims) place(env []string) (err error) {
	if startStack == nil {
		return unix.ENOSYS // this program has another entry: a test program, or a plain go build
	}
	if s.dir != "" {
		return nil
	}
	home := ""
	for _, v := range env {
		if h, ok := strings.CutPrefix(v, "HOME="); ok && filepath.IsAbs(h) {
			home = h
		}
	}
	for _, base := range []string{"/dev/shm", tempDir(env), "/tmp", home} {
		if base == "" || strings.ContainsAny(base, ":\n") || len(base) > maxShimPath/2 {
			continue
		}
		dir, failed := os.MkdirTemp(base, shimDirPrefix)
		if failed == nil {
			failed = s.fill(dir)
		}
		if failed == nil {
			return nil
		}
		if dir != "" {
			removeShims(dir)
		}
		err = errors.Join(err, failed)
	}
	return errnoOf(err)
}

// fill makes what the directory has besides the names' links, and listens at its socket.
func (s *shims) fill(dir string) error {
	if err := os.Mkdir(dir+shimBin, 0o700); err != nil {
		return err
	}
	if err := linkProgram(dir); err != nil {
		return err
	}
	// A link of the kind that each name gets: on a file system that executes nothing, a
	// copy of the program cannot run.
	if err := unix.Access(dir+shimProgram, unix.X_OK); err != nil {
		return err
	}
	// The name says nothing to a process that cannot read the directory. In a box it is in
	// the box's own name space, and no file system shows a socket.
	name := "@" + shimDirPrefix + rand.Text()
	listen, err := listenPackets(name)
	if err != nil {
		return err
	}
	if err := os.Symlink(name, dir+shimSocket); err != nil {
		listen.Close()
		return err
	}
	if s.listen != nil {
		s.listen.Close()
	}
	s.dir, s.listen = dir, listen
	go s.accept(listen)
	return nil
}

// linkProgram makes shimProgram: a link where the program has a path, otherwise a copy. An agent
// that is a plain process runs from a file in memory.
func linkProgram(dir string) error {
	const self = "/proc/self/exe"
	var is, named unix.Stat_t
	if err := unix.Stat(self, &is); err != nil {
		return err
	}
	path, err := os.Readlink(self)
	if err == nil && unix.Stat(path, &named) == nil && named.Dev == is.Dev && named.Ino == is.Ino {
		return os.Symlink(path, dir+shimProgram)
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dir+shimProgram, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// listenPackets listens at an abstract socket for connections that keep packets apart.
func listenPackets(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err == nil {
		err = unix.Listen(fd, shimBacklog)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// link makes the links of the rules' names and removes all others. The caller holds the
// lock.
func (s *shims) link() {
	if s.dir == "" {
		return
	}
	// Commands cannot write to it unless they take that right themselves.
	os.Chmod(s.dir+shimBin, 0o700)
	defer os.Chmod(s.dir, 0o500)
	defer os.Chmod(s.dir+shimBin, 0o500)
	names := s.names()
	for _, old := range namesIn(s.dir + shimBin) {
		if !slices.Contains(names, old) {
			os.Remove(filepath.Join(s.dir+shimBin, old))
		}
	}
	for _, name := range names {
		os.Symlink(shimTarget, filepath.Join(s.dir+shimBin, name)) // fails if it is there
	}
}

// names returns the names of the rules. The caller holds the lock.
func (s *shims) names() []string {
	if s.rules == nil {
		return nil
	}
	return s.rules.All()
}

// mend makes the directory again if a command has removed or changed it. It costs a few system
// calls and one for each name before each run, where there are shims.
func (s *shims) mend() {
	if s.agent == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rules != nil {
		s.repair()
	}
}

// repair makes the directory again if it is not as the agent has made it. The caller holds the
// lock.
func (s *shims) repair() {
	if is, whole := s.look(); whole && is == s.made {
		return
	}
	putAside(s.dir)
	if os.Mkdir(s.dir, 0o700) == nil && s.fill(s.dir) == nil { // else something else is there: programs run without shims
		s.link()
		s.made, _ = s.look()
	}
}

// shimPrint tells a directory of shims from one that was changed: processes cannot set the time
// of a change. A link cannot change in its place, so the directory's times tell of it.
type shimPrint [4]struct {
	dev, ino uint64
	mode     uint32
	changed  unix.Timespec
}

// look looks at the directory. It reports false if the names or where they lead to are not
// what the agent has made, which times do not tell if a change follows at once. The caller
// holds the lock.
func (s *shims) look() (is shimPrint, whole bool) {
	for i, path := range []string{"", shimBin, shimSocket, shimProgram} {
		var st unix.Stat_t
		if unix.Lstat(s.dir+path, &st) != nil {
			return is, false
		}
		is[i].dev, is[i].ino, is[i].mode, is[i].changed = uint64(st.Dev), st.Ino, st.Mode, st.Ctim
	}
	if to, err := os.Readlink(s.dir + shimSocket); err != nil || to != s.listen.Name() {
		return is, false
	}
	for _, name := range s.names() {
		if to, err := os.Readlink(filepath.Join(s.dir+shimBin, name)); err != nil || to != shimTarget {
			return is, false
		}
	}
	return is, true
}

// putAside moves what is in the place of a directory of shims to another name, and removes it in
// the background: a command can have filled it. It follows no link.
func putAside(dir string) {
	aside := dir + "-" + rand.Text()
	if os.Rename(dir, aside) != nil {
		return
	}
	go func() {
		if fd, err := unix.Open(aside, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
			unix.Fchmod(fd, 0o700)
			if bin, err := unix.Openat(fd, shimBin[1:], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err == nil {
				unix.Fchmod(bin, 0o700)
				unix.Close(bin)
			}
			unix.Close(fd)
		}
		os.RemoveAll(aside)
	}()
}

// first returns an environment in which the directory is first in each PATH, if there are
// shims. The caller holds the lock of shims.
func (s *shims) first(env []string) []string {
	if s.dir == "" {
		return env
	}
	env = slices.Clone(env)
	for i, v := range env {
		path, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		path = strings.TrimPrefix(path, s.dir+shimBin+":")
		if s.rules != nil {
			path = s.dir + shimBin + ":" + path
		}
		env[i] = "PATH=" + path
	}
	return env
}

// inPath is first for a run's own variables.
func (s *shims) inPath(env []string) []string {
	if s.agent == nil || !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		return env
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first(env)
}

// remove removes the directory at the agent's end.
func (s *shims) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" {
		s.rules = nil
		s.listen.Close()
		s.link()
		removeShims(s.dir)
	}
}

// removeShims removes what the agent has made in a directory, and the directory unless
// something else is in it. It follows no link: a command can have put one in its place.
func removeShims(dir string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Fchmod(fd, 0o700)
		unix.Unlinkat(fd, shimSocket[1:], 0)
		unix.Unlinkat(fd, shimProgram[1:], 0)
		unix.Unlinkat(fd, shimBin[1:], unix.AT_REMOVEDIR)
		unix.Close(fd)
	}
	os.Remove(dir)
}

// accept accepts connections until the socket is closed.
func (s *shims) accept(listen *os.File) {
	raw, err := listen.SyscallConn()
	for err == nil {
		conn := -1
		var failed error
		err = raw.Read(func(fd uintptr) bool {
			conn, _, failed = unix.Accept4(int(fd), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return failed != unix.EAGAIN
		})
		switch {
		case err != nil:
		case failed == unix.EMFILE || failed == unix.ENFILE || failed == unix.ENOMEM || failed == unix.ENOBUFS:
			time.Sleep(rescanSoon) // until a call has ended
		case failed != nil:
		case !s.admit(conn):
			unix.Close(conn)
		default:
			go s.serve(conn)
		}
	}
}

// admit counts a connection, of a process of the agent's user or of root.
func (s *shims) admit(conn int) bool {
	cred, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls >= maxShimCalls {
		return false
	}
	s.calls++
	return true
}

// take counts a connection of a run, and reports false if the run has too many. The zero id
// stands for all processes whose run is not known.
func (s *shims) take(run wire.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRun[run] >= maxShimCallsOfRun {
		return false
	}
	if s.byRun == nil {
		s.byRun = map[wire.ID]int{}
	}
	s.byRun[run]++
	return true
}

// release ends what take began.
func (s *shims) release(run wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRun[run]--; s.byRun[run] == 0 {
		delete(s.byRun, run)
	}
}

// serve serves one call of a shim.
func (s *shims) serve(conn int) {
	f := os.NewFile(uintptr(conn), "shim")
	defer func() {
		f.Close()
		s.mu.Lock()
		s.calls--
		s.mu.Unlock()
	}()
	pid := 0
	if cred, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
		pid = int(cred.Pid)
	}
	run, windowed := s.runOf(pid)
	if !s.take(run) {
		return
	}
	defer s.release(run)
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	f.SetReadDeadline(time.Now().Add(shimRequestTime))
	var req shimCall
	ok := false
	if raw.Read(func(fd uintptr) bool {
		buf := shimCalls.Get().(*[maxShimCall + 1]byte) // only while there is something to read
		defer shimCalls.Put(buf)
		n, err := unix.Read(int(fd), buf[:])
		if err == unix.EAGAIN {
			return false
		}
		if req, ok = parseShim(buf[:max(n, 0)]); ok {
			ok = err == nil && req.plausible() && s.answer(int(fd), req, windowed)
		}
		return true
	}) != nil || !ok {
		return
	}
	f.SetReadDeadline(time.Time{})
	s.awaitEnd(raw, s.agent.programs.called(run, req.record(pid)))
}

var shimCalls = sync.Pool{New: func() any { return new([maxShimCall + 1]byte) }}

// shimCall is a request of a shim. Everything in it is what the shim says.
type shimCall struct {
	shimRequest
	name, program string
	args          []string // as far as they are listed
	cut           bool     // the last argument is not whole
}

// parseShim parses a request. The texts are copied.
func parseShim(p []byte) (c shimCall, ok bool) {
	if len(p) < shimHeader || len(p) > maxShimCall {
		return c, false
	}
	c.shimRequest = *(*shimRequest)(unsafe.Pointer(unsafe.SliceData(slices.Clone(p[:shimHeader]))))
	p = p[shimHeader:]
	if c.Magic != shimMagic || c.Name > maxShimPath || c.Program > maxShimPath || c.Listed > maxShimArgs ||
		uint64(c.Listed) > c.All || int(c.Name+c.Program+c.Listed) != len(p) {
		return c, false
	}
	next := func(n uint32) (s string) {
		s, p = string(p[:n]), p[n:]
		return s
	}
	c.name, c.program = next(c.Name), next(c.Program)
	c.args = strings.Split(next(c.Listed), "\x00")
	if last := len(c.args) - 1; c.args[last] == "" { // each ends with a NUL
		c.args = c.args[:last]
	} else {
		c.cut = true
	}
	return c, len(c.args) <= int(c.Args)
}

// plausible reports whether the program has the name of the shim, as what a shim finds has.
func (c *shimCall) plausible() bool {
	return c.name != "" && !strings.Contains(c.name, "/") && (c.program == "" || c.program == c.name || strings.HasSuffix(c.program, "/"+c.name))
}

// answer decides and answers.
func (s *shims) answer(fd int, c shimCall, windowed bool) (ok bool) {
	a, text := s.decide(c, windowed)
	a.Text = uint32(len(text))
	p := append(slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a))), text...)
	_, err := unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	return err == nil
}

// decide decides by the rules. A call of a run with a window has no time limit: such a run
// serves a client for as long as that wants.
func (s *shims) decide(c shimCall, windowed bool) (a shimAnswer, text string) {
	s.mu.Lock()
	rules := s.rules
	s.mu.Unlock()
	a.Verdict = shimAllow
	if rules == nil { // a host without shims has taken over meanwhile
		return a, ""
	}
	if text, denied := rules.Deny[c.name]; denied {
		a.Verdict = shimDeny
		return a, text
	}
	if !windowed {
		a.TimeoutMillis = rules.TimeoutMillis
	}
	if (rules.OutputBytes > 0 || rules.OutputLines > 0) && s.ownOutput(c.Streams[1]) {
		a.Bytes, a.Lines = rules.OutputBytes, rules.OutputLines
	}
	return a, ""
}

// ownOutput reports whether a stream is a pipe that a run prints to. A terminal is none: its
// programs draw. Nor is a pipe whose bytes the host passes on to a program's own client.
func (s *shims) ownOutput(stream shimStream) bool {
	if stream.Mode&unix.S_IFMT != unix.S_IFIFO {
		return false
	}
	return slices.ContainsFunc(s.agent.procs.all(), func(r *run) bool {
		var out *pump
		r.do(func() { out = r.out })
		return out.has(stream)
	})
}

// has reports whether one of the pump's pipes is a stream.
func (p *pump) has(stream shimStream) bool {
	return slices.ContainsFunc(p.sources, func(x *source) (same bool) {
		raw, err := x.file.SyscallConn()
		if err != nil || x.tty || x.window != nil {
			return false
		}
		raw.Control(func(fd uintptr) {
			var st unix.Stat_t
			same = unix.Fstat(int(fd), &st) == nil && st.Dev == stream.Dev && st.Ino == stream.Ino
		})
		return same
	})
}

// runOf returns the run of a process, by its session, and else by its parents, and whether
// that has a window.
func (s *shims) runOf(pid int) (id wire.ID, windowed bool) {
	procs := s.agent.procs
	procs.do(func() {
		for hops := 0; pid > 1 && hops < 64; hops++ {
			sid, _ := unix.Getsid(pid)
			for _, r := range procs.runs {
				if sid > 0 && r.tree.sessions[sid] || r.pid == pid {
					id, windowed = r.id, r.host != nil
					return
				}
			}
			p, ok := readProc(pid)
			if !ok {
				return
			}
			pid = p.ppid
		}
	})
	return id, windowed
}

// record returns what the audit says of a call.
func (c *shimCall) record(pid int) wire.Program {
	b := wire.Program{Pid: pid, Path: c.program, Args: slices.Clone(c.args), Cut: c.cut, More: int(c.Args) - len(c.args), Shim: true}
	if p, ok := readProc(pid); ok {
		b.Parent = p.ppid
	}
	if b.Path == "" {
		b.Path, b.Failed = c.name, true
	}
	return b
}

// awaitEnd waits for the end of a call, and completes its record.
func (s *shims) awaitEnd(raw interface {
	Read(func(uintptr) bool) error
}, record *programRecord) {
	raw.Read(func(fd uintptr) bool {
		var end shimEnd
		n, err := unix.Read(int(fd), unsafe.Slice((*byte)(unsafe.Pointer(&end)), unsafe.Sizeof(end)))
		if err == unix.EAGAIN {
			return false
		}
		if n != int(unsafe.Sizeof(end)) || err != nil || !end.valid() {
			return true // the shim was killed, or it is none
		}
		s.agent.programs.returned(record, end)
		return true
	})
}

// called queues the record of a call that has not ended. If the agent sees what processes
// execute, it has a record of the shim already, which becomes that of the call.
func (p *programs) called(run wire.ID, body wire.Program) (r *programRecord) {
	boundProgram(&body)
	p.do(func() {
		if r = p.observer.shim(body.Pid); r != nil {
			return
		}
		r = &programRecord{run: run, at: time.Now(), body: body}
		p.enqueue(r)
	})
	return r
}

// shim marks and returns the record of a process that executes a shim, nil if there is none
// that is not sent yet. The caller holds the lock of programs.
func (o *observer) shim(pid int) *programRecord {
	if o == nil || o.table.processes[pid] == nil {
		return nil
	}
	p := o.table.processes[pid]
	for _, r := range []*programRecord{p.try, p.is} {
		if r != nil && !r.sent {
			r.body.Shim, r.observed = true, true
			return r
		}
	}
	return nil
}

// returned adds to the record of a call how it ended: to the record itself if it is not sent
// yet, otherwise by another.
func (p *programs) returned(r *programRecord, end shimEnd) {
	if r == nil {
		return
	}
	code := exitBody(exitStatus{wait: syscall.WaitStatus(end.Status)}).Code
	if end.How == shimTimedOut {
		code = shimTimeoutCode // as the caller sees it
	}
	p.do(func() {
		r.body.Denied, r.body.Limited = end.How == shimDenied, end.Cut != 0
		if !r.observed {
			r.body.Exit, r.body.Failed = &code, end.How == shimDenied || end.How == shimMissing
		}
		if r.sent && (!r.observed || r.body.Denied || r.body.Limited) {
			p.amend(r)
		}
	})
}
