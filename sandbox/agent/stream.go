//go:build linux

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sockets are used through os.File: package net would double the size of the agent. An
// os.File of a non-blocking socket uses the same poller.

// hostSource yields the agent's hosts. Only the serving goroutine calls it.
type hostSource interface {
	// next waits for a host. The stream of the one before has ended.
	next() (io.ReadWriteCloser, error)

	// setPersistent says, after a host's Hello, whether other hosts may follow.
	setPersistent(bool)
}

const (
	// dialTimeout is how long a host may take to admit its agent. The host recognizes the
	// agent by its pid, which the engine reports only after the agent has started.
	dialTimeout = 5 * time.Second
	dialPause   = 5 * time.Millisecond

	// maxDialPause is the longest pause between two attempts to reach the next host. It
	// is how long a restarted server waits at most, and costs little over a day.
	maxDialPause = 500 * time.Millisecond

	// helloTimeout is how long a later host may take to send its Hello, so that one that
	// hangs does not keep out the next.
	helloTimeout = 10 * time.Second
)

// A dialer dials the host until the host sends its Hello. Before that a connection may
// fail: another process may have filled the host's backlog, and a host that does not know
// the agent's pid yet closes its connection as unauthenticated.
type dialer struct {
	path  string
	until time.Time     // the deadline; zero: none
	pause time.Duration // before the next attempt; 0 at first
	err   error         // of the last attempt
}

func newDialer(path string) *dialer {
	return &dialer{path: path, until: time.Now().Add(dialTimeout)}
}

func (d *dialer) setPersistent(persistent bool) {
	if persistent {
		d.until, d.pause = time.Time{}, dialPause
	}
}

func (d *dialer) next() (io.ReadWriteCloser, error) {
	for d.err == nil || d.until.IsZero() || time.Now().Before(d.until) {
		d.backOff()
		conn, err := dialUnix(d.path)
		if err == nil {
			d.err = errNoHello // the result if next is called again
			return conn, nil
		}
		d.err = err
	}
	return nil, fmt.Errorf("dial the host at %s: %w", d.path, d.err)
}

// backOff waits between two attempts: for the first host a constant time, for later ones
// a time that doubles.
func (d *dialer) backOff() {
	time.Sleep(d.pause)
	if d.pause = max(d.pause, dialPause); d.until.IsZero() {
		d.pause = min(2*d.pause, maxDialPause)
	}
}

func dialUnix(name string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// The connect blocks: with a full backlog it waits instead of failing.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name), nil
}

// A listener accepts connections of processes of one user id. Commands have another one;
// their connections are closed at once and get no byte. If the box is not persistent, the
// listener closes after the first host's Hello.
type listener struct {
	fd    int
	name  string
	uid   int
	later chan *os.File // the hosts after the first; nil if there are none

	current *os.File // the newest host; owned by acceptLater once that runs
}

func newListener(name string, uid int) (*listener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	return &listener{fd: fd, name: name, uid: uid}, nil
}

func (d *listener) next() (io.ReadWriteCloser, error) {
	if d.fd < 0 {
		return nil, errNoHello
	}
	if d.later != nil {
		return <-d.later, nil
	}
	conn, err := d.accept()
	if err != nil {
		return nil, err
	}
	d.current = conn
	return conn, nil
}

// setPersistent keeps listening while hosts may come: if the listener were closed, a
// command could listen under its name.
func (d *listener) setPersistent(persistent bool) {
	switch {
	case !persistent:
		unix.Close(d.fd)
		d.fd = -1
	case d.later == nil:
		d.later = make(chan *os.File)
		go d.acceptLater()
	}
}

// acceptLater accepts hosts until the process ends. A new host replaces the one before,
// whose relay may hang.
func (d *listener) acceptLater() {
	for {
		conn, err := d.accept()
		if err != nil {
			return // without a next host the agent ends after its keep time
		}
		d.current.Close()
		d.current = conn
		d.later <- conn
	}
}

func (d *listener) accept() (*os.File, error) {
	for {
		conn, _, err := unix.Accept4(d.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EINTR || err == unix.ECONNABORTED {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("accept on %s: %w", d.name, err)
		}
		cred, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && int(cred.Uid) == d.uid {
			return os.NewFile(uintptr(conn), d.name), nil
		}
		unix.Close(conn)
	}
}

// singleHost yields one host.
type singleHost struct{ stream io.ReadWriteCloser }

func (o *singleHost) setPersistent(bool) {}

func (o *singleHost) next() (io.ReadWriteCloser, error) {
	stream := o.stream
	if stream == nil {
		return nil, errNoHello
	}
	o.stream = nil
	return stream, nil
}

// relay connects stdio to the agent that listens in the same box.
func relay(args []string) error {
	if len(args) == 0 || !strings.HasPrefix(args[0], "@") {
		return errors.New(usage)
	}
	fs := flag.NewFlagSet("dial", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	pid := fs.Int("pid", 1, "")
	if err := fs.Parse(args[1:]); err != nil || fs.NArg() > 0 {
		return errors.New(usage)
	}
	conn, err := dialUnix(args[0])
	if err != nil {
		return fmt.Errorf("dial the agent at %s: %w", args[0], err)
	}
	cred, err := peer(conn)
	if err != nil {
		return fmt.Errorf("read the peer of %s: %w", args[0], err)
	}
	if int(cred.Pid) != *pid {
		return fmt.Errorf("%s belongs to process %d, not to the agent, process %d", args[0], cred.Pid, *pid)
	}
	return join(conn, os.Stdin, os.Stdout)
}

func peer(conn *os.File) (cred *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return cred, err
}

// join copies both ways until the agent closes the connection. The end of in is passed
// on, and makes the agent close it.
func join(conn *os.File, in io.Reader, out io.Writer) error {
	go func() {
		io.Copy(conn, in)
		if raw, err := conn.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) })
		}
	}()
	_, err := io.Copy(out, conn)
	return err
}

// stdio is standard input and output as one stream. Commands cannot reach it: their
// standard descriptors are never the agent's.
type stdio struct{ in, out *os.File }

func stdioStream() stdio { return stdio{pollable(0, "stdin"), pollable(1, "stdout")} }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// pollable moves a descriptor above the standard ones and into the poller, so that
// waiting for it blocks no thread.
func pollable(fd int, name string) *os.File {
	if dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		fd = dup
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
