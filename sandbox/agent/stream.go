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

// Sockets are used through os.File rather than package net, which would double
// the agent: an os.File of a non-blocking socket waits in the same poller.

// hosts is where the agent's hosts come from. Only the serving goroutine calls it.
type hosts interface {
	// next waits for a host. The one before has hung up.
	next() (io.ReadWriteCloser, error)

	// keep says, when one has spoken, whether others may follow.
	keep(bool)
}

const (
	// dialPatience is how long a host may take to admit its agent. It knows us
	// by our pid, which the engine tells it only when we run already.
	dialPatience = 5 * time.Second
	dialPause    = 5 * time.Millisecond

	// maxDialPause is between two looks for the next host: what a server that was
	// started again is kept waiting at most, and cheap enough for a day.
	maxDialPause = 500 * time.Millisecond

	// greetPatience is how long one that comes later may take to speak, so that
	// none which hangs keeps out the next.
	greetPatience = 10 * time.Second
)

// A dialer dials the host until it speaks: a stranger may have filled its
// backlog, and before it knows our pid it may take us for one.
type dialer struct {
	path  string
	until time.Time     // zero: nothing here gives up
	pause time.Duration // before the next time; 0 at first
	err   error         // of the last time
}

func newDialer(path string) *dialer {
	return &dialer{path: path, until: time.Now().Add(dialPatience)}
}

func (d *dialer) keep(kept bool) {
	if kept {
		d.until, d.pause = time.Time{}, dialPause
	}
}

func (d *dialer) next() (io.ReadWriteCloser, error) {
	for d.err == nil || d.until.IsZero() || time.Now().Before(d.until) {
		d.rest()
		conn, err := dialUnix(d.path)
		if err == nil {
			d.err = errNoHello // or this is not asked again
			return conn, nil
		}
		d.err = err
	}
	return nil, fmt.Errorf("dial the host at %s: %w", d.path, d.err)
}

// rest waits between two times: for the first host a little, for one that comes
// later longer and longer.
func (d *dialer) rest() {
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
	// Blocking: a full backlog makes us wait rather than fail.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name), nil
}

// A door is a listener for processes of one user id. Commands have another one, so
// they are all turned away, at once and without a byte. Where only one host is
// awaited it closes when that is there.
type door struct {
	fd    int
	name  string
	uid   int
	later chan *os.File // the hosts after the first; nil where there are none

	current *os.File // the newest host; admit's where that runs
}

func newDoor(name string, uid int) (*door, error) {
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
	return &door{fd: fd, name: name, uid: uid}, nil
}

func (d *door) next() (io.ReadWriteCloser, error) {
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

// keep leaves the door open all the time that hosts may come: were it shut, a
// command could listen in its place.
func (d *door) keep(kept bool) {
	switch {
	case !kept:
		unix.Close(d.fd)
		d.fd = -1
	case d.later == nil:
		d.later = make(chan *os.File)
		go d.admit()
	}
}

// admit lets hosts in until the process ends, which its box does with it. A new
// one takes the place of the one before, whose relay may hang.
func (d *door) admit() {
	for {
		conn, err := d.accept()
		if err != nil {
			return // what ends us then is that nobody comes
		}
		d.current.Close()
		d.current = conn
		d.later <- conn
	}
}

func (d *door) accept() (*os.File, error) {
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

// once is one host.
type once struct{ stream io.ReadWriteCloser }

func (o *once) keep(bool) {}

func (o *once) next() (io.ReadWriteCloser, error) {
	stream := o.stream
	if stream == nil {
		return nil, errNoHello
	}
	o.stream = nil
	return stream, nil
}

// relay joins stdio to the agent that listens in the same box.
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
		return fmt.Errorf("ask who listens at %s: %w", args[0], err)
	}
	if int(cred.Pid) != *pid {
		return fmt.Errorf("%s belongs to process %d, not to the agent", args[0], cred.Pid)
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

// join copies both ways until the agent hangs up. The end of in is passed on,
// and the agent hangs up then.
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

// stdio is standard input and output as one stream, out of reach for commands,
// whose own are never ours.
type stdio struct{ in, out *os.File }

func stdioStream() stdio { return stdio{pollable(0, "stdin"), pollable(1, "stdout")} }

func (s stdio) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s stdio) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s stdio) Close() error                { return errors.Join(s.in.Close(), s.out.Close()) }

// pollable moves a descriptor out of the way and into the poller, so that
// waiting for it holds no thread.
func pollable(fd int, name string) *os.File {
	if dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err == nil {
		fd = dup
	}
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
