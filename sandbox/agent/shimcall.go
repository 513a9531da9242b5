//go:build linux

package agent

import (
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmbox/warmbox/sandbox/wire"
)

// A shim is this program, executed by the path of a link in the directory of shims (see
// shims). It asks the agent, starts the real program as its child, and ends as that ended.
//
// It runs before the Go runtime: beforeRuntime is called by the program's entry, on the
// kernel's stack. So a call costs two starts of a small process, where the runtime alone
// would take longer than most programs, and the shim has one thread and has changed no
// limit, signal or descriptor that the program inherits. It follows that nothing in this
// file may allocate, defer, panic or start a goroutine, or use what an initialiser sets. A
// test checks with the compiler that nothing escapes to the heap.
//
// Why the shim and not the agent starts the program: no process can join the process group
// and the terminal of another session, and a child of the agent would not be the caller's.

// Set by the entry.
var (
	startStack unsafe.Pointer // argc, and what the kernel put behind it; nil: another entry
	//lint:ignore U1000 the program's entry uses it, which is assembly
	startG [512]byte // the goroutine that there is before the runtime: all zero
	//lint:ignore U1000 likewise
	startTLS [2]uintptr
)

// Exit codes of a shim itself. The others are the program's.
const (
	shimFailedCode  = 1
	shimTimeoutCode = 124 // as with timeout(1)
	shimDeniedCode  = 126 // as a shell says that it may not execute something
	shimMissingCode = 127 // as a shell says that there is no such program
)

const (
	// shimPatience is how long a shim waits for the agent, in seconds: about a hundred
	// times what a busy machine was seen to take.
	shimPatience = 10

	// shimGrace is how long a program may go on after SIGTERM at its time limit.
	shimGrace = 2 * 1000 * 1000 * 1000

	never = -1
)

// truncated is the line that stands for output above the limit.
const truncated = "...[truncated]\n"

// A shim is one call of a program that has a shim.
type shim struct {
	argc       int
	argv       unsafe.Pointer // a list of pointers, with a nil at its end; envp follows
	envp       unsafe.Pointer
	link       string // the path by which the shim was executed
	dir, name  string
	program    string // the file to run; "" if there is none
	unusable   string // a file that is in the way: it may not be executed
	streams    [3]shimStream
	conn       int // to the agent
	agent      int // its pid
	answer     shimAnswer
	child      int
	before     uint64 // the signal mask
	childBlind bool   // SIGCHLD was ignored
	signals    int    // a signalfd of all signals
	out        int    // the pipe that the program prints to; never: it has its own output
	merged     bool   // its stderr is its stdout
	status     uint32
	timedOut   bool
	deadline   int64 // never: none
	cut        cutter
}

// Buffers. They are no part of the stack, whose size a caller sets, and cost nothing in an
// agent, which does not touch them.
var (
	shimFile     [maxShimPath]byte // the program
	shimUnusable [maxShimPath]byte
	shimLink     [maxShimPath]byte // shim.link, if that is not the kernel's own text

	shimTargetBuf [maxShimPath]byte
	shimReply     [int(unsafe.Sizeof(shimAnswer{})) + wire.MaxShimText]byte
	shimOut       [64 << 10]byte
	shimInfo      [128]byte // a signalfd_siginfo
	shimDigits    [24]byte
)

// beforeRuntime is a whole shim, or returns if this process is to be an agent.
//
//lint:ignore U1000 the program's entry calls it, which is assembly
func beforeRuntime() {
	var c shim
	c.argc = *(*int)(startStack)
	c.argv = unsafe.Add(startStack, 8)
	c.envp = unsafe.Add(c.argv, 8*(c.argc+1))
	if !c.recognize() {
		return
	}
	// A process whose program cannot be read, as the agent's, shows no environment, by which
	// the agent knows what run it belongs to.
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0, 0)
	c.lookUp()
	c.ask()
	c.admit()
	c.start()
	c.serve()
	c.end()
}

// word returns the nth pointer of a list.
func word(list unsafe.Pointer, n int) *byte { return *(**byte)(unsafe.Add(list, 8*n)) }

// text returns the string at a pointer of the kernel's.
func text(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return unsafe.String(p, n)
}

// sys makes a system call and returns its result, or the negated errno.
func sys(trap, a, b, c, d, e, f uintptr) int {
	for {
		n, _, errno := syscall.RawSyscall6(trap, a, b, c, d, e, f)
		switch {
		case errno == 0:
			return int(n)
		case errno != syscall.EINTR:
			return -int(errno)
		}
	}
}

func ptr(b *byte) uintptr { return uintptr(unsafe.Pointer(b)) }

// at is the directory that paths are relative to: the working directory.
func at() uintptr { n := unix.AT_FDCWD; return uintptr(n) }

// recognize finds out whether this process is a shim. The path that it was executed by
// decides, which callers cannot choose like argv[0]. It can be a link to the shim's own
// link, as in an environment of Python; and of a script that names a shim as its
// interpreter, argv[0] is the shim.
func (c *shim) recognize() (ok bool) {
	const atExecfn = 31
	n := 0
	for word(c.envp, n) != nil {
		n++
	}
	aux := unsafe.Add(c.envp, 8*(n+1))
	for ; *(*uintptr)(aux) != 0; aux = unsafe.Add(aux, 16) {
		if *(*uintptr)(aux) == atExecfn {
			c.link = text(word(aux, 1))
		}
	}
	if c.dir, c.name, ok = shimOf(c.link); ok {
		return true
	}
	target := readLink(c.link)
	if target == shimTarget { // by another name of the directory
		return c.aside()
	}
	if c.dir, c.name, ok = c.from(target); ok {
		return true
	}
	if c.argc == 0 {
		return false
	}
	c.dir, c.name, ok = c.from(text(word(c.argv, 0)))
	return ok
}

// readLink returns where a link leads to, until the next call; "" if the path is no link.
func readLink(path string) string {
	n := sys(unix.SYS_READLINKAT, at(), ptr(unsafe.StringData(path)), ptr(&shimTargetBuf[0]), uintptr(len(shimTargetBuf)-1), 0, 0)
	if n <= 0 {
		return ""
	}
	return unsafe.String(&shimTargetBuf[0], n)
}

// aside recognizes a shim whose path names the directory otherwise, by a link to it: the
// socket is beside the directory in any case.
func (c *shim) aside() bool {
	i := strings.LastIndexByte(c.link, '/')
	if c.name = c.link[i+1:]; c.name == "" || i < 0 || i+len("/..") >= len(shimLink) {
		return false
	}
	n := copy(shimLink[:], c.link[:i+1])
	n += copy(shimLink[n:], "..")
	c.dir = unsafe.String(&shimLink[0], n)
	return true
}

// from returns the shim of an absolute path. The path is copied, since its buffer is used
// again.
func (c *shim) from(path string) (dir, name string, ok bool) {
	if len(path) == 0 || path[0] != '/' || len(path) >= len(shimLink) {
		return "", "", false
	}
	if _, _, ok = shimOf(path); !ok {
		return "", "", false
	}
	copy(shimLink[:], path)
	c.link = unsafe.String(&shimLink[0], len(path))
	return shimOf(c.link)
}

// env returns the value of a variable, whose name ends in "=".
func (c *shim) env(name string) (value string, ok bool) {
	for i := 0; word(c.envp, i) != nil; i++ {
		if v := text(word(c.envp, i)); strings.HasPrefix(v, name) {
			return v[len(name):], true
		}
	}
	return "", false
}

// lookUp finds the real program as a shell would, in all directories of PATH but those of
// shims. The shim looks and not the agent: it sees the files as the caller does, and a
// directory that does not answer stops no other call.
func (c *shim) lookUp() {
	var self, st unix.Stat_t
	if c.stat(c.link, &self) != 0 {
		c.fail("find itself at ", c.link, 0)
	}
	path, ok := c.env("PATH=")
	if !ok {
		path = defaultPath[len("PATH="):]
	}
	for more := true; more; {
		var dir string
		dir, path, more = cutPath(path)
		if isShimDir(dir) || len(dir)+len(c.name)+2 > len(shimFile) {
			continue
		}
		file := joinPath(&shimFile, dir, c.name)
		switch {
		case c.stat(file, &st) != 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Dev == self.Dev && st.Ino == self.Ino:
		case readLink(file) == shimTarget: // a shim of another agent, in a directory that a link names
		case sys(unix.SYS_FACCESSAT, at(), ptr(unsafe.StringData(file)), unix.X_OK, 0, 0, 0) == 0:
			c.program = file
			return
		case c.unusable == "":
			copy(shimUnusable[:], file)
			c.unusable = unsafe.String(&shimUnusable[0], len(file))
		}
	}
}

// cutPath returns the first directory of a PATH and the rest.
func cutPath(path string) (dir, rest string, more bool) {
	if i := strings.IndexByte(path, ':'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return path, "", false
}

// isShimDir reports whether a directory of PATH is one of shims, of any agent.
func isShimDir(dir string) bool {
	for len(dir) > 1 && dir[len(dir)-1] == '/' {
		dir = dir[:len(dir)-1]
	}
	i := strings.LastIndexByte(dir, '/')
	if i <= 0 || dir[i:] != shimBin {
		return false
	}
	return strings.HasPrefix(dir[strings.LastIndexByte(dir[:i], '/')+1:], shimDirPrefix)
}

// joinPath returns the path of a file in a directory, with a NUL behind it. The caller checks
// that it fits.
func joinPath(buf *[maxShimPath]byte, dir, name string) string {
	n := copy(buf[:], dir)
	if n > 0 && buf[n-1] != '/' {
		n += copy(buf[n:], "/")
	}
	n += copy(buf[n:], name)
	buf[n] = 0
	return unsafe.String(&buf[0], n)
}

// stat is stat(2) of a path with a NUL behind it. It returns the negated errno.
func (c *shim) stat(path string, st *unix.Stat_t) int {
	return sys(unix.SYS_NEWFSTATAT, at(), ptr(unsafe.StringData(path)), uintptr(unsafe.Pointer(st)), 0, 0, 0)
}

// ask sends the request and receives the answer.
func (c *shim) ask() {
	c.inspect()
	c.conn = high(sys(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0, 0, 0, 0))
	if c.conn < 0 {
		c.fail("open a socket", "", -c.conn)
	}
	limit := unix.Timeval{Sec: shimPatience}
	for _, option := range [2]uintptr{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		sys(unix.SYS_SETSOCKOPT, uintptr(c.conn), unix.SOL_SOCKET, option, uintptr(unsafe.Pointer(&limit)), unsafe.Sizeof(limit), 0)
	}
	var addr unix.RawSockaddrUnix
	addr.Family = unix.AF_UNIX
	if len(c.dir)+len(shimSocket) >= len(shimFile) {
		c.fail("connect to the agent", "", int(unix.ENAMETOOLONG))
	}
	path := joinPath(&shimTargetBuf, c.dir, shimSocket[1:])
	n := sys(unix.SYS_READLINKAT, at(), ptr(unsafe.StringData(path)), uintptr(unsafe.Pointer(&addr.Path)), uintptr(len(addr.Path)), 0, 0)
	if n > 0 {
		addr.Path[0] = 0 // in place of the @
		n = sys(unix.SYS_CONNECT, uintptr(c.conn), uintptr(unsafe.Pointer(&addr)), unsafe.Offsetof(addr.Path)+uintptr(n), 0, 0, 0)
	}
	if n < 0 {
		c.fail("connect to the agent", "", -n)
	}
	var cred unix.Ucred
	size := uint32(unsafe.Sizeof(cred))
	if sys(unix.SYS_GETSOCKOPT, uintptr(c.conn), unix.SOL_SOCKET, unix.SO_PEERCRED, uintptr(unsafe.Pointer(&cred)), uintptr(unsafe.Pointer(&size)), 0) == 0 {
		c.agent = int(cred.Pid)
	}
	c.send()
	c.receive()
}

// high moves a descriptor above the standard ones, which may be closed and stay so. A
// negative one is an errno.
func high(fd int) int {
	if fd < 0 || fd > 2 {
		return fd
	}
	moved := sys(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 3, 0, 0, 0)
	sys(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
	return moved
}

// inspect looks at the three streams, before the shim opens anything.
func (c *shim) inspect() {
	for i := range c.streams {
		var st unix.Stat_t
		if sys(unix.SYS_FSTAT, uintptr(i), uintptr(unsafe.Pointer(&st)), 0, 0, 0, 0) == 0 {
			c.streams[i] = shimStream{Dev: st.Dev, Ino: st.Ino, Mode: st.Mode}
		}
	}
	c.merged = c.streams[1].Mode != 0 && c.streams[1].Dev == c.streams[2].Dev && c.streams[1].Ino == c.streams[2].Ino
}

// send sends the request as one packet. The arguments are one piece of memory.
func (c *shim) send() {
	r := shimRequest{Magic: shimMagic, Args: uint32(c.argc), Name: uint32(len(c.name)), Program: uint32(len(c.program)), Streams: c.streams}
	var args *byte
	if c.argc > 0 {
		args = word(c.argv, 0)
		last := word(c.argv, c.argc-1)
		r.All = uint64(ptr(last)-ptr(args)) + uint64(len(text(last))) + 1
		r.Listed = uint32(min(r.All, maxShimArgs))
	}
	parts := [4]unix.Iovec{
		{Base: (*byte)(unsafe.Pointer(&r)), Len: uint64(shimHeader)},
		{Base: unsafe.StringData(c.name), Len: uint64(r.Name)},
		{Base: unsafe.StringData(c.program), Len: uint64(r.Program)},
		{Base: args, Len: uint64(r.Listed)},
	}
	msg := unix.Msghdr{Iov: &parts[0], Iovlen: uint64(len(parts))}
	if n := sys(unix.SYS_SENDMSG, uintptr(c.conn), uintptr(unsafe.Pointer(&msg)), unix.MSG_NOSIGNAL, 0, 0, 0); n < 0 {
		c.fail("ask the agent", "", -n)
	}
}

// receive receives the answer.
func (c *shim) receive() {
	n := sys(unix.SYS_RECVFROM, uintptr(c.conn), ptr(&shimReply[0]), uintptr(len(shimReply)), 0, 0, 0)
	const header = int(unsafe.Sizeof(shimAnswer{}))
	if n < 0 {
		c.fail("receive the agent's answer", "", -n)
	}
	c.answer = *(*shimAnswer)(unsafe.Pointer(&shimReply[0]))
	if n < header || int(c.answer.Text) != n-header || c.answer.Verdict != shimAllow && c.answer.Verdict != shimDeny {
		c.fail("receive the agent's answer: it closed the connection", "", 0)
	}
}

// admit ends the shim if no program is to be started.
func (c *shim) admit() {
	const header = int(unsafe.Sizeof(shimAnswer{}))
	switch {
	case c.answer.Verdict == shimDeny:
		inert(shimReply[header : header+int(c.answer.Text)])
		c.say(c.name, ": ", unsafe.String(&shimReply[header], int(c.answer.Text)))
		c.report(shimDenied, shimDeniedCode<<8)
		exit(shimDeniedCode)
	case c.program == "" && c.unusable != "":
		c.say(c.name, ": ", c.unusable, ": Permission denied")
		c.report(shimMissing, shimDeniedCode<<8)
		exit(shimDeniedCode)
	case c.program == "":
		c.say(c.name, ": command not found")
		c.report(shimMissing, shimMissingCode<<8)
		exit(shimMissingCode)
	}
}

// inert replaces control characters: another process may have answered in the agent's place.
func inert(p []byte) {
	for i, b := range p {
		if b < ' ' || b == 0x7f || b&0xe0 == 0x80 && i > 0 && p[i-1] == 0xc2 { // the last: U+0080 to U+009F
			p[i] = '?'
			if b >= 0x80 {
				p[i-1] = '?'
			}
		}
	}
}

// start starts the program. From here on no signal ends the shim, which the program
// inherits nothing of.
func (c *shim) start() {
	c.out, c.signals, c.deadline = never, never, never
	write := never
	if c.answer.Bytes > 0 || c.answer.Lines > 0 {
		var ends [2]int32
		if n := sys(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&ends)), unix.O_CLOEXEC, 0, 0, 0, 0); n < 0 {
			c.fail("open a pipe", "", -n)
		}
		if c.out, write = high(int(ends[0])), high(int(ends[1])); c.out < 0 || write < 0 {
			c.fail("open a pipe", "", int(unix.EMFILE))
		}
		sys(unix.SYS_FCNTL, uintptr(c.out), unix.F_SETFL, unix.O_NONBLOCK, 0, 0, 0)
		c.cut = cutter{bytes: c.answer.Bytes, lines: c.answer.Lines}
	}
	all := ^uint64(0)
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&c.before)), 8, 0, 0)
	var was, byDefault sigaction
	rtSigaction(unix.SIGCHLD, nil, &was)
	if c.childBlind = was[0] == sigIgnore; c.childBlind { // the kernel would keep no exit code
		rtSigaction(unix.SIGCHLD, &byDefault, nil)
	}
	if c.signals = high(sys(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&all)), 8, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)); c.signals < 0 {
		c.fail("receive signals", "", -c.signals)
	}
	if c.answer.TimeoutMillis > 0 {
		c.deadline = now() + c.answer.TimeoutMillis*1e6
	}
	self := sys(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	c.child = sys(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	switch {
	case c.child < 0:
		c.fail("start the program", "", -c.child)
	case c.child == 0:
		c.become(self, write)
	}
	c.closeRest()
}

// sigIgnore is the handler of an ignored signal.
const sigIgnore = 1

// become makes the child the program.
func (c *shim) become(parent, write int) {
	if write != never {
		sys(unix.SYS_DUP3, uintptr(write), 1, 0, 0, 0, 0)
		if c.merged {
			sys(unix.SYS_DUP3, uintptr(write), 2, 0, 0, 0, 0)
		}
	}
	// If the shim is killed, the program is too.
	sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if sys(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0) != parent {
		exit(128 + int(unix.SIGKILL))
	}
	if c.childBlind {
		var ignore sigaction
		rtSigaction(unix.SIGCHLD, nil, &ignore)
		ignore[0] = sigIgnore
		rtSigaction(unix.SIGCHLD, &ignore, nil)
	}
	c.conceal()
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.before)), 0, 8, 0, 0)
	n := sys(unix.SYS_EXECVE, ptr(unsafe.StringData(c.program)), uintptr(c.argv), uintptr(c.envp), 0, 0, 0)
	if n == -int(unix.ENOEXEC) { // a script without a line that names its interpreter
		n = c.script()
	}
	code := shimDeniedCode
	if n == -int(unix.ENOENT) {
		code = shimMissingCode
	}
	c.say(c.name, ": ", c.program, ": ", reason(-n))
	exit(code)
}

// conceal replaces what names the shim in the arguments and the environment of the
// program: argv[0], if the shim was called by its path, and the variable _ of bash.
func (c *shim) conceal() {
	if c.argc > 0 && text(word(c.argv, 0)) == c.link {
		*(**byte)(c.argv) = unsafe.StringData(c.program)
	}
	for i := 0; word(c.envp, i) != nil; i++ {
		if v := text(word(c.envp, i)); len(v) > 2 && v[:2] == "_=" && v[2:] == c.link {
			n := copy(shimOut[:], "_=")
			n += copy(shimOut[n:len(shimOut)-1], c.program)
			shimOut[n] = 0
			*(**byte)(unsafe.Add(c.envp, 8*i)) = &shimOut[0]
		}
	}
}

// script runs a program that is a script without an interpreter, like execvp. It returns
// the negated errno.
func (c *shim) script() int {
	// The list of arguments has the variables behind it, which move with the last argument.
	const shell = "/bin/sh\x00"
	list := unsafe.Add(c.argv, -8) // argc, which nothing reads any more
	*(**byte)(list) = unsafe.StringData(shell)
	if c.argc == 0 {
		return -int(unix.ENOEXEC)
	}
	*(**byte)(c.argv) = unsafe.StringData(c.program)
	return sys(unix.SYS_EXECVE, ptr(unsafe.StringData(shell)), uintptr(list), uintptr(c.envp), 0, 0, 0)
}

// closeRest closes the caller's descriptors in the shim: whoever reads or writes at their
// other ends waits for the program alone.
func (c *shim) closeRest() {
	keep := [5]int{c.conn, c.signals, c.out, never, never}
	if c.out != never {
		keep[3] = 1
	}
	if c.deadline != never {
		keep[4] = 2 // for the message
	}
	for from := 0; ; {
		next := 1 << 30
		for _, fd := range keep {
			if fd >= from && fd < next {
				next = fd
			}
		}
		if next == 1<<30 {
			closeFrom(from)
			return
		}
		for ; from < next && next < 64; from++ { // a few: cheaper than the other call
			sys(unix.SYS_CLOSE, uintptr(from), 0, 0, 0, 0, 0)
		}
		if from < next {
			closeRange(from, next-1)
		}
		from = next + 1
	}
}

func closeFrom(first int) { closeRange(first, 1<<31-1) }

// closeRange closes descriptors. Kernels before 5.9 cannot do it at once.
func closeRange(first, last int) {
	if sys(unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(last), 0, 0, 0, 0) == 0 {
		return
	}
	for fd := first; fd <= min(last, maxFiles); fd++ {
		sys(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
	}
}

// serve waits for the end of the program. Meanwhile it passes on output and signals.
func (c *shim) serve() {
	for c.child != 0 {
		files := [2]unix.PollFd{{Fd: int32(c.signals), Events: unix.POLLIN}, {Fd: int32(c.out), Events: unix.POLLIN}} // a negative one is ignored
		c.poll(&files)
		if files[1].Revents != 0 {
			c.pass()
		}
		if files[0].Revents != 0 {
			c.hear()
		}
		c.checkTime()
	}
	c.finish()
}

// finish passes on what the program has printed before its end. Processes that it has left
// behind can print for ever, and have another process for that.
func (c *shim) finish() {
	if c.out == never {
		return
	}
	var have int32
	sys(unix.SYS_IOCTL, uintptr(c.out), unix.TIOCINQ, uintptr(unsafe.Pointer(&have)), 0, 0, 0)
	for n := 1; n > 0 && have > 0; have -= int32(n) {
		n = c.pass()
	}
	file := unix.PollFd{Fd: int32(c.out), Events: unix.POLLIN}
	var none unix.Timespec
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&file)), 1, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
	if c.out != never && file.Revents != unix.POLLHUP { // a process can still print
		c.leave()
	}
}

func (c *shim) poll(files *[2]unix.PollFd) {
	var limit unix.Timespec
	var at *unix.Timespec
	if c.deadline != never {
		left := max(0, c.deadline-now())
		limit = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		at = &limit
	}
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(files)), uintptr(len(files)), uintptr(unsafe.Pointer(at)), 0, 0, 0)
}

// now returns the time of a clock that only goes forward, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	sys(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&t)), 0, 0, 0, 0)
	return t.Sec*1e9 + t.Nsec
}

// checkTime ends a program that is at its time limit.
func (c *shim) checkTime() {
	if c.child == 0 || c.deadline == never || now() < c.deadline {
		return
	}
	sig := unix.SIGTERM
	if c.timedOut {
		sig = unix.SIGKILL
	}
	c.kill(c.child, sig)
	c.kill(c.child, unix.SIGCONT)
	c.timedOut, c.deadline = true, now()+shimGrace
}

func (c *shim) kill(pid int, sig syscall.Signal) int {
	return sys(unix.SYS_KILL, uintptr(pid), uintptr(sig), 0, 0, 0, 0)
}

// hear reads signals. One that a process sent to the shim is passed on: the sender knows
// only the shim. What the terminal sends goes to the whole process group, and the agent
// signals every process itself.
func (c *shim) hear() {
	for {
		n := sys(unix.SYS_READ, uintptr(c.signals), ptr(&shimInfo[0]), uintptr(len(shimInfo)), 0, 0, 0)
		if n < len(shimInfo) {
			break
		}
		info := (*unix.SignalfdSiginfo)(unsafe.Pointer(&shimInfo[0]))
		sig := syscall.Signal(info.Signo)
		switch {
		case sig == unix.SIGCHLD || c.child == 0:
		case sig == unix.SIGALRM: // a timer that the caller set before it executed the shim
			c.kill(c.child, sig)
		case info.Code > 0 || int(info.Pid) == c.agent && c.agent != 0 || int(info.Pid) == sys(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0):
		default:
			c.kill(c.child, sig)
		}
	}
	for c.child != 0 {
		var status uint32
		if sys(unix.SYS_WAIT4, uintptr(c.child), uintptr(unsafe.Pointer(&status)), unix.WNOHANG|unix.WUNTRACED, 0, 0, 0) != c.child {
			return
		}
		if wait := syscall.WaitStatus(status); wait.Stopped() {
			c.suffer(wait.StopSignal()) // for the shell that waits for the shim
		} else {
			c.status, c.child = status, 0
		}
	}
}

// suffer has a signal do to the shim what it does to a program that does not expect it.
func (c *shim) suffer(sig syscall.Signal) {
	var byDefault sigaction
	rtSigaction(sig, &byDefault, nil)
	all := ^uint64(0)
	but := all &^ (1 << (uint(sig) - 1))
	c.kill(sys(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0), sig)
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&but)), 0, 8, 0, 0)
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0)
}

// pass passes on what the program has printed, as far as the limit goes. What is above it
// is read and dropped, so that the program ends as it would: one that changes something
// must not be ended half way. It returns how many bytes it has read; none if there are none now.
func (c *shim) pass() int {
	n := sys(unix.SYS_READ, uintptr(c.out), ptr(&shimOut[0]), uintptr(len(shimOut)), 0, 0, 0)
	if n == -int(unix.EAGAIN) {
		return 0
	}
	if n <= 0 || !c.print(n) {
		c.closeOut() // the program learns by SIGPIPE that its output has no reader any more
		return 0
	}
	return n
}

func (c *shim) closeOut() {
	sys(unix.SYS_CLOSE, uintptr(c.out), 0, 0, 0, 0, 0)
	c.out = never
}

// print writes the part of n bytes in shimOut that the limit lets through. It reports false
// if they have no reader.
func (c *shim) print(n int) bool {
	most, cut := c.cut.take(unsafe.Slice(&shimOut[0], n))
	if !write(1, unsafe.String(&shimOut[0], most)) {
		return false
	}
	if !cut {
		return true
	}
	if c.cut.inLine && !write(1, "\n") {
		return false
	}
	return write(1, truncated)
}

// A cutter counts output up to a limit.
type cutter struct {
	bytes, lines int64 // what may still pass; a limit that is not positive at first is none
	passed       int64
	ended        int64 // lines
	inLine       bool  // the last byte that passed ends no line
	over         bool
}

// take returns how many bytes of a piece of output pass, and whether the limit is reached
// with this piece: there is more than passes.
func (t *cutter) take(p []byte) (n int, cut bool) {
	if t.over {
		return 0, false
	}
	for n < len(p) && (t.bytes <= 0 || t.passed < t.bytes) && (t.lines <= 0 || t.ended < t.lines) {
		if t.passed++; p[n] == '\n' {
			t.ended++
		}
		n++
	}
	if t.over = n < len(p); t.over {
		for back := 1; back <= min(3, n) && p[n]&0xC0 == 0x80; back++ { // within a character
			n--
		}
	}
	if n > 0 {
		t.inLine = p[n-1] != '\n'
	}
	return n, t.over
}

// write writes all of s to a descriptor. It reports false if that has no reader.
func write(fd int, s string) bool {
	for len(s) > 0 {
		n := sys(unix.SYS_WRITE, uintptr(fd), ptr(unsafe.StringData(s)), uintptr(len(s)), 0, 0, 0)
		switch {
		case n == -int(unix.EAGAIN): // another process made the output non-blocking
			file := unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT}
			syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&file)), 1, 0, 0, 0, 0)
		case n < 0:
			return false
		default:
			s = s[n:]
		}
	}
	return true
}

// leave leaves a process behind that passes on output, for processes that the program has
// left behind and that can still print.
func (c *shim) leave() {
	if sys(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0) != 0 {
		return // the shim itself goes on to its end
	}
	closeRange(2, c.out-1)
	closeFrom(c.out + 1)
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.before)), 0, 8, 0, 0)
	sys(unix.SYS_FCNTL, uintptr(c.out), unix.F_SETFL, 0, 0, 0, 0)
	for c.out != never {
		c.pass()
	}
	exit(0)
}

// end reports the end and ends as the program ended.
func (c *shim) end() {
	if c.timedOut {
		c.say(c.name, ": the program was ended at its time limit of ", number(c.answer.TimeoutMillis), " ms", " (the setting shims.timeout)")
		c.report(shimTimedOut, c.status)
		exit(shimTimeoutCode)
	}
	c.report(shimExited, c.status)
	wait := syscall.WaitStatus(c.status)
	if !wait.Signaled() {
		exit(wait.ExitStatus())
	}
	var none unix.Rlimit
	sys(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&none)), 0, 0, 0) // the program has had its own
	c.suffer(wait.Signal())
	exit(128 + int(wait.Signal()))
}

// report tells the agent how the call ended, and waits until that is recorded. Without an
// agent the program's exit still counts.
func (c *shim) report(how, status uint32) {
	e := shimEnd{How: how, Status: status}
	if c.cut.over {
		e.Cut = 1
	}
	if sys(unix.SYS_SENDTO, uintptr(c.conn), uintptr(unsafe.Pointer(&e)), unsafe.Sizeof(e), unix.MSG_NOSIGNAL, 0, 0) > 0 {
		sys(unix.SYS_RECVFROM, uintptr(c.conn), ptr(&shimReply[0]), 1, 0, 0, 0)
	}
}

// fail ends the shim because of a failure of its own: no program was started.
func (c *shim) fail(what, which string, errno int) {
	if errno != 0 {
		c.say(c.name, ": the shim of warmbox cannot ", what, which, ": ", reason(errno), "; the program was not started")
	} else {
		c.say(c.name, ": the shim of warmbox cannot ", what, which, "; the program was not started")
	}
	exit(shimFailedCode)
}

// say writes one line to stderr, if that is open.
func (c *shim) say(parts ...string) {
	if c.streams[2].Mode == 0 {
		return
	}
	n := copy(shimOut[:], "warmbox: ")
	for _, part := range parts {
		n += copy(shimOut[n:len(shimOut)-1], part)
	}
	shimOut[n] = '\n'
	write(2, unsafe.String(&shimOut[0], n+1))
}

// reason names the errors that a shim can meet. Of another one it returns the number.
func reason(errno int) string {
	switch syscall.Errno(errno) {
	case unix.ENOENT:
		return "No such file or directory"
	case unix.EACCES:
		return "Permission denied"
	case unix.EPERM:
		return "Operation not permitted"
	case unix.ECONNREFUSED:
		return "Connection refused"
	case unix.ECONNRESET, unix.EPIPE:
		return "Connection closed"
	case unix.EAGAIN:
		return "Resource temporarily unavailable"
	case unix.ENOMEM:
		return "Cannot allocate memory"
	case unix.E2BIG:
		return "Argument list too long"
	case unix.EMFILE, unix.ENFILE:
		return "Too many open files"
	case unix.ENOEXEC:
		return "Exec format error"
	case unix.ELOOP:
		return "Too many levels of symbolic links"
	case unix.ENAMETOOLONG:
		return "File name too long"
	}
	return number(int64(errno))
}

// number returns a number that is not negative as text, until the next call.
func number(n int64) string {
	at := len(shimDigits)
	for at--; ; at-- {
		shimDigits[at] = byte('0' + n%10)
		if n /= 10; n == 0 || at == 0 {
			return unsafe.String(&shimDigits[at], len(shimDigits)-at)
		}
	}
}

// exit ends the process.
func exit(code int) {
	for {
		sys(unix.SYS_EXIT_GROUP, uintptr(code), 0, 0, 0, 0, 0)
	}
}
